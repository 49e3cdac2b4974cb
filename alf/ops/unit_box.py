# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Actions in [-1, 1], as critics and networks with a tanh have them, and in the bounds of environments."""

from typing import Any

import numpy as np
import tensorflow as tf

from alf.core.annotations import Array


def has_unit_box(action_spec: Any) -> bool:
    """Returns whether a spec is one box of floats with finite bounds, which can be scaled to [-1, 1]."""
    is_box = isinstance(action_spec, tf.TensorSpec) and action_spec.dtype.is_floating
    if not is_box or not hasattr(action_spec, "minimum") or not action_spec.shape.num_elements():
        return False
    low, high = _bounds(action_spec)
    return bool(np.all(low <= high)) and are_finite(low, high, action_spec.dtype)


def are_finite(low: Any, high: Any, dtype: tf.DType) -> bool:
    """Returns whether all bounds, arrays, of a spec of a floating point `dtype` are finite."""
    # Specs hold infinite bounds as the limits of their dtype.
    return bool(np.all(np.maximum(np.abs(low), np.abs(high)) < dtype.max))


def action_from_unit_box(x: Array, action_spec: Any) -> Array:
    """Scales numbers in [-1, 1] to the bounds of a box.

    Args:
        x: float32 [..., D], where D is the size of the box. Numbers beyond [-1, 1] are clipped.
        action_spec: unbatched tensor spec with finite bounds and a floating point dtype.

    Returns:
        [..., *shape] with the dtype of the spec.
    """
    low, high = (np.broadcast_to(x, action_spec.shape).ravel() for x in _bounds(action_spec))
    # Halved before the sum and the difference: these may be larger than the dtype can hold.
    center, radius = low / 2 + high / 2, high / 2 - low / 2
    # Rounding may lead beyond the bounds, which environments refuse.
    action = tf.clip_by_value(center + radius * tf.cast(x, action_spec.dtype), low, high)
    if action_spec.shape.rank == 1:
        return action
    return tf.reshape(action, tf.concat([tf.shape(action)[:-1], action_spec.shape], axis=0))


def action_to_unit_box(action: Array, action_spec: Any) -> Array:
    """Scales the numbers of a box to [-1, 1], the reverse of `action_from_unit_box`.

    Args:
        action: [..., *shape] with a floating point dtype.
        action_spec: unbatched tensor spec with finite bounds.

    Returns:
        float32 [..., D], where D is the size of the box. Numbers with equal bounds become 0.
    """
    bounds = (np.broadcast_to(x, action_spec.shape).ravel() for x in _bounds(action_spec))
    low, high = (x.astype(np.float64) for x in bounds)
    radius = high / 2 - low / 2
    scale = np.divide(1.0, radius, out=np.zeros_like(radius), where=radius > 0)
    # Subtracted in the dtype of the action: far from 0, a float32 of a float64 would lose the digits that
    # matter.
    center = (low / 2 + high / 2).astype(action_spec.dtype.as_numpy_dtype)
    if action_spec.shape.rank != 1:
        leading = tf.shape(action)[: action.shape.rank - action_spec.shape.rank]
        action = tf.reshape(action, tf.concat([leading, [radius.size]], axis=0))
    return tf.cast(action - center, tf.float32) * tf.constant(scale, tf.float32)


def _bounds(action_spec):
    return action_spec.minimum, action_spec.maximum
