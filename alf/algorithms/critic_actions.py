# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The environment's actions in the form that critics take: an index, or numbers in [-1, 1]."""

import numpy as np
import tensorflow as tf


def action_to_index(action, action_spec):
    """Numbers integer actions from 0.

    Args:
        action: integers [...] like the environment's.
        action_spec: scalar tensor spec of an integer, with bounds.

    Returns:
        int64 [...], 0 for the minimum.
    """
    return tf.cast(action, tf.int64) - int(action_spec.minimum)


def action_to_unit_box(action, action_spec):
    """Scales the numbers of a box to [-1, 1]. `TanhGaussianActions.action` does the reverse after its tanh.

    Args:
        action: [..., *shape] of floating point.
        action_spec: unbatched tensor spec with finite bounds.

    Returns:
        float32 [..., D], where D is the size of the box. A number whose bounds are equal becomes 0.
    """
    low, high = (
        np.broadcast_to(bound, action_spec.shape).ravel().astype(np.float64)
        for bound in (action_spec.minimum, action_spec.maximum)
    )
    radius = high / 2 - low / 2
    scale = np.divide(1.0, radius, out=np.zeros_like(radius), where=radius > 0)
    center = (low / 2 + high / 2).astype(action_spec.dtype.as_numpy_dtype)
    rank = action_spec.shape.rank
    leading = tf.shape(action)[: action.shape.rank - rank]
    flat = tf.reshape(action, tf.concat([leading, [radius.size]], axis=0)) if rank != 1 else action
    return tf.cast(flat - center, tf.float32) * tf.constant(scale, tf.float32)
