# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SumTree: numbers from which to draw in proportion to their size."""

import tensorflow as tf

from alf.replay.storage import read_at

_FANOUT = 32  # children of a node: few levels, so few operations


class SumTree:
    """Holds `size` (int) numbers, none negative and all zero at first, and their sums.

    Level k is a variable [n, 32]. The sum of its element i, 32 numbers, is number i of level k + 1. When a
    number changes, the sums above it are computed anew from their children, so rounding errors do not add up.
    """

    def __init__(self, size):
        self._size = size
        self._levels = []
        with tf.device("CPU:0"):
            while not self._levels or size > 1:
                size = -(-size // _FANOUT)
                self._levels.append(tf.Variable(tf.zeros((size, _FANOUT), tf.float64), trainable=False))

    def total(self):
        """The sum of all numbers, float64 scalar."""
        return tf.reduce_sum(self._levels[-1])

    def numbers(self):
        """All numbers, float64 [size]."""
        return tf.reshape(self._levels[0], (-1,))[: self._size]

    def get(self, indices):
        """Returns the numbers, float64 [...], at int64 [...]."""
        return tf.raw_ops.ResourceGatherNd(
            resource=self._levels[0].handle, indices=_split(indices), dtype=tf.float64
        )

    @tf.function(autograph=False, reduce_retracing=True)
    def update(self, indices, values):
        """Sets numbers, float64 [N], at int64 [N]; if an index occurs twice, either value may stay."""
        for i, level in enumerate(self._levels):
            tf.raw_ops.ResourceScatterNdUpdate(ref=level.handle, indices=_split(indices), updates=values)
            if i + 1 < len(self._levels):
                indices, _ = tf.unique(indices // _FANOUT)
                values = tf.reduce_sum(read_at(level, indices), axis=1)

    def assign(self, values):
        """Changes all numbers to `values`, float64 [size]."""
        for level in self._levels:
            padding = level.shape.num_elements() - values.shape[0]
            values = tf.reshape(tf.pad(values, [[0, padding]]), level.shape)
            level.assign(values)
            values = tf.reduce_sum(values, axis=1)

    def find(self, targets):
        """Finds where the running sum of the numbers first exceeds each target.

        Args:
            targets: float64 [N] in [0, total). The total must not be zero.

        Returns:
            int64 [N]; indices of numbers above zero.
        """
        index = tf.zeros_like(targets, tf.int64)
        for level in reversed(self._levels):
            sums = tf.cumsum(read_at(level, index), axis=1)
            # By rounding, a target may not be below the last sum. Then the last number above zero is right.
            exceeds = (sums > targets[:, tf.newaxis]) | (sums == sums[:, -1:])
            child = tf.argmax(exceeds, axis=1)
            before = tf.gather(tf.pad(sums, [[0, 0], [1, 0]]), child, batch_dims=1)
            targets = targets - before
            index = index * _FANOUT + child
        return index


def _split(indices):
    return tf.stack([indices // _FANOUT, indices % _FANOUT], axis=-1)
