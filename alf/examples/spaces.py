# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""One small task for each kind of space: integers, tuples, a dict with an image. See spaces_*.gin."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Lift(gym.Env):
    """Go to floor 6. Floors count from 1; the actions are -1, 0 and 1. A step costs 0.1, floor 6 pays 1."""

    observation_space = spaces.Discrete(6, start=1)
    action_space = spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._floor = int(self.np_random.integers(1, 6))
        return self._floor, {}

    def step(self, action):
        self._floor = max(1, self._floor + int(action))
        is_there = self._floor == 6
        return self._floor, 1.0 if is_there else -0.1, is_there, False, {}


class Sorting(gym.Env):
    """Push each parcel into the chute of its kind, as hard as its weight: 1 for the chute, less the error.

    An observation is (kind, (weight, width)), an action is (chute, force). Chutes count from 1.
    """

    observation_space = spaces.Tuple(
        (spaces.Discrete(3), spaces.Tuple((spaces.Box(0.0, 1.0, (1,)), spaces.Box(0.0, 1.0, (2, 2)))))
    )
    action_space = spaces.Tuple((spaces.Discrete(3, start=1), spaces.Box(-1.0, 1.0, (1,))))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._next_parcel(), {}

    def step(self, action):
        chute, force = action
        weight = self._weight[0] * 2.0 - 1.0  # as a force
        reward = float(chute == self._kind + 1) - abs(float(force[0]) - float(weight))
        return self._next_parcel(), reward, False, False, {}

    def _next_parcel(self):
        self._kind = int(self.np_random.integers(3))
        self._weight = self.np_random.random(1, np.float32)
        size = self.np_random.random((2, 2), np.float32)
        return self._kind, (self._weight, size)


class Lamp(gym.Env):
    """Name the side of the picture that is lit, 0 or 1 for left or right, plus 2 if the sign is positive.

    Each right answer pays 1. Whoever ignores the picture or the sign gets one half on average.
    """

    observation_space = spaces.Dict(
        picture=spaces.Box(0, 255, (40, 40, 3), np.uint8), sign=spaces.Box(-1.0, 1.0, (2,))
    )
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._next_picture(), {}

    def step(self, action):
        reward = float(action == self._answer)
        return self._next_picture(), reward, False, False, {}

    def _next_picture(self):
        side, is_positive = (int(x) for x in self.np_random.integers(2, size=2))
        picture = self.np_random.integers(0, 100, (40, 40, 3), np.uint8)
        picture[10:30, 20 * side : 20 * side + 20, 0] += 150
        sign = np.array([1.0 if is_positive else -1.0, self.np_random.random()], np.float32)
        self._answer = side + 2 * is_positive
        return {"picture": picture, "sign": sign}


gym.register("Lift-v0", Lift, max_episode_steps=50)
gym.register("Sorting-v0", Sorting, max_episode_steps=10)
gym.register("Lamp-v0", Lamp, max_episode_steps=10)
