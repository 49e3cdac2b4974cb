# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The arrays that hold one step of a batch of environments."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

_ALIGNMENT = 64  # bytes: a cache line, so that two arrays never share one


class Layout(NamedTuple):
    """The spaces of one environment. Environments with equal layouts can form a batch. It can be pickled.

    Attributes:
        observation_space, action_space: Gymnasium spaces.
        reward_shape: () or (R,).
    """

    observation_space: spaces.Space
    action_space: spaces.Space
    reward_shape: tuple


class Arrays(NamedTuple):
    """One step of B environments.

    Attributes:
        step_type: int32 [B]; 0 FIRST, 1 MID, 2 LAST.
        reward: float32 [B] or [B, R].
        discount: float32 [B].
        observation: list of [B, ...], one for each leaf of the observation space.
        action: list of [B, ...], one for each leaf of the action space: the actions of the next step.
    """

    step_type: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    observation: list
    action: list

    def rows(self, start, stop):
        """Returns views of the arrays of environments `start` to `stop - 1`."""
        part = slice(start, stop)
        observation, action = [x[part] for x in self.observation], [x[part] for x in self.action]
        return Arrays(self.step_type[part], self.reward[part], self.discount[part], observation, action)


def children(space):
    """Returns a list of (key, space) for a Dict or a Tuple, in the order of `tf.nest`; None for a leaf."""
    if isinstance(space, spaces.Dict):
        return [(key, space.spaces[key]) for key in sorted(space.spaces)]
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def leaves(space):
    """Returns a list of the leaves of a space, in the order of `tf.nest`."""
    parts = children(space)
    return [space] if parts is None else [leaf for _, part in parts for leaf in leaves(part)]


def make_arrays(layout, batch_size, make_buffer):
    """Makes the `Arrays` of `batch_size` environments in one buffer.

    Args:
        layout: `Layout` of an environment.
        batch_size: int, B.
        make_buffer: a function from a size in bytes to a buffer of that size.
    """
    fields = [((), np.int32), (layout.reward_shape, np.float32), ((), np.float32)]
    for space in (layout.observation_space, layout.action_space):
        fields += [(leaf.shape, leaf.dtype) for leaf in leaves(space)]
    fields = [((batch_size, *shape), np.dtype(dtype)) for shape, dtype in fields]
    sizes = [dtype.itemsize * math.prod(shape) for shape, dtype in fields]
    # Each array begins at a multiple of _ALIGNMENT.
    offsets = [0, *itertools.accumulate(math.ceil(size / _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    buffer = make_buffer(offsets[-1])
    made = [np.ndarray(shape, dtype, buffer, offset) for (shape, dtype), offset in zip(fields, offsets)]
    num_observations = len(leaves(layout.observation_space))
    return Arrays(*made[:3], made[3 : 3 + num_observations], made[3 + num_observations :])
