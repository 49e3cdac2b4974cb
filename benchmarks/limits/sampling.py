# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A vector environment and a policy network that step in turn, in one thread, into one set of arrays."""

import numpy as np
import tensorflow as tf

from benchmarks.limits.parts import FIRST, Batch, mlp

_MID = 1


def make_tensorflow(learner):
    """Makes a function observation -> logits, NumPy arrays, of the weights and `Scales` of a lean program."""
    variables = learner.weights.vector, *learner.scales.variables  # read at each call

    @tf.function(jit_compile=True, autograph=False)
    def compute(observation):
        state = [tf.identity(x) for x in variables[1:]]
        observation, _ = learner.scales.apply(state, observation, 0.0)
        return mlp(learner.weights.split(variables[0])["policy"], observation, tf.tanh)

    return lambda observation: compute(observation).numpy()


class NumpyPolicy:
    """The same without TensorFlow: at these sizes a call of it takes longer than the products.

    Args:
        learner: lean program, whose weights `read` copies.
    """

    def __init__(self, learner):
        self._learner = learner
        self.read()

    def read(self):
        self._layers = self._learner.weights.numpy()["policy"]
        count, mean, squares = (x.numpy() for x in self._learner.scales.variables[:3])
        self._mean = np.float32(mean)
        self._inverse = np.float32(1 / np.sqrt(squares / count + 1e-8) if count >= 2 else np.ones_like(mean))

    def __call__(self, observation):
        *hidden, kernel, bias = self._layers
        x = np.clip((observation - self._mean) * self._inverse, -10.0, 10.0)
        for weight, offset in zip(hidden[::2], hidden[1::2]):
            x = np.tanh(x @ weight + offset)
        return x @ kernel + bias


class Sampler:
    """Makes unrolls of a vector environment of Gymnasium, whose actions are integers.

    Args:
        envs: the environment, which resets in the step after the end of an episode.
        compute: function observation [B, N] -> logits.
        length: int, steps of an unroll.
        discount: number, of the sums of rewards.
    """

    def __init__(self, envs, compute, length, discount):
        self._envs, self._compute, self._length, self._discount = envs, compute, length, discount
        B, N = envs.observation_space.shape
        self._actions, rows = int(envs.single_action_space.n), (length + 1, B)
        self._observation = np.zeros((*rows, N), np.float32)
        self._logits = np.zeros((*rows, self._actions), np.float32)
        self._action = np.zeros(rows, np.int64)
        self._reward, self._discounts = np.zeros(rows, np.float32), np.ones(rows, np.float32)
        self._step_type = np.zeros(rows, np.int32)
        self._sums, self._ended = np.zeros(B, np.float32), np.zeros(B, np.bool_)
        self._observation[-1], _ = envs.reset(seed=0)
        self._rng = np.random.default_rng(0)

    def collect(self):
        """Makes an unroll. Returns a `Batch` of the arrays, which the next call changes."""
        names = "observation", "reward", "discounts", "step_type"
        for array in (getattr(self, f"_{name}") for name in names):
            array[0] = array[-1]
        sums = self._sums
        # A draw from a softmax is the largest of logits with Gumbel noise.
        noise = self._rng.gumbel(size=self._logits[1:].shape)
        for t in range(self._length):
            logits = self._logits[t] = self._compute(self._observation[t])
            action = self._action[t] = (logits + noise[t]).argmax(-1)
            observation, reward, terminated, truncated, _ = self._envs.step(action)
            self._observation[t + 1], self._reward[t + 1] = observation, reward
            np.subtract(1, terminated, out=self._discounts[t + 1], casting="unsafe")
            self._step_type[t + 1] = np.where(self._ended, FIRST, _MID)
            self._ended = terminated | truncated
        self._add(sums)
        return Batch(
            self._step_type,
            self._reward,
            self._discounts,
            self._observation,
            self._action,
            self._logits,
            sums,
        )

    def _add(self, sums):
        """Keeps the discounted sums of rewards before row T, with which the next unroll begins."""
        for reward, step_type in zip(self._reward[:-1], self._step_type[:-1]):
            sums = (step_type != FIRST) * (self._discount * sums + reward)
        self._sums = sums
