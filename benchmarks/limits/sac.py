# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Updates of SAC as one program, for float observations and actions in [-1, 1]."""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from benchmarks.limits.parts import Weights, mlp, repeat


class Transitions(NamedTuple):
    """The drawn transitions of N updates, with standard normal noise for the actions at both ends."""

    observation: Any  # float32 [N, B, size]
    action: Any  # float32 [N, B, D] in [-1, 1]
    reward: Any  # float32 [N, B]
    discount: Any  # float32 [N, B], 0 where the episode has terminated
    next_observation: Any  # float32 [N, B, size]
    weight: Any  # float32 [N, B], 1; 0 for what is no transition
    noise: Any  # float32 [N, B, D]
    next_noise: Any  # float32 [N, B, D]


class Sac:
    """A Gaussian actor squashed by tanh, two critics, their targets, a temperature that is learned, Adam.

    Args:
        actor: list of kernels and biases; the outputs are means, then logarithms of standard deviations.
        critics: two lists of kernels and biases.
        initial_alpha, discount, tau: numbers.
        **adam: of `Weights`.
    """

    def __init__(self, actor, critics, *, initial_alpha, discount, tau, **adam):
        alpha = [[math.log(initial_alpha)]]
        networks = {"first": critics[0], "second": critics[1], "actor": actor, "alpha": alpha}
        self.weights = Weights(networks, **adam)
        self._num_critics = self.weights.size_of(2)
        self.target = tf.Variable(self.weights.vector[: self._num_critics])
        self._discount, self._tau = discount, tau

    @tf.function(jit_compile=True, autograph=False)
    def train(self, transitions):
        """Makes N updates. Returns the mean loss."""

        def update(i, state):
            weights, target = state
            chosen = tf.nest.map_structure(lambda x: tf.gather(x, i), transitions)
            with tf.GradientTape() as tape:
                tape.watch(weights[0])
                loss = self._loss(weights[0], target, chosen)
            weights = self.weights.step(weights, tape.gradient(loss, weights[0]))
            critics = weights[0][: self._num_critics]
            return (weights, self._tau * critics + (1 - self._tau) * target), loss

        state = self.weights.read(), tf.identity(self.target)
        (weights, target), loss = repeat(transitions.reward.shape[0], update, state)
        self.weights.write(weights)
        self.target.assign(target)
        return loss

    def _loss(self, vector, target, x):
        """Returns the sum of the losses; each has a gradient only for its own part of the vector."""
        learns, frozen = (self.weights.split(y) for y in (vector, tf.stop_gradient(vector)))
        mean = lambda y: tf.reduce_sum(x.weight * y) / tf.maximum(tf.reduce_sum(x.weight), 1)  # noqa: E731
        alpha = tf.exp(frozen["alpha"][0])
        action, log_prob = _act(frozen["actor"], x.next_observation, x.next_noise)
        after = tf.reduce_min(_evaluate(self.weights.split(target), x.next_observation, action), 0)
        returns = x.reward + self._discount * x.discount * (after - alpha * log_prob)
        critic = 0.5 * tf.reduce_sum(tf.square(_evaluate(learns, x.observation, x.action) - returns), 0)
        action, log_prob = _act(learns["actor"], x.observation, x.noise)
        actor = alpha * log_prob - tf.reduce_min(_evaluate(frozen, x.observation, action), 0)
        entropy = -tf.stop_gradient(log_prob)
        temperature = learns["alpha"][0] * (entropy + x.action.shape[-1])  # the target is minus their number
        return mean(critic + actor + temperature)


def _act(actor, observation, noise):
    """Returns actions in [-1, 1] and the logarithms of their densities."""
    mean, log_std = tf.split(mlp(actor, observation, tf.nn.relu), 2, -1)
    log_std = tf.clip_by_value(log_std, -5.0, 2.0)
    raw = mean + tf.exp(log_std) * noise
    slope = 2 * (math.log(2) - raw - tf.nn.softplus(-2 * raw))
    log_prob = -(0.5 * tf.square(noise) + log_std + 0.5 * math.log(2 * math.pi) + slope)
    return tf.tanh(raw), tf.reduce_sum(log_prob, -1)


def _evaluate(weights, observation, action):
    """Returns the values by both critics, [2, B]."""
    x = tf.concat([observation, action], -1)
    return tf.stack([mlp(weights[name], x, tf.nn.relu)[:, 0] for name in ("first", "second")])
