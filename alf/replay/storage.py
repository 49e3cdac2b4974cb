# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Large variables whose rows are read and written in place."""

import os

import tensorflow as tf

from alf.errors import ConfigError


def allocate(num_rows, shape, dtype):
    """Makes a variable [num_rows, *shape] in main memory, whose content is arbitrary.

    The operating system provides the memory as rows are written for the first time. (tf.zeros would take
    all of it, and 2 seconds for 7 GB, at once.)
    """
    with tf.device("CPU:0"):
        value = tf.raw_ops.Empty(shape=(num_rows, *shape), dtype=dtype, init=False)
        return tf.Variable(value, trainable=False)


def num_bytes(spec):
    """How much memory a nest of tensors takes, by their specs."""
    return sum(s.shape.num_elements() * s.dtype.size for s in tf.nest.flatten(spec))


def check_memory(setting, value, size):
    """Raises ConfigError if `size` bytes, which `setting` = `value` asks for, are not in this machine."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > available:
        raise ConfigError(
            f"{setting} is {value}: that takes {size / 1e9:.1f} GB, this machine has "
            f"{available / 1e9:.1f} GB of memory"
        )


# tf.Variable's own methods may read the whole variable, which would copy it. These operations do not.


def write_rows(variable, indices, rows):
    """Overwrites rows of a variable; int64 indices [...]; returns the operation, None in eager mode."""
    return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=indices, updates=rows)


def read_rows(variable, indices):
    """Returns rows of a variable, for int64 indices [...]."""
    rows = tf.raw_ops.ResourceGather(resource=variable.handle, indices=indices, dtype=variable.dtype)
    rows.set_shape([*indices.shape, *variable.shape[1:]])
    return rows


def check_experience(experience, unroll_spec):
    """Raises ConfigError unless the unrolls of an `Experience` are what the spec says."""
    try:
        tf.nest.assert_same_structure(unroll_spec, experience)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the experience's structure is not that of unroll_spec: {error}") from None
    for spec, x in zip(tf.nest.flatten(unroll_spec), tf.nest.flatten(experience), strict=True):
        if x.dtype != spec.dtype or not x.shape[1:].is_compatible_with(spec.shape):
            raise ConfigError(
                f"the experience holds unrolls of {x.dtype.name} {x.shape[1:]}, unroll_spec says "
                f"{spec.dtype.name} {spec.shape}"
            )
