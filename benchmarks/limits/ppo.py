# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""All updates of PPO on one batch as one program, for float observations and one integer action."""

import tensorflow as tf

from benchmarks.limits.parts import FIRST, Scales, Weights, discounted_sums, mlp, repeat


class Ppo:
    """Separate networks of policy and value, GAE, epochs of minibatches of segments, Adam.

    Args:
        policy, value: lists of kernels and biases.
        segment: int, steps of a segment, which stay together.
        discount, lambda_, clip_range, value_loss_weight, entropy_weight: numbers.
        **adam: of `Weights`.
    """

    def __init__(
        self,
        policy,
        value,
        *,
        segment,
        discount,
        lambda_,
        clip_range,
        value_loss_weight,
        entropy_weight,
        **adam,
    ):
        self.weights = Weights({"policy": policy, "value": value}, **adam)
        self.scales = Scales(policy[0].shape[0], discount)
        self._segment, self._discount, self._lambda = segment, discount, lambda_
        self._limit = tf.math.log1p(clip_range)
        self._value_weight, self._entropy_weight = value_loss_weight, entropy_weight

    @tf.function(jit_compile=True, autograph=False)
    def train(self, batch, orders):
        """Makes an update for each row of `orders`, int32 [updates, segments of a minibatch].

        Segment s B + b has the steps from s * `segment` of environment b. Returns the mean loss.
        """
        scales = self.scales.add(self.scales.read(), batch)
        self.scales.write(scales)
        rows = self._prepare(batch, scales)
        order = tf.reshape(orders, (-1, orders.shape[1]))

        def update(i, state):
            part = tf.reshape(tf.gather(rows, order[i]), (-1, rows.shape[1] // self._segment))
            with tf.GradientTape() as tape:
                tape.watch(state[0])
                loss = self._loss(self.weights.split(state[0]), part, batch.logits.shape[-1])
            return self.weights.step(state, tape.gradient(loss, state[0])), loss

        state, loss = repeat(orders.shape[0], update, self.weights.read())
        self.weights.write(state)
        return loss

    def _prepare(self, batch, scales):
        """Returns float32 [segments, `segment` * F], all that updates need, so that they gather once."""
        observation, reward = self.scales.apply(scales, batch.observation, batch.reward)
        weights = self.weights.split(self.weights.vector)
        value = mlp(weights["value"], tf.reshape(observation, (-1, observation.shape[-1])), tf.tanh)
        value = tf.reshape(value, reward.shape)
        valid = tf.cast(batch.step_type[1:] != FIRST, tf.float32)
        discount = self._discount * batch.discount[1:]
        delta = valid * (reward[1:] + discount * value[1:] - value[:-1])
        trace = valid * tf.pad(valid[1:], [[0, 1], [0, 0]])
        advantage = discounted_sums(delta, trace * discount * self._lambda)
        taken = tf.one_hot(batch.action[:-1], batch.logits.shape[-1])
        log_prob = tf.reduce_sum(taken * tf.nn.log_softmax(batch.logits[:-1]), -1)
        numbers = tf.stack([log_prob, advantage, valid * (advantage + value[:-1]), valid], -1)
        rows = tf.concat([observation[:-1], taken, numbers], -1)
        T, B, F = rows.shape
        rows = tf.reshape(rows, (T // self._segment, self._segment, B, F))
        return tf.reshape(tf.transpose(rows, (0, 2, 1, 3)), (-1, self._segment * F))

    def _loss(self, weights, rows, actions):
        size = rows.shape[1] - actions - 4
        observation, taken, numbers = tf.split(rows, (size, actions, 4), -1)
        old_log_prob, advantage, target, valid = tf.unstack(numbers, axis=-1)
        log_probs = tf.nn.log_softmax(mlp(weights["policy"], observation, tf.tanh))
        value = mlp(weights["value"], observation, tf.tanh)[:, 0]
        count = tf.maximum(tf.reduce_sum(valid), 1)
        mean = lambda x: tf.reduce_sum(valid * x) / count  # noqa: E731
        advantage -= mean(advantage)
        advantage *= valid / (tf.sqrt(mean(tf.square(advantage))) + 1e-8)
        log_ratio = tf.reduce_sum(taken * log_probs, -1) - old_log_prob
        clipped = tf.where(
            advantage < 0, tf.maximum(log_ratio, -self._limit), tf.minimum(log_ratio, self._limit)
        )
        loss = mean(-advantage * tf.exp(clipped) + 0.5 * self._value_weight * tf.square(target - value))
        if self._entropy_weight:
            loss += self._entropy_weight * mean(tf.reduce_sum(tf.exp(log_probs) * log_probs, -1))
        return loss
