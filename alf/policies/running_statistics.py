# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunningStatistics: mean and standard deviation of a stream."""

import tensorflow as tf


class RunningStatistics(tf.Module):
    """Mean and standard deviation of a stream of elements of one shape. The batch sizes do not change them.

    In float64, it merges the moments of each batch into its own, as in Chan, Golub and LeVeque 1979,
    "Updating formulae and a pairwise algorithm for computing sample variances".
    """

    def __init__(self, shape):
        super().__init__(name="running_statistics")
        zero, zeros = tf.zeros((), tf.float64), tf.zeros(shape, tf.float64)
        self._count = tf.Variable(zero, trainable=False, name="count")
        self._mean = tf.Variable(zeros, trainable=False, name="mean")
        self._squares = tf.Variable(zeros, trainable=False, name="squares")  # sum of squared deviations

    def update(self, x, mask):
        """Adds the elements of `x`, float [..., *shape] of any dtype, where `mask`, bool [...], is True."""
        x = tf.cast(tf.boolean_mask(x, mask), tf.float64)
        added = tf.cast(tf.shape(x)[0], tf.float64)
        mean = tf.math.divide_no_nan(tf.reduce_sum(x, 0), added)
        squares = tf.reduce_sum(tf.math.squared_difference(x, mean), 0)
        count = self._count + added
        delta = mean - self._mean
        weight = tf.math.divide_no_nan(added, count)
        squares += tf.square(delta) * self._count * weight
        # Everything is computed before anything is assigned.
        with tf.control_dependencies([squares]):
            self._squares.assign_add(squares)
            self._mean.assign_add(delta * weight)
            self._count.assign(count)

    def mean(self):
        """Returns the mean, float64 [*shape]; 0 before the first update."""
        return tf.identity(self._mean)

    def std(self, epsilon=1e-8):
        """Returns sqrt(variance + epsilon), float64 [*shape]; 1 before the second element."""
        std = tf.sqrt(self._squares / tf.maximum(self._count, 1.0) + epsilon)
        return tf.where(self._count < 2, tf.ones_like(std), std)
