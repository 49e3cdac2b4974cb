# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tasks that need memory: a cue to recall (appo_memory.gin), and hidden velocities (r2d2_cartpole.gin)."""

import gymnasium as gym
import numpy as np


class Recall(gym.Env):
    """Shows one of 4 cues, then nothing; after `delay` steps the action must name the cue.

    The right one pays 1. Without memory no policy gets more than 0.25 on average.
    """

    observation_space = gym.spaces.Box(0.0, 1.0, (5,), np.float32)  # the cue one-hot; whether it is asked for
    action_space = gym.spaces.Discrete(4)

    def __init__(self, delay=16):
        self._delay = delay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._cue = int(self.np_random.integers(4))
        self._step = 0
        return self._observation(), {}

    def step(self, action):
        asked = self._step == self._delay
        self._step += 1
        return self._observation(), float(asked and action == self._cue), asked, False, {}

    def _observation(self):
        observation = np.zeros(5, np.float32)
        if self._step == 0:
            observation[self._cue] = 1.0
        observation[4] = self._step == self._delay
        return observation


class Positions(gym.ObservationWrapper):
    """CartPole without its velocities, which follow from two observations."""

    def __init__(self, env):
        super().__init__(env)
        box = env.observation_space
        self.observation_space = gym.spaces.Box(box.low[::2], box.high[::2])

    def observation(self, observation):
        return observation[::2]


def make_positions(**kwargs):
    return Positions(gym.make("CartPole-v1", **kwargs))


gym.register("Recall-v0", Recall)
gym.register("CartPolePositions-v1", make_positions)
