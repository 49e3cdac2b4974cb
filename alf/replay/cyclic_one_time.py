# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CyclicOneTimeReplayer: experience is learned from once, and waits in memory that does not grow."""

import gin
import tensorflow as tf

from alf.replay.one_time import NOTHING_OBSERVED
from alf.replay.replayer import UnrollReplayer
from alf.replay.unroll_ring import UnrollRing


@gin.configurable(module="alf.replay")
class CyclicOneTimeReplayer(UnrollReplayer):
    """Like `OneTimeReplayer`, but when too many unrolls wait, it drops the oldest.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        max_unrolls: int; unrolls of a batched environment that may wait.

    Attributes:
        num_dropped: int; unrolls that were dropped and never handed out.

    Raises:
        ConfigError: if `max_unrolls` is no positive integer, or the machine has too little memory.
    """

    name = "cyclic_one_time"

    def __init__(self, unroll_spec, max_unrolls=100):
        self._ring = UnrollRing("CyclicOneTimeReplayer.max_unrolls", unroll_spec, max_unrolls)
        num_time_steps, batch_size = unroll_spec.step_type.shape
        self._steps_per_unroll = (num_time_steps - 1) * batch_size
        self._next = 0  # number of the first unroll that has not been handed out
        self.num_dropped = 0

    @property
    def num_dropped_steps(self):
        """Environment steps in the unrolls that were dropped, counted as in `num_steps`; int."""
        return self.num_dropped * self._steps_per_unroll

    def observe(self, experience):
        self._ring.write(experience)
        oldest = self._ring.count - self._ring.max_unrolls
        if oldest > self._next:
            self.num_dropped += oldest - self._next
            self._next = oldest

    def replay_all(self):
        num_fresh = self._ring.count - self._next
        if not num_fresh:
            raise RuntimeError(NOTHING_OBSERVED)
        experience = self._ring.read(tf.range(self._next, self._ring.count, dtype=tf.int64))
        self._next = self._ring.count
        return experience, num_fresh

    def num_steps(self):
        return tf.constant((self._ring.count - self._next) * self._steps_per_unroll, tf.int64)

    def clear(self):
        self._next = self._ring.count
