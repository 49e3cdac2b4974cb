# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An environment of one's own: any `gymnasium.Env`, registered under an id. See own_env.gin."""

import gymnasium as gym
import numpy as np


class Corridor(gym.Env):
    """Walk right to the end of a corridor; each step costs 0.1, the end pays 1."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=8):
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._position = int(self.np_random.integers(self._length))
        return self._observation(), {}

    def step(self, action):
        self._position = max(0, self._position + (1 if action == 1 else -1))
        terminated = self._position >= self._length
        return self._observation(), 1.0 if terminated else -0.1, terminated, False, {}

    def _observation(self):
        return np.array([self._position / self._length], np.float32)


gym.register("Corridor-v0", Corridor, max_episode_steps=100)
