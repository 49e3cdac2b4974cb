# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments that gin configures, for tests; nothing here imports TensorFlow."""

import os

import gin
import gymnasium
import numpy as np
from gymnasium import spaces

from tests.workers.counting_games import ParallelGame

_MAIN_PID = int(os.environ.setdefault("ALF_TEST_PID", str(os.getpid())))


@gin.configurable
class Inner:
    """Has `items`."""

    def __init__(self, items=()):
        self.items = items

    def __len__(self):
        return len(self.items)


class PlainBound(gymnasium.Env):
    """Observes [limit, length of inner, whether a worker steps it, number of its inner object]."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (4,), np.float64), spaces.Discrete(2)

    def __init__(self, limit=1, inner=(), render_mode=None):
        self.limit, self._inner, self._render_mode = limit, inner, render_mode

    def reset(self, *, seed=None, options=None):
        size = 0 if isinstance(self._inner, type) else len(self._inner)
        in_worker = os.getpid() != _MAIN_PID
        return np.array([self.limit, size, in_worker, id(self._inner) % 2**40], np.float64), {}

    def render(self):
        assert self._render_mode == "rgb_array"
        return np.full((2, 2, 3), self.limit, np.uint8)


@gin.configurable
class Bound(PlainBound):
    """Gin knows its constructor."""

    def __init__(self, limit=1, inner=(), render_mode=None):
        super().__init__(limit, inner, render_mode)


@gin.configurable
class Calls(gymnasium.Env):
    """Observes the length of what `make`, or the callable in it, makes at each reset."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (1,), np.float64), spaces.Discrete(2)

    def __init__(self, make):
        self._make = make["a"][1][0] if isinstance(make, dict) else make

    def reset(self, *, seed=None, options=None):
        return np.array([len(self._make())], np.float64), {}


@gin.configurable
def make_bound(limit=1, render_mode=None):
    """A function in place of a class."""
    return PlainBound(limit, render_mode=render_mode)


class Plain2(PlainBound):
    """Made configurable elsewhere."""


RegisteredBound = gin.external_configurable(Plain2, "RegisteredBound")


@gin.configurable
def needs_limit(limit=gin.REQUIRED):
    """Its limit must be bound."""
    return PlainBound(limit)


@gin.configurable
def make_parallel_game(same=False, inner=()):
    """Makes a game of PettingZoo, whose render_fps is the length of `inner`."""
    game = ParallelGame(same)
    game.metadata = {"render_fps": len(inner)}
    return game
