# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Large variables that are read and written in place, along their first dimension."""

import os

import tensorflow as tf

from alf.errors import ConfigError
from alf.nest_utils import add_leading_dims, find_mismatch


def allocate(size, shape, dtype):
    """Makes a variable [size, *shape] in main memory. Its content is arbitrary.

    The operating system provides each page of memory when it is first written. (`tf.zeros` would take all
    memory at once, and 2 seconds for 7 GB.)
    """
    with tf.device("CPU:0"):
        value = tf.raw_ops.Empty(shape=(size, *shape), dtype=dtype, init=False)
        return tf.Variable(value, trainable=False)


def num_bytes(spec):
    """Counts the bytes of a nest of tensors, by their specs."""
    return sum(s.shape.num_elements() * s.dtype.size for s in tf.nest.flatten(spec))


def check_memory(setting, value, size):
    """Raises ConfigError if this machine has less than the `size` bytes that `setting` = `value` needs."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > available:
        raise ConfigError(
            f"{setting} is {value}: that takes {size / 1e9:.1f} GB, this machine has "
            f"{available / 1e9:.1f} GB of memory"
        )


# The methods of tf.Variable may read, and so copy, the whole variable. These operations do not.


def write_at(variable, indices, values):
    """Writes `values` [..., *shape] at int64 indices [...]; returns the operation, None in eager mode."""
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=indices, updates=values)


def read_at(variable, indices):
    """Returns what a variable [size, *shape] holds at int64 indices [...]: a tensor [..., *shape]."""
    values = tf.raw_ops.ResourceGather(resource=variable.handle, indices=indices, dtype=variable.dtype)
    values.set_shape([*indices.shape, *variable.shape[1:]])
    return values


def check_experience(experience, unroll_spec):
    """Raises ConfigError unless an `Experience` of [Q, T+1, B, ...] holds unrolls of the spec."""
    mismatch = find_mismatch(experience, add_leading_dims(unroll_spec, None))
    if mismatch:
        raise ConfigError(f"the experience does not fit unroll_spec: {mismatch}")
