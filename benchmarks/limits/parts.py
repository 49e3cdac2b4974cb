# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the lean programs share. All weights are one vector: XLA then makes one loop of Adam."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

FIRST = 0  # the step type of a time step that begins an episode


class Batch(NamedTuple):
    """Steps of B environments, where row t has the action that row t + 1 answers; row T bootstraps."""

    step_type: Any  # int32 [T+1, B]; 0 begins an episode
    reward: Any  # float32 [T+1, B], which arrived with the row
    discount: Any  # float32 [T+1, B], 0 where the episode has terminated
    observation: Any  # float32 [T+1, B, N]
    action: Any  # integers [T+1, B]
    logits: Any  # float32 [T+1, B, actions], of the policy that acted
    sums: Any  # float32 [B], the discounted sums of rewards before row 0


class Weights:
    """The weights of networks as one vector, with Adam's averages and the number of steps.

    Args:
        networks: dict from name to a list of float32 arrays; each is limited by itself.
        learning_rate, epsilon, beta_1, beta_2: numbers, of Adam.
        max_grad_norm: number, or None for no limit.
    """

    def __init__(self, networks, learning_rate, epsilon=1e-8, beta_1=0.9, beta_2=0.999, max_grad_norm=None):
        self._shapes = {name: [np.shape(x) for x in arrays] for name, arrays in networks.items()}
        self._sizes = [sum(map(_size, shapes)) for shapes in self._shapes.values()]
        flat = [np.ravel(x) for arrays in networks.values() for x in arrays]
        self.vector = tf.Variable(np.concatenate(flat).astype(np.float32))
        self._averages = [tf.Variable(tf.zeros_like(self.vector)) for _ in range(2)]
        self._step = tf.Variable(0.0, dtype=tf.float64)
        self._rate, self._epsilon, self._betas = learning_rate, epsilon, (beta_1, beta_2)
        self._max_norm = max_grad_norm

    def split(self, vector):
        """Returns a dict from name to a list of arrays; the vector may end after any network."""
        found, start = {}, 0
        for (name, shapes), size in zip(self._shapes.items(), self._sizes):
            if start < vector.shape[0]:
                parts = tf.split(vector[start : start + size], list(map(_size, shapes)))
                found[name] = [tf.reshape(x, shape) for x, shape in zip(parts, shapes)]
                start += size
        return found

    def size_of(self, number):
        """Returns how many numbers the first `number` networks have."""
        return sum(self._sizes[:number])

    def numpy(self):
        """Returns `split` of the present weights, NumPy arrays."""
        return tf.nest.map_structure(lambda x: x.numpy(), self.split(self.vector))

    def read(self):
        """Returns what `step` takes and returns, tensors."""
        return tuple(tf.identity(x) for x in (self.vector, *self._averages, self._step))

    def write(self, state):
        for variable, value in zip((self.vector, *self._averages, self._step), state):
            variable.assign(value)

    def step(self, state, gradient):
        """Makes one step of Adam (arXiv 1412.6980) with a gradient of the vector."""
        vector, m, v, step = state
        gradient, step = self._limit(gradient), step + 1
        beta_1, beta_2 = (tf.constant(x, tf.float32) for x in self._betas)
        m += (1 - beta_1) * (gradient - m)
        v += (1 - beta_2) * (tf.square(gradient) - v)
        root = tf.sqrt(1 - tf.cast(beta_2, tf.float64) ** step)
        rate = tf.cast(self._rate * root / (1 - tf.cast(beta_1, tf.float64) ** step), tf.float32)
        vector -= rate * m / (tf.sqrt(v) + tf.cast(self._epsilon * root, tf.float32))
        return vector, m, v, step

    def _limit(self, gradient):
        if self._max_norm is None:
            return gradient
        parts = tf.split(gradient, self._sizes)
        norms = [tf.sqrt(tf.reduce_sum(tf.square(x))) for x in parts]
        return tf.concat(
            [x * (self._max_norm / tf.maximum(y, self._max_norm)) for x, y in zip(parts, norms)], 0
        )


class Scales:
    """Mean and standard deviation of all observations and of the discounted sums of rewards, in float64.

    Args:
        size: int, numbers of an observation.
        discount: number, of the sums.
        limit: number; results are in [-limit, limit].
    """

    def __init__(self, size, discount, limit=10.0):
        shapes = ((), size, size, (), (), ())  # count, mean and sum of squared deviations, twice
        self.variables = [tf.Variable(tf.zeros(shape, tf.float64)) for shape in shapes]
        self._discount, self._limit = discount, limit

    def read(self):
        return tuple(tf.identity(x) for x in self.variables)

    def write(self, state):
        for variable, value in zip(self.variables, state):
            variable.assign(value)

    def add(self, state, batch):
        """Returns the statistics with those of a batch, see `Batch`."""
        first = tf.equal(batch.step_type, FIRST)
        decay = tf.where(first, 0.0, self._discount)
        reward = tf.where(first, 0.0, batch.reward)
        start = tf.concat([decay[:1] * batch.sums, tf.zeros_like(reward[1:])], 0)
        sums = discounted_sums((reward + start)[::-1], decay[::-1])[::-1]
        counted = ~(first[:-1] & first[1:])
        observation = _add(state[:3], batch.observation[:-1], counted[..., tf.newaxis])
        return *observation, *_add(state[3:], sums[1:], ~first[1:])

    def apply(self, state, observation, reward):
        """Returns observations [..., size] and rewards, scaled."""
        std, reward_std = _std(state[:3]), _std(state[3:])
        center = tf.cast(state[1], tf.float32)
        rest = tf.cast((state[1] - tf.cast(center, tf.float64)) / std, tf.float32)
        observation = (observation - center) / tf.cast(std, tf.float32) - rest
        scaled = observation, reward / tf.cast(reward_std, tf.float32)
        return [tf.clip_by_value(x, -self._limit, self._limit) for x in scaled]


def _add(state, x, mask):
    """Adds [T, B, ...] where the mask holds to count, mean and squares (Chan, Golub and LeVeque 1979)."""
    count, mean, squares = state
    x, mask = tf.cast(x, tf.float64), tf.cast(mask, tf.float64)
    added = tf.reduce_sum(mask)
    total, divisor = count + added, tf.maximum(added, 1)
    new_mean = tf.reduce_sum(mask * x, (0, 1)) / divisor
    delta = new_mean - mean
    squares += tf.reduce_sum(mask * tf.square(x - new_mean), (0, 1))
    weight = added / tf.maximum(total, 1)
    return total, mean + delta * weight, squares + tf.square(delta) * count * weight


def _std(state):
    count, _, squares = state
    std = tf.sqrt(squares / tf.maximum(count, 1) + 1e-8)
    return tf.where(count < 2, tf.ones_like(std), std)


def _size(shape):
    return int(np.prod(shape))


def mlp(weights, x, activation):
    """Applies dense layers; `weights` are kernel and bias of each, the last layer without activation."""
    for kernel, bias in zip(weights[:-2:2], weights[1:-2:2]):
        x = activation(tf.matmul(x, kernel) + bias)
    return tf.matmul(x, weights[-2]) + weights[-1]


def discounted_sums(delta, decay):
    """Solves x_t = delta_t + decay_t x_{t+1} for [T, B], in log T steps over ever more rows."""
    distance = 1
    while distance < delta.shape[0]:
        after = [[0, distance], [0, 0]]
        delta, decay = (
            delta + decay * tf.pad(delta[distance:], after),
            decay * tf.pad(decay[distance:], after),
        )
        distance *= 2
    return delta


def repeat(number, body, state):
    """Calls `state, loss = body(i, state)` so often; returns the state and the mean loss."""

    def step(i, state, total):
        state, loss = body(i, state)
        return i + 1, state, total + loss

    _, state, total = tf.while_loop(lambda i, *_: i < number, step, (tf.constant(0), state, tf.constant(0.0)))
    return state, total / number
