# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Converts batched arrays to actions that a Gymnasium space contains."""

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from alf.workers.specs import has_bounds


def map_space(space, make_converter):
    """Returns a function that converts a nest of batched arrays, each by the converter of its space.

    `make_converter` makes the converter, a function from array to array, of a space that is neither Dict nor
    Tuple. The nest of spaces is walked once, here; `tf.nest` would walk the nest at every step.
    """
    if isinstance(space, spaces.Dict):
        parts = {k: map_space(v, make_converter) for k, v in space.spaces.items()}
        return lambda nest: {k: convert(nest[k]) for k, convert in parts.items()}
    if isinstance(space, spaces.Tuple):
        parts = tuple(map_space(v, make_converter) for v in space.spaces)
        return lambda nest: tuple(convert(x) for convert, x in zip(parts, nest, strict=True))
    return make_converter(space)


def make_action_converter(space, batch_size):
    """Returns a function from a policy's actions, [B, *space.shape], to actions that `space` contains.

    `space` is neither Dict nor Tuple. The function raises ValueError for a wrong shape, and TypeError for
    floats where `space` has integers. It clips actions to the bounds of a Box. It does not clip actions of
    a discrete space: an action out of range is an error of the policy, which the environment reports.
    """
    dtype, shape = space.dtype, (batch_size, *space.shape)

    def convert(action):
        # "same_kind" lets a float32 action be a float64 one, but refuses floats where the space has integers.
        action = np.asarray(action).astype(dtype, casting="same_kind", copy=False)
        if action.shape != shape:
            raise ValueError(f"The action has shape {action.shape} instead of {shape}.")
        return action

    if not (isinstance(space, spaces.Box) and has_bounds(space)):
        return convert
    # Two ufuncs take half the time of np.clip on small arrays.
    return lambda action: np.minimum(np.maximum(convert(action), space.low), space.high)


def sample_actions(spec, batch_size, rng):
    """Returns a random nest of actions [B, ...] within a nest of specs; floats, if possible, in [-10, 10].

    Args:
        spec: nest of `ArraySpec`, without the batch dimension.
        batch_size: int, B.
        rng: `np.random.RandomState`.
    """

    def sample(spec):
        shape = (batch_size, *spec.shape)
        if not hasattr(spec, "minimum"):
            return rng.standard_normal(shape).astype(spec.dtype)
        if np.issubdtype(spec.dtype, np.integer):
            # In int64, because the upper end is excluded, and an int32 cannot hold its maximum plus 1.
            return rng.randint(spec.minimum, spec.maximum.astype(np.int64) + 1, shape).astype(spec.dtype)
        # Where both bounds are above 10, or below -10, an interval of 20 at the nearer one.
        low = np.maximum(spec.minimum, np.where(spec.maximum > -10, -10, spec.maximum - 20))
        high = np.minimum(spec.maximum, np.where(spec.minimum < 10, 10, spec.minimum + 20))
        return rng.uniform(low, high, shape).astype(spec.dtype)

    return tf.nest.map_structure(sample, spec)
