# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments for the tests of check_env; nothing here imports TensorFlow, which a worker would, too."""

import sys
import threading
import time

import gymnasium
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1, 1, (2,), np.float32)


class Steady(gymnasium.Env):
    """Right: seeds decide its observations; episodes take 3 to 7 steps. What `results` holds it returns."""

    def __init__(self, observation_space=BOX, action_space=None, length=None, reward=0.5, **results):
        self.observation_space = observation_space
        self.action_space = spaces.Discrete(2) if action_space is None else action_space
        self._length, self._reward, self._results = length, reward, results

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._left = self._length or int(self.np_random.integers(3, 8))
        return self._observe(), self._results.get("info", {})

    def step(self, action):
        assert self.action_space.contains(action)
        self._left -= 1
        terminated = self._results.get("terminated", self._left == 0)
        truncated = self._results.get("truncated", False)
        return self._observe(), self._reward, terminated, truncated, self._results.get("info", {})

    def _observe(self):
        return self._results.get("observation", self.observation_space.sample())


class Overridden(Steady):
    """Calls `on_reset(env, kwargs)` and `on_step(env, count)`, and returns their results, if they are given.

    `count` is the number of the step since construction, from 1 on.
    """

    def __init__(self, on_reset=None, on_step=None, **kwargs):
        super().__init__(**kwargs)
        self._on_reset, self._on_step, self._count = on_reset, on_step, 0

    def reset(self, *, seed=None, options=None):
        return self._on_reset(self, seed) if self._on_reset else super().reset(seed=seed)

    def step(self, action):
        self._count += 1
        return self._on_step(self, self._count) if self._on_step else super().step(action)

    def draw(self):
        """Starts an episode, from no seed."""
        return Steady.reset(self)


def right():
    return np.zeros(2, np.float32), {}


class Locked(Steady):
    """Cannot be pickled."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.lock, self.is_closed = threading.Lock(), False

    def close(self):
        self.is_closed = True


class Unclosable(Steady):
    """`how` its `close` fails: it "raises", "exits" or "hangs"."""

    def __init__(self, how):
        super().__init__()
        self._how, self.closes = how, 0

    def close(self):
        self.closes += 1
        acts = {"raises": lambda: 1 / 0, "exits": lambda: sys.exit(4), "hangs": lambda: time.sleep(1000)}
        acts[self._how]()


class Busy(Steady):
    """Computes in each step for so many seconds of the CPU."""

    def __init__(self, step_seconds):
        super().__init__()
        self._step_seconds = step_seconds

    def step(self, action):
        end = time.process_time() + self._step_seconds
        while time.process_time() < end:
            pass
        return super().step(action)


class Asleep(Steady):
    def __init__(self, step_seconds, reset_seconds=0.0):
        super().__init__()
        self._step_seconds, self._reset_seconds = step_seconds, reset_seconds

    def reset(self, *, seed=None, options=None):
        time.sleep(self._reset_seconds)
        return super().reset(seed=seed)

    def step(self, action):
        time.sleep(self._step_seconds)
        return super().step(action)
