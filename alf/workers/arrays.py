# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The arrays through which environments and their caller exchange a batch step."""

from typing import NamedTuple

import numpy as np
from gymnasium import spaces

_ALIGNMENT = 64  # bytes: a cache line, so that no two processes write to the same one


class Layout(NamedTuple):
    """What one environment observes, earns and takes: picklable, and equal for all that fit together.

    Fields:
        observation_space, action_space: Gymnasium spaces.
        reward_shape: () or (R,).
    """

    observation_space: spaces.Space
    action_space: spaces.Space
    reward_shape: tuple


class Arrays(NamedTuple):
    """One step of B environments.

    Fields:
        step_type: int32 [B]; 0 FIRST, 1 MID, 2 LAST.
        reward: float32 [B] or [B, R].
        discount: float32 [B].
        observation: list of [B, ...], one for each leaf of the observation space.
        action: list of [B, ...], one for each leaf of the action space: what to do next.
    """

    step_type: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    observation: list
    action: list

    def rows(self, start, stop):
        """The same arrays for some of the environments: views."""
        part = slice(start, stop)
        return Arrays(
            self.step_type[part],
            self.reward[part],
            self.discount[part],
            [x[part] for x in self.observation],
            [x[part] for x in self.action],
        )


def leaves(space):
    """The leaves of a space, in the order of `tf.nest`: keys of a Dict are sorted."""
    if isinstance(space, spaces.Dict):
        return [leaf for key in sorted(space.spaces) for leaf in leaves(space.spaces[key])]
    if isinstance(space, spaces.Tuple):
        return [leaf for part in space.spaces for leaf in leaves(part)]
    return [space]


def arrays_size(layout, batch_size):
    """The bytes that `make_arrays` needs."""
    return _place(layout, batch_size)[1]


def make_arrays(layout, batch_size, buffer):
    """Makes the `Arrays` of `batch_size` environments in `buffer`, which holds `arrays_size` bytes."""
    parts, _ = _place(layout, batch_size)
    made = [np.ndarray(shape, dtype, buffer, offset) for shape, dtype, offset in parts]
    num_observations = len(leaves(layout.observation_space))
    return Arrays(*made[:3], made[3 : 3 + num_observations], made[3 + num_observations :])


def _place(layout, batch_size):
    """Returns (shape, dtype, offset) of every array, and the size of all."""
    fields = [((), np.int32), (layout.reward_shape, np.float32), ((), np.float32)]
    for space in (layout.observation_space, layout.action_space):
        fields += [(leaf.shape, leaf.dtype) for leaf in leaves(space)]
    parts, offset = [], 0
    for shape, dtype in fields:
        shape, dtype = (batch_size, *shape), np.dtype(dtype)
        parts.append((shape, dtype, offset))
        size = dtype.itemsize * int(np.prod(shape))
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT
    return parts, offset
