# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The environment of `benchmarks.waiting`, apart: its worker processes need not import TensorFlow."""

import time

import gymnasium
import numpy as np


class Waits(gymnasium.Env):
    """Sleeps in each step; its episodes have 1,000 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, sleep=0.001):
        self._sleep = sleep

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        time.sleep(self._sleep)
        self._steps += 1
        return np.zeros(4, np.float32), 1.0, False, self._steps == 1000, {}
