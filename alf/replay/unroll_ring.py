# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UnrollRing: the newest unrolls, as they came, in memory that does not grow."""

import tensorflow as tf

from alf.replay.storage import allocate, check_experience, read_rows, write_rows


class UnrollRing:
    """The newest `capacity` unrolls.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll.
        capacity: int; unrolls.

    Attributes:
        capacity: int.
        count: int; unrolls written so far.
    """

    def __init__(self, unroll_spec, capacity):
        self.capacity = capacity
        self.count = 0
        self._spec = unroll_spec
        self._unrolls = [allocate(capacity, s.shape, s.dtype) for s in tf.nest.flatten(unroll_spec)]

    def write(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...], of which the last `capacity` unrolls stay."""
        num_unrolls = experience.step_type.shape[0]
        self.count += num_unrolls
        if num_unrolls > self.capacity:
            experience = tf.nest.map_structure(lambda x: x[-self.capacity :], experience)
        self._write(experience, tf.constant(self.count, tf.int64))

    def read(self, numbers):
        """Returns unrolls, an `Experience` of [Q, T+1, B, ...].

        Args:
            numbers: int64 [Q]; which unrolls, counted from the first one written; each among the newest.
        """
        return self._read(numbers)

    @tf.function(autograph=False, reduce_retracing=True)
    def _write(self, experience, count):
        check_experience(experience, self._spec)
        num_unrolls = tf.shape(experience.step_type, tf.int64)[0]
        numbers = tf.range(count - num_unrolls, count)
        for variable, x in zip(self._unrolls, tf.nest.flatten(experience), strict=True):
            write_rows(variable, numbers % self.capacity, x)

    @tf.function(autograph=False, reduce_retracing=True)
    def _read(self, numbers):
        slots = numbers % self.capacity
        unrolls = [read_rows(variable, slots) for variable in self._unrolls]
        return tf.nest.pack_sequence_as(self._spec, unrolls)
