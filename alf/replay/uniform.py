# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UniformReplayer: sequences drawn uniformly from the newest experience, or from that of a file."""

import gin
import tensorflow as tf

from alf.replay import buffer_file
from alf.replay.buffer_replayer import BufferReplayer
from alf.replay.replayer import Sequences


@gin.configurable(module="alf.replay")
class UniformReplayer(BufferReplayer):
    """Draws all sequences of the newest experience equally often. Arguments are as in `BufferReplayer`."""

    name = "uniform"

    def sample(self, batch_size, length, progress):
        del progress
        self._check_length(length)
        low, high = self.starts(length)
        ends = tf.cumsum(high - low)
        with tf.control_dependencies([self._assert_any(ends[-1], length)]):
            total = tf.maximum(ends[-1], 1) * self.batch_size
        drawn = tf.random.uniform((batch_size,), 0, total, tf.int64)
        nth, column = drawn // self.batch_size, drawn % self.batch_size
        env = tf.searchsorted(ends, nth, side="right", out_type=tf.int64)
        start = (tf.gather(high, env) - (tf.gather(ends, env) - nth)) * self.start_stride
        sequences = Sequences(env, column, start)
        return self.gather(sequences, length), sequences, tf.ones(batch_size)


def load_replayer(path, context=0):
    """Makes a `UniformReplayer` that holds all experience of a file. It needs no environments.

    Its `row_spec` has the specs of the file. Every `policy_version` is 0, because those of the file count the
    updates of another run. `context` is as in `BufferReplayer`.

    Raises:
        ConfigError: if the file is damaged, or there is no such file.
    """
    unroll_spec, num_envs, num_steps = buffer_file.read_layout(path)
    num_time_steps, batch_size = unroll_spec.step_type.shape
    capacity = max(num_steps, num_time_steps - 1) * num_envs * batch_size
    replayer = UniformReplayer(unroll_spec, num_envs, context, capacity)
    replayer.load(path)
    replayer.rows.policy_version.assign(tf.zeros_like(replayer.rows.policy_version))
    return replayer
