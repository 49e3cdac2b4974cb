# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UniformReplayer: sequences drawn uniformly from the newest experience."""

import gin
import tensorflow as tf

from alf.replay.buffer_replayer import BufferReplayer
from alf.replay.replayer import Sample, Sequences


@gin.configurable(module="alf.replay")
class UniformReplayer(BufferReplayer):
    """Keeps the newest experience of every environment; all its sequences are drawn equally often.

    Args:
        unroll_spec, num_envs, context, capacity: as in `BufferReplayer`.
    """

    name = "uniform"

    def __init__(self, unroll_spec, num_envs, context=0, capacity=1_000_000):
        super().__init__(unroll_spec, num_envs, context, capacity)

    def sample(self, batch_size, length, progress):
        del progress
        batch_columns = self._buffer.batch_size
        low, high = self._starts(length)
        ends = tf.cumsum(high - low)
        with tf.control_dependencies(self._assert_any(ends[-1], length)):
            total = tf.maximum(ends[-1], 1) * batch_columns
        drawn = tf.random.uniform((batch_size,), 0, total, tf.int64)
        nth, column = drawn // batch_columns, drawn % batch_columns
        env = tf.searchsorted(ends, nth, side="right", out_type=tf.int64)
        start = (tf.gather(high, env) - (tf.gather(ends, env) - nth)) * self._buffer.unit
        sequences = Sequences(env, column, start)
        return self.gather(sequences, length), Sample(sequences, tf.ones(batch_size))
