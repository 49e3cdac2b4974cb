# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""BufferReplayer: what the replayers that keep the newest experience have in common."""

import tensorflow as tf

from alf.errors import ConfigError, check_int
from alf.replay import buffer_file
from alf.replay.replayer import Replayer
from alf.replay.ring_buffer import RingBuffer
from alf.replay.storage import check_memory, num_bytes


class BufferReplayer(Replayer):
    """Keeps the newest experience of every environment. A subclass implements `sample`.

    Args:
        unroll_spec, num_envs, context: as in `make_replayer`.
        capacity: int; environment steps of all environments together. Each one keeps its share.
    """

    is_buffer = True

    def __init__(self, unroll_spec, num_envs, context, capacity):
        self._setting = f"{type(self).__name__}.capacity"
        self._capacity = capacity
        self._context = context
        check_int(self._setting, capacity)
        rows, batch_size = unroll_spec.step_type.shape
        columns = num_envs * batch_size
        num_steps = -(-capacity // columns)
        if num_steps < rows - 1:
            raise ConfigError(
                f"{self._setting} is {capacity}: it must be at least {(rows - 1) * columns}, one unroll of "
                f"{rows - 1} steps of each of {columns} environments"
            )
        size = num_bytes(unroll_spec._replace(state=())) // rows * num_envs * (num_steps + 1)
        check_memory(self._setting, capacity, size)
        self._buffer = RingBuffer(unroll_spec, num_envs, num_steps)

    @property
    def row_spec(self):
        """`Experience` of the unbatched specs of what it holds; bounds are kept."""
        return self._buffer.row_spec

    def observe(self, experience):
        self._buffer.write(experience)

    def num_steps(self):
        return tf.reduce_sum(self._buffer.steps - self._buffer.oldest()) * self._buffer.batch_size

    def clear(self):
        self._buffer.clear()

    def num_sequences(self, length):
        low, high = self._starts(length)
        return tf.reduce_sum(high - low) * self._buffer.batch_size

    def all_sequences(self, length):
        low, high = self._starts(length)
        stride = -(-length // self._buffer.unit)
        # The newest time step is the end of the last sequence; what is left over is the oldest.
        return self._buffer.sequences(
            tf.where(high > low, low + (high - 1 - low) % stride, high), high, stride
        )

    def gather(self, sequences, length):
        return self._buffer.read(sequences, self._context, length)

    def save(self, path):
        buffer_file.save(path, self._buffer)

    def load(self, path):
        buffer_file.load(path, self._buffer)

    def forget_versions(self):
        """Sets every `policy_version` to 0."""
        versions = self._buffer.rows["policy_version"]
        versions.assign(tf.zeros_like(versions))

    def _starts(self, length):
        check_int("mini_batch_length", length)
        if self._context + length > self._buffer.num_steps:
            context = f" and {self._context} before them" if self._context else ""
            raise ConfigError(
                f"{self._setting} is {self._capacity}, {self._buffer.num_steps} steps of each environment: "
                f"too little for sequences of {length} steps{context}"
            )
        return self._buffer.starts(length, self._context)

    def _assert_any(self, total, length):
        message = f"ALF: the replay buffer holds no sequence of {length} steps yet"
        assertion = tf.debugging.Assert(total > 0, [message])
        return [] if assertion is None else [assertion]
