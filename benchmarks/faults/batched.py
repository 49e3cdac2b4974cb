# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What Gymnasium has no word for: a batched environment with arrays and discounts of its own; a behavior."""

import gin
import numpy as np

from alf.core.array_spec import ArraySpec, BoundedArraySpec
from alf.data_structures import FIRST, LAST, MID, EnvStep
from alf.environments import BatchedEnvironment
from benchmarks.faults.envs import Faulty, is_now, record


@gin.configurable
class RefillingEnvironment(BatchedEnvironment):
    """Two `Faulty` environments, whose observations are in one array that each step fills anew.

    The entry "discount" of their info, if there is one, is the discount.
    """

    def __init__(self, seed=None):
        super().__init__(2, ArraySpec((3,), np.float32), BoundedArraySpec((), np.int64, 0, 1))
        self._envs = [Faulty(), Faulty()]
        self._seeds = None if seed is None else [seed, seed + 1]
        # TensorFlow keeps an array as it is, without a copy, if its address is a multiple of 64.
        memory = np.zeros(128, np.uint8)
        start = -memory.ctypes.data % 64
        self._observation = memory[start : start + 24].view(np.float32).reshape(2, 3)

    def _reset(self):
        self._begins = [True, True]
        return self._step(np.zeros(2, np.int64))

    def _step(self, action):
        signals = zip(*map(self._step_one, range(2), action), strict=True)
        step_type, reward, discount = map(np.array, signals, (np.int32, np.float32, np.float32))
        return EnvStep(step_type, reward, discount, self._observation)

    def _step_one(self, i, action):
        """Steps or resets one of the environments; returns its step type, reward and discount."""
        env = self._envs[i]
        if self._begins[i]:
            self._begins[i] = False
            seed = self._seeds and self._seeds[i]
            self._observation[i], _ = env.reset(seed=seed)
            return FIRST, 0.0, 1.0
        self._observation[i], reward, terminated, truncated, info = env.step(action)
        self._begins[i] = terminated or truncated
        return LAST if self._begins[i] else MID, reward, info.get("discount", 1.0 - terminated)

    def close(self):
        for env in self._envs:
            env.close()


@gin.configurable
class RefillingGame(RefillingEnvironment):
    """Both are the players of a game."""

    agents = ("left", "right")

    @property
    def game_begins(self):
        return self._observation[:1, 2] == 0.0  # the number of the step


@gin.configurable
def make_behavior():
    """Returns a behavior for continuous actions, which are NaN as soon as the file `now` is there."""

    def act(time_step, state):
        action = np.zeros((len(time_step.reward), 1), np.float32)
        if is_now():
            record("fault")
            action[:] = np.nan
        return action, state

    return act
