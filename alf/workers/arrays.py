# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The arrays that hold one step of a batch of environments."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

_ALIGNMENT = 64  # bytes: a cache line, so that two arrays never share one


class Layout(NamedTuple):
    """The spaces of an environment and its reward's shape, () or (R,): they are equal in a batch."""

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


def children(space):
    """Returns a list of (key, space) for a Dict or a Tuple, in the order of `tf.nest`; None for a leaf."""
    if isinstance(space, spaces.Dict):
        return [(key, space.spaces[key]) for key in sorted(space.spaces)]
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def leaves(space):
    """Returns a list of the leaves of a space, in the order of `tf.nest`."""
    parts = children(space)
    return [space] if parts is None else [leaf for _, part in parts for leaf in leaves(part)]


def make_arrays(layout, batch_size, make_buffer=bytearray, rows=slice(None)):
    """Makes the `Arrays` of `batch_size` environments in one buffer.

    Args:
        layout: `Layout` of an environment.
        batch_size: int, B.
        make_buffer: a function from a size in bytes to a buffer of that size.
        rows: slice of the environments that the returned arrays show.
    """
    observations, actions = leaves(layout.observation_space), leaves(layout.action_space)
    fields = [((), np.int32), (layout.reward_shape, np.float32), ((), np.float32)]
    fields += [(leaf.shape, leaf.dtype) for leaf in (*observations, *actions)]
    fields = [((batch_size, *shape), np.dtype(dtype)) for shape, dtype in fields]
    sizes = [dtype.itemsize * math.prod(shape) for shape, dtype in fields]
    # Each array begins at a multiple of _ALIGNMENT.
    offsets = [0, *itertools.accumulate(math.ceil(size / _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    buffer = make_buffer(offsets[-1])
    made = [np.ndarray(shape, dtype, buffer, offset)[rows] for (shape, dtype), offset in zip(fields, offsets)]
    return Arrays(*made[:3], made[3 : 3 + len(observations)], made[3 + len(observations) :])
