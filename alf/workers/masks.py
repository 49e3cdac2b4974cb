# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Random actions that an action mask allows."""

from collections.abc import Mapping

import numpy as np
from gymnasium import spaces

ACTION_MASK = "action_mask"  # PettingZoo's name for this entry of an observation


def sample_action(space, observation):
    """Returns a random action of an action space.

    If the observation is a dict with the entry "action_mask", which has a number for each choice of a
    Discrete or MultiDiscrete, the action is one that it allows.
    """
    mask = observation.get(ACTION_MASK) if isinstance(observation, Mapping) else None
    is_integer = isinstance(space, (spaces.Discrete, spaces.MultiDiscrete))
    if mask is None or not is_integer or np.size(mask) != sum(count_choices(space)):
        return space.sample()
    return draw_allowed(space, mask, space.np_random)


def draw_allowed(space, mask, rng):
    """Draws an action of a Discrete or MultiDiscrete that a mask allows.

    Args:
        space: the action space.
        mask: array of numbers, one for each choice; 0: forbidden. An integer without an allowed choice has
            all of them, the same rule as in `CategoricalActions`.
        rng: NumPy's generator of random numbers.
    """
    parts = np.split(np.ravel(mask), np.cumsum(count_choices(space))[:-1])
    drawn = [rng.choice(np.flatnonzero(x if np.any(x) else x == 0)) for x in parts]
    return space.start + np.reshape(drawn, space.shape).astype(space.dtype)


def count_choices(space):
    """Returns the number of choices of each integer of a Discrete or MultiDiscrete, a list."""
    return np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec).tolist()
