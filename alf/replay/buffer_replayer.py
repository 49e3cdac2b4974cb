# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""BufferReplayer: what the replayers share that keep the newest experience in a `RingBuffer`."""

import tensorflow as tf

from alf.errors import ConfigError, check_int
from alf.replay import buffer_file
from alf.replay.replayer import SequenceReplayer
from alf.replay.ring_buffer import RingBuffer
from alf.replay.storage import check_memory, num_bytes


class BufferReplayer(SequenceReplayer):
    """Keeps the newest experience of every environment. A subclass implements `sample`.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        num_envs: int; batched environments, whose `env_id`s are index * B + column.
        context: int; time steps in front of a sequence that data transformers need.
        capacity: int; environment steps of all environments together. Each one keeps its share.

    Raises:
        ConfigError: if a setting is wrong, or the machine has too little memory.
    """

    def __init__(self, unroll_spec, num_envs, context=0, capacity=1_000_000):
        kind = type(self).__name__
        self._setting = f"{kind}.capacity"
        self._capacity = capacity
        self._context = context
        check_int(f"{kind}.num_envs", num_envs)
        check_int(f"{kind}.context", context, at_least=0)
        check_int(self._setting, capacity)
        num_time_steps, batch_size = unroll_spec.step_type.shape
        columns = num_envs * batch_size
        num_steps = -(-capacity // columns)
        if num_steps < num_time_steps - 1:
            raise ConfigError(
                f"{self._setting} is {capacity}: it must be at least {(num_time_steps - 1) * columns}, one "
                f"unroll of {num_time_steps - 1} steps of each of {columns} environments"
            )
        bytes_per_slot = num_bytes(unroll_spec._replace(state=())) // num_time_steps
        check_memory(self._setting, capacity, bytes_per_slot * num_envs * (num_steps + 1))
        self._buffer = RingBuffer(unroll_spec, num_envs, num_steps)

    @property
    def row_spec(self):
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
        stride = -(-length // self._buffer.start_stride)
        # The last sequence ends at the newest time step. What does not fill a sequence is the oldest part.
        low = tf.where(high > low, low + (high - 1 - low) % stride, high)
        return self._buffer.list_sequences(low, high, stride)

    def gather(self, sequences, length):
        return self._buffer.read(sequences, self._context, length)

    def save(self, path):
        buffer_file.save(path, self._buffer)

    def load(self, path):
        buffer_file.load(path, self._buffer)

    def _starts(self, length):
        """Like `RingBuffer.starts`; a ConfigError if the buffer can never hold a sequence."""
        check_int("mini_batch_length", length)
        if self._context + length > self._buffer.num_steps:
            context = f" and {self._context} before them" if self._context else ""
            raise ConfigError(
                f"{self._setting} is {self._capacity}, {self._buffer.num_steps} steps of each environment: "
                f"too little for sequences of {length} steps{context}"
            )
        return self._buffer.starts(length, self._context)

    def _assert_any(self, total, length):
        """Operations to run before a draw: they fail unless `total` is above zero."""
        message = f"ALF: the replay buffer holds no sequence of {length} steps yet"
        assertion = tf.debugging.Assert(total > 0, [message])
        return [] if assertion is None else [assertion]
