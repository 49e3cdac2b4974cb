# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TargetUpdater: keeps the variables of target networks near to those of the networks that learn."""

import tensorflow as tf

from alf.errors import check_int, check_number


class TargetUpdater(tf.Module):
    """Moves variables towards others: `target <- tau * source + (1 - tau) * target`.

    Args:
        sources, targets: sequences of variables, of the same number and shapes. The constructor copies the
            sources to the targets, and makes the targets not trainable: `tf.Module.trainable_variables`
            leaves them out.
        tau: in (0, 1]; 1 copies.
        period: every so many calls the targets move.

    Raises:
        ConfigError: if a setting is wrong.
        ValueError: if the variables do not agree.
    """

    def __init__(self, sources, targets, tau=1.0, period=1):
        super().__init__(name="target_updater")
        check_number("tau", tau, above=0, at_most=1)
        check_int("target_update_period", period)
        self._pairs = list(zip(sources, targets, strict=True))
        self._tau = tau
        self._period = period
        self._calls = tf.Variable(0, dtype=tf.int64, trainable=False, name="calls")
        for source, target in self._pairs:
            target.assign(source)
            # TensorFlow has no public way to change this later. If the target were made with trainable=False,
            # a Keras layer would list it at another position than its source.
            target._trainable = False

    def __call__(self):
        """Counts one update, in the graph, and moves the targets if the period is over."""
        if self._period == 1:
            self._move()
        else:
            is_due = tf.equal(self._calls.assign_add(1) % self._period, 0)
            tf.cond(is_due, self._move, lambda: None)

    def _move(self):
        for source, target in self._pairs:
            value = source.read_value()
            if self._tau < 1 and target.dtype.is_floating:
                value = self._tau * value + (1.0 - self._tau) * target
            target.assign(value)
