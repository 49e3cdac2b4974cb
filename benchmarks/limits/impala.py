# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""All updates of IMPALA on one batch as one program, for float observations and one integer action."""

import tensorflow as tf

from benchmarks.limits.parts import FIRST, Scales, Weights, discounted_sums, mlp, repeat


class Impala:
    """Separate networks of policy and value, V-trace whose thresholds are 1, minibatches of segments, Adam.

    Args:
        policy, value: lists of kernels and biases.
        segment: int, steps of a segment, which stay together.
        discount, vtrace_lambda, value_loss_weight, entropy_weight: numbers.
        **adam: of `Weights`.
    """

    def __init__(
        self,
        policy,
        value,
        *,
        segment,
        discount,
        vtrace_lambda,
        value_loss_weight,
        entropy_weight,
        **adam,
    ):
        self.weights = Weights({"policy": policy, "value": value}, **adam)
        self.scales = Scales(policy[0].shape[0], discount)
        self._segment, self._discount, self._lambda = segment, discount, vtrace_lambda
        self._value_weight, self._entropy_weight = value_loss_weight, entropy_weight

    @tf.function(jit_compile=True, autograph=False)
    def train(self, batch, orders):
        """Makes an update for each row of `orders`, int32 [updates, segments of a minibatch].

        Segment s B + b has the steps from s * `segment` of environment b. Returns the mean loss.
        """
        scales = self.scales.add(self.scales.read(), batch)
        self.scales.write(scales)
        observation, reward = self.scales.apply(scales, batch.observation, batch.reward)
        batch = batch._replace(observation=observation, reward=reward, sums=())
        starts = range(0, reward.shape[0] - 1, self._segment)
        cut = lambda x: tf.concat([x[i : i + self._segment + 1] for i in starts], 1)  # noqa: E731
        segments = tf.nest.map_structure(cut, batch)

        def update(i, state):
            part = tf.nest.map_structure(lambda x: tf.gather(x, orders[i], axis=1), segments)
            with tf.GradientTape() as tape:
                tape.watch(state[0])
                loss = self._loss(self.weights.split(state[0]), part)
            return self.weights.step(state, tape.gradient(loss, state[0])), loss

        state, loss = repeat(orders.shape[0], update, self.weights.read())
        self.weights.write(state)
        return loss

    def _loss(self, weights, batch):
        T, B, size = batch.observation.shape
        actions = batch.logits.shape[-1]
        rows = tf.reshape(batch.observation, (-1, size))
        value = tf.reshape(mlp(weights["value"], rows, tf.tanh), (T, B))
        logits = tf.reshape(mlp(weights["policy"], rows[:-B], tf.tanh), (T - 1, B, actions))
        log_probs, taken = tf.nn.log_softmax(logits), tf.one_hot(batch.action[:-1], actions)
        log_prob = tf.reduce_sum(taken * log_probs, -1)
        behavior = tf.reduce_sum(taken * tf.nn.log_softmax(batch.logits[:-1]), -1)
        valid = tf.cast(batch.step_type[1:] != FIRST, tf.float32)
        target, advantage = self._vtrace(valid, log_prob - behavior, value, batch)
        loss = -advantage * log_prob + 0.5 * self._value_weight * tf.square(target - value[:-1])
        loss += self._entropy_weight * tf.reduce_sum(tf.exp(log_probs) * log_probs, -1)
        return tf.reduce_sum(valid * loss) / tf.maximum(tf.reduce_sum(valid), 1)

    def _vtrace(self, valid, log_rho, value, batch):
        """Returns the targets of the value and the advantages, [T, B] (arXiv 1802.01561)."""
        log_rho, value = tf.stop_gradient(log_rho), tf.stop_gradient(value)
        rho, discount = tf.minimum(tf.exp(log_rho), 1), self._discount * batch.discount[1:]
        trace = valid * tf.pad(valid[1:], [[0, 1], [0, 0]])
        error = batch.reward[1:] + discount * value[1:] - value[:-1]
        sums = discounted_sums(valid * rho * error, trace * discount * self._lambda * rho)
        after = tf.pad(sums[1:], [[0, 1], [0, 0]])
        return value[:-1] + sums, rho * (error + discount * self._lambda * after)
