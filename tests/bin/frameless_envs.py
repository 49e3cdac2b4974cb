# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments that cannot be rendered; without TensorFlow, for worker processes."""

import gymnasium
import numpy as np


class NoFrames(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (4,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}


class RendersText(NoFrames):
    def render(self):
        return "text"
