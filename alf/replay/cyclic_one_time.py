# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CyclicOneTimeReplayer: experience is learned from once, and waits in memory that does not grow."""

import gin
import tensorflow as tf

from alf.errors import check_int
from alf.replay.one_time import nothing_to_train_on
from alf.replay.replayer import Replayer
from alf.replay.storage import check_memory, num_bytes
from alf.replay.unroll_ring import UnrollRing


@gin.configurable(module="alf.replay")
class CyclicOneTimeReplayer(Replayer):
    """Like `OneTimeReplayer`, but the oldest unrolls make way for new ones if there are too many.

    Args:
        unroll_spec, num_envs, context: as in `make_replayer`.
        capacity: int; unrolls of a batched environment that are kept at most.

    Attributes:
        num_dropped: int; unrolls that made way and were never handed out.
    """

    name = "cyclic_one_time"

    def __init__(self, unroll_spec, num_envs, context=0, capacity=100):
        del num_envs, context
        check_int("CyclicOneTimeReplayer.capacity", capacity)
        check_memory("CyclicOneTimeReplayer.capacity", capacity, capacity * num_bytes(unroll_spec))
        self._ring = UnrollRing(unroll_spec, capacity)
        rows, batch_size = unroll_spec.step_type.shape
        self._steps_per_unroll = (rows - 1) * batch_size
        self._next = 0  # number of the first unroll that has not been handed out
        self.num_dropped = 0

    def observe(self, experience):
        self._ring.write(experience)
        oldest = self._ring.count - self._ring.capacity
        if oldest > self._next:
            self.num_dropped += oldest - self._next
            self._next = oldest

    def replay_all(self):
        num_fresh = self._ring.count - self._next
        if not num_fresh:
            raise nothing_to_train_on()
        experience = self._ring.read(tf.range(self._next, self._ring.count, dtype=tf.int64))
        self._next = self._ring.count
        return experience, num_fresh

    def num_steps(self):
        return tf.constant((self._ring.count - self._next) * self._steps_per_unroll, tf.int64)

    def clear(self):
        self._next = self._ring.count
