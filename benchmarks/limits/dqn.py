# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Updates of double, dueling DQN as one program, for float observations and one integer action."""

from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.limits.parts import FIRST, Scales, Weights, mlp, repeat


class Sequences(NamedTuple):
    """The drawn sequences of N updates, n + 1 rows each."""

    step_type: Any  # int32 [N, n+1, B]; 0 begins an episode
    reward: Any  # float32 [N, n+1, B], which arrived with the row
    discount: Any  # float32 [N, n+1, B], 0 where the episode has terminated
    observation: Any  # float32 [N, n+1, B, size]
    action: Any  # integers [N, n+1, B]
    weight: Any  # float32 [N, B], of prioritized replay


class Dqn:
    """Returns of n steps, Huber's loss whose delta is 1, Adam, a target network that moves by `tau`.

    Args:
        network: list of kernels and biases; the first output is the value, the others are the advantages.
        discount, tau: numbers.
        **adam: of `Weights`.
    """

    def __init__(self, network, *, discount, tau, **adam):
        self.weights = Weights({"network": network}, **adam)
        self.target = tf.Variable(self.weights.vector)
        self.scales = Scales(network[0].shape[0], discount)
        self._discount, self._tau = discount, tau

    @tf.function(jit_compile=True, autograph=False)
    def train(self, sequences):
        """Makes N updates. Returns the mean loss, and the absolute TD errors, float32 [N, B]."""
        errors, scales = tf.zeros_like(sequences.weight), self.scales.read()

        def update(i, state):
            weights, target, errors = state
            chosen = tf.nest.map_structure(lambda x: tf.gather(x, i), sequences)
            transitions = self._transitions(scales, chosen)
            with tf.GradientTape() as tape:
                tape.watch(weights[0])
                loss, error = self._loss(weights[0], target, *transitions)
            weights = self.weights.step(weights, tape.gradient(loss, weights[0]))
            target = self._tau * weights[0] + (1 - self._tau) * target
            return (weights, target, tf.tensor_scatter_nd_update(errors, [[i]], [error])), loss

        state = self.weights.read(), tf.identity(self.target), errors
        (weights, target, errors), loss = repeat(errors.shape[0], update, state)
        self.weights.write(weights)
        self.target.assign(target)
        return loss, errors

    def _transitions(self, scales, rows):
        """Returns observations [2, B, size] at both ends, actions, rewards, discounts and weights [B]."""
        observation, reward = self.scales.apply(scales, rows.observation, rows.reward)
        goes_on = valid = rows.step_type[1] != FIRST
        total, discount = reward[1], self._discount * rows.discount[1]
        end = observation[1]
        for k in range(2, rows.reward.shape[0]):
            goes_on &= rows.step_type[k] != FIRST
            total += tf.where(goes_on, discount * reward[k], 0.0)
            discount *= tf.where(goes_on, self._discount * rows.discount[k], 1.0)
            end = tf.where(goes_on[:, tf.newaxis], observation[k], end)
        weight = tf.where(valid, rows.weight, 0.0)
        return tf.stack([observation[0], end]), rows.action[0], total, discount, weight

    def _loss(self, vector, target, observation, action, reward, discount, weight):
        q = self._values(vector, observation[0])
        actions = q.shape[-1]
        best = tf.one_hot(tf.argmax(self._values(tf.stop_gradient(vector), observation[1]), -1), actions)
        after = tf.reduce_sum(best * self._values(target, observation[1]), -1)
        error = reward + discount * after - tf.reduce_sum(q * tf.one_hot(action, actions), -1)
        size, trained = tf.abs(error), tf.cast(weight > 0, tf.float32)
        near = tf.minimum(size, 1.0)
        loss = tf.reduce_sum(weight * near * (size - 0.5 * near)) / tf.maximum(tf.reduce_sum(trained), 1)
        return loss, tf.stop_gradient(trained * size)

    def _values(self, vector, observation):
        x = mlp(self.weights.split(vector)["network"], observation, tf.nn.relu)
        return x[:, :1] + x[:, 1:] - tf.reduce_mean(x[:, 1:], -1, keepdims=True)
