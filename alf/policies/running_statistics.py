# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunningStatistics: mean and variance of all that was seen."""

import tensorflow as tf


class RunningStatistics(tf.Module):
    """Mean and variance of a stream of vectors, exact whatever the size of its batches.

    Merges the moments of a batch as in Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise
    algorithm for computing sample variances".

    Args:
        shape: of one element.
    """

    def __init__(self, shape):
        super().__init__(name="running_statistics")
        make = lambda initial, name: tf.Variable(initial, trainable=False, name=name)  # noqa: E731
        self._count = make(tf.zeros((), tf.float64), "count")
        self._mean = make(tf.zeros(shape, tf.float64), "mean")
        self._squares = make(tf.zeros(shape, tf.float64), "squares")  # sum of squared deviations

    def update(self, x, mask):
        """Adds the rows of `x` [..., *shape] where `mask` (bool [...]) holds."""
        x = tf.cast(tf.boolean_mask(x, mask), tf.float64)
        added = tf.cast(tf.shape(x)[0], tf.float64)
        mean = tf.math.divide_no_nan(tf.reduce_sum(x, 0), added)
        squares = tf.reduce_sum(tf.math.squared_difference(x, mean), 0)
        count = self._count + added
        delta = mean - self._mean
        weight = tf.math.divide_no_nan(added, count)
        squares += tf.square(delta) * self._count * weight
        # All is computed before anything is assigned.
        with tf.control_dependencies([squares]):
            self._squares.assign_add(squares)
            self._mean.assign_add(delta * weight)
            self._count.assign(count)

    def mean(self):
        """float32 [*shape]; 0 before the first update."""
        return tf.cast(self._mean, tf.float32)

    def std(self, epsilon=1e-8):
        """sqrt(variance + epsilon), float32 [*shape]; 1 while fewer than two elements were seen."""
        known = self._squares / tf.maximum(self._count, 1.0)
        variance = tf.where(self._count < 2, tf.ones_like(known), known)
        return tf.cast(tf.sqrt(variance + epsilon), tf.float32)
