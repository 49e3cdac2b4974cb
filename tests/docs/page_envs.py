# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments that blocks of the pages are run with."""

import gin
import gymnasium as gym
import numpy as np


class _Random(gym.Env):
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), self.reward(), False, False, {}

    def reward(self):
        return 0.0


class Picture(_Random):
    """Images with their channels last."""

    observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)


class ThreeRewards(_Random):
    """A reward of three components."""

    observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
    reward_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reward(self):
        return np.zeros(3, np.float32)


@gin.configurable
def MyGame():
    """A game of several agents."""
    from mpe2.simple_spread_v3 import parallel_env

    return parallel_env()


gym.register("Picture-v0", Picture, max_episode_steps=5)
gym.register("ThreeRewards-v0", ThreeRewards, max_episode_steps=5)
