# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UnrollRing: the newest unrolls, in memory that does not grow."""

import tensorflow as tf

from alf.errors import check_int
from alf.replay.storage import allocate, check_experience, check_memory, num_bytes, read_at, write_at


class UnrollRing:
    """Keeps the newest unrolls.

    Args:
        setting: name of the setting `max_unrolls`, for errors.
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        max_unrolls: int; unrolls of a batched environment that are kept.

    Attributes:
        max_unrolls: int.
        count: int; unrolls written so far.

    Raises:
        ConfigError: if `max_unrolls` is no positive integer, or the machine has too little memory.
    """

    def __init__(self, setting, unroll_spec, max_unrolls):
        check_int(setting, max_unrolls)
        check_memory(setting, max_unrolls, max_unrolls * num_bytes(unroll_spec))
        self.max_unrolls = max_unrolls
        self.count = 0
        self._spec = unroll_spec
        self._variables = [allocate(max_unrolls, s.shape, s.dtype) for s in tf.nest.flatten(unroll_spec)]

    def write(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...]. Only the newest `max_unrolls` unrolls stay."""
        count = self.count + experience.step_type.shape[0]
        self._write(experience, tf.constant(count, tf.int64))
        self.count = count

    @tf.function(autograph=False, reduce_retracing=True)
    def read(self, numbers):
        """Reads unrolls.

        Args:
            numbers: int64 [Q]; counted from the first unroll ever written. Each must still be there.

        Returns:
            `Experience` of [Q, T+1, B, ...].
        """
        unrolls = [read_at(variable, numbers % self.max_unrolls) for variable in self._variables]
        return tf.nest.pack_sequence_as(self._spec, unrolls)

    @tf.function(autograph=False, reduce_retracing=True)
    def _write(self, experience, count):
        check_experience(experience, self._spec)
        newest = [x[-self.max_unrolls :] for x in tf.nest.flatten(experience)]
        slots = tf.range(count - tf.shape(newest[0], tf.int64)[0], count) % self.max_unrolls
        for variable, x in zip(self._variables, newest, strict=True):
            write_at(variable, slots, x)
