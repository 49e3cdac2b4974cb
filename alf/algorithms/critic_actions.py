# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The environment's actions as critics see them: indices, or boxes scaled to [-1, 1]."""

import numpy as np
import tensorflow as tf


def action_index(action, action_spec):
    """Which of its choices a scalar integer is.

    Args:
        action: integers [...] like the environment's.
        action_spec: scalar tensor spec of an integer, with bounds.

    Returns:
        int64 [...], 0 for the minimum.
    """
    return tf.cast(action, tf.int64) - int(action_spec.minimum)


def unit_action(action, action_spec):
    """Scales a box to [-1, 1]; the inverse of what `TanhGaussianActions.action` makes of tanh.

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
