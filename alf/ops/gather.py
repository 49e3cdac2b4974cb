# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""gather: `tf.gather` that keeps images on a GPU; gather_columns: of an `Experience`."""

import tensorflow as tf

from alf.core.devices import find_gpus


def gather(x, indices, axis=0):
    """Does what `tf.gather` does; where there is a GPU, also for bytes.

    TensorFlow has no kernel that gathers bytes on a GPU: it would copy all of `x` to main memory, and the
    result back. So four bytes count as a float32 meanwhile, of which nothing is computed.

    Args:
        x: tensor. The shape behind `axis` must be known for uint8 and int8.
        indices: integer tensor.
        axis: int, at least 0.
    """
    if x.dtype.size > 1 or x.dtype == tf.bool or not find_gpus():
        return tf.gather(x, indices, axis=axis)
    before, row = tf.shape(x)[: axis + 1], x.shape[axis + 1 :]
    if row.num_elements() % 4:  # exact, too, and larger
        return tf.cast(tf.gather(tf.cast(x, tf.float32), indices, axis=axis), x.dtype)
    words = tf.bitcast(tf.reshape(x, tf.concat([before, [row.num_elements() // 4, 4]], 0)), tf.float32)
    found = tf.bitcast(tf.gather(words, indices, axis=axis), x.dtype)
    shape = x.shape[:axis] + indices.shape + row
    found = tf.reshape(found, tf.concat([tf.shape(found)[:-2], row], 0))
    found.set_shape(shape)
    return found


def gather_columns(experience, columns, take=gather):
    """Selects columns of an `Experience` of [T+1, B, ...] whose state, as it is at row 0, is [B, ...].

    Args:
        experience: the `Experience`.
        columns: integer tensor [N].
        take: `gather`, or `tf.gather` for experience in main memory.
    """
    rows = tf.nest.map_structure(lambda x: take(x, columns, axis=1), experience._replace(state=()))
    return rows._replace(state=tf.nest.map_structure(lambda x: take(x, columns), experience.state))
