# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The signals of a time step, packed: what the drivers move instead of three small arrays."""

import numpy as np
import tensorflow as tf

# `tf.numpy_function` costs about 12 us of GIL time for each array that it returns, so the three signals
# of a time step travel as the rows of one float32 array [S, B]: step type, discount, reward (or its R
# dimensions). They are exact in float32.
_NUM_FIXED_SIGNALS = 2


def num_signals(reward_spec):
    """S, the rows of the packed signals. `reward_spec` has shape () or [R]."""
    return _NUM_FIXED_SIGNALS + (reward_spec.shape.num_elements() or 1)


def pack_signals(time_step):
    """Packs a NumPy time step of B environments as float32 [S, B]."""
    reward = np.asarray(time_step.reward, np.float32)
    signals = np.empty((_NUM_FIXED_SIGNALS + reward[0].size, len(reward)), np.float32)
    signals[0] = time_step.step_type
    signals[1] = time_step.discount
    signals[2:] = reward.T
    return signals


def unpack_signals(signals, reward_spec):
    """The inverse of `pack_signals`, for tensors float32 [..., S, B].

    Returns:
        step_type int32 [..., B], discount float32 [..., B], reward float32 [..., B] or [..., B, R].
    """
    step_type, discount, *reward = tf.unstack(signals, axis=-2)
    step_type = tf.cast(step_type, tf.int32)
    if reward_spec.shape.rank == 0:
        return step_type, discount, reward[0]
    return step_type, discount, tf.stack(reward, axis=-1)


def env_ids(env_index, batch_size):
    """The ids of an environment's B sub-environments, int32 [B]."""
    return env_index * batch_size + tf.range(batch_size, dtype=tf.int32)
