# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RingBuffer: the newest time steps of every environment."""

import tensorflow as tf

from alf.data_structures import PolicyState
from alf.nest_utils import remove_leading_dims, zeros_from_spec
from alf.replay.replayer import Sequences
from alf.replay.spec_json import named_leaves
from alf.replay.storage import allocate, check_experience, read_at, write_at


class RingBuffer:
    """Keeps the newest time steps of every environment, each stored once, in memory that does not grow.

    Positions: the time steps of an environment have positions, which count from 0 and never start again. The
    last time step of an unroll and the first one of the next unroll have the same position; the later write
    replaces the earlier one. A batched environment has `num_steps` + 1 slots. Position p is in slot
    p modulo (`num_steps` + 1).

    Rows: a row is the place of one time step of one environment in the variables `rows`. The B environments
    of a slot have consecutive rows.

    The recurrent state is stored once for each unroll, so sequences start where unrolls did. `env_id` is not
    stored, because it follows from the row. The state of data transformers is not stored either.

    Threads: one thread writes, and others may read meanwhile, without a lock. To write an unroll, the writer
    first raises `steps_after_write`, then overwrites slots, then raises `steps`. A reader first reads `steps`
    and what it wants, and after that `steps_after_write`. It must throw away the time steps at positions
    below `steps_after_write - num_steps`, because the writer may have overwritten them. All others are
    intact.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        num_envs: int; batched environments.
        num_steps: int; environment steps kept of each environment, at least T.

    Attributes:
        row_spec: `Experience` of the specs of one time step of one environment; bounds are kept.
        unroll_length, batch_size, num_envs, num_steps: ints; T, B and the arguments.
        num_rows: int; num_envs * (num_steps + 1) * B.
        start_stride: int; sequences start at multiples of it: T with a recurrent state, else 1.
        steps: int64 variable [num_envs]; position of the newest time step.
        steps_after_write: int64 variable [num_envs]; `steps` after the write that goes on now, else `steps`.
        first: int64 variable [num_envs]; position of the first time step that is not forgotten.
        rows: dict from name to variable [num_rows, ...], one for each leaf of `row_spec` that is stored.
        states: dict from name to variable [num_envs * unrolls, B, ...] of the recurrent state.
    """

    def __init__(self, unroll_spec, num_envs, num_steps):
        num_time_steps, self.batch_size = unroll_spec.step_type.shape
        self.unroll_length = num_time_steps - 1
        self.num_envs = num_envs
        self.num_steps = num_steps
        self.row_spec = make_row_spec(unroll_spec)
        self._unroll_spec = unroll_spec
        stored, state = stored_specs(self.row_spec)
        self.start_stride = self.unroll_length if state else 1
        self.num_rows = num_envs * (num_steps + 1) * self.batch_size
        self.rows = {name: allocate(self.num_rows, s.shape, s.dtype) for name, s in stored.items()}
        self._state_slots = num_steps // self.unroll_length
        self.states = {
            name: allocate(num_envs * self._state_slots, (self.batch_size, *s.shape), s.dtype)
            for name, s in state.items()
        }
        with tf.device("CPU:0"):
            self.steps, self.steps_after_write, self.first = (
                tf.Variable(tf.zeros(num_envs, tf.int64), trainable=False) for _ in range(3)
            )

    @tf.function(autograph=False, reduce_retracing=True)
    def write(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...], one unroll after another."""
        check_experience(experience, self._unroll_spec)
        num_unrolls = tf.shape(experience.step_type)[0]

        def body(q):
            unroll = tf.nest.map_structure(lambda x: x[q], experience)
            with tf.control_dependencies([self._write_unroll(unroll)]):
                return [q + 1]

        tf.while_loop(lambda q: q < num_unrolls, body, [tf.constant(0)], parallel_iterations=1)

    def _write_unroll(self, unroll):
        env = tf.cast(unroll.env_id[0, 0] // self.batch_size, tf.int64)
        start = read_at(self.steps, env)
        end = start + self.unroll_length
        positions = tf.range(start, end + 1)[:, tf.newaxis]
        rows = tf.reshape(self.row_of(env, tf.range(self.batch_size, dtype=tf.int64), positions), (-1,))
        with tf.control_dependencies([write_at(self.steps_after_write, env, end)]):
            leaves = tf.nest.flatten(_drop_unstored(unroll))
            writes = [
                write_at(variable, rows, tf.reshape(x, (-1, *x.shape[2:])))
                for variable, x in zip(self.rows.values(), leaves, strict=True)
            ]
            slot = self.state_slot_of(env, start)
            leaves = tf.nest.flatten(unroll.state.train)
            writes += [write_at(v, slot, x) for v, x in zip(self.states.values(), leaves, strict=True)]
        with tf.control_dependencies(writes):
            return write_at(self.steps, env, end)

    def row_of(self, env, column, position):
        """The row of a time step; int64 arguments, broadcast."""
        slot = position % (self.num_steps + 1)
        return (env * (self.num_steps + 1) + slot) * self.batch_size + column

    def state_slot_of(self, env, position):
        """The index in the variables `states` of the unroll that began at a position; int64, broadcast."""
        return env * self._state_slots + position // self.unroll_length % self._state_slots

    def sequences_at(self, rows):
        """The `Sequences` that start at rows, int64 [N]."""
        columns, slots = self.batch_size, self.num_steps + 1
        env = rows // (slots * columns)
        slot = rows // columns % slots
        newest = tf.gather(self.steps, env)
        return Sequences(env, rows % columns, newest - (newest - slot) % slots)

    def oldest(self):
        """Position of the oldest time step that it holds, int64 [num_envs]."""
        return tf.maximum(self.first, self.steps - self.num_steps)

    def clear(self):
        """Forgets everything. Positions go on."""
        self.first.assign(self.steps)

    def starts(self, length, context):
        """Says where sequences may start.

        Args:
            length: int or int64 scalar; environment steps in a sequence.
            context: int; time steps in front of it.

        Returns:
            low, high: int64 [num_envs]; at `start_stride` times low, low + 1, ... high - 1. There is no
            sequence if they are equal.
        """
        low = -(-(self.oldest() + context) // self.start_stride)
        high = (self.steps - length) // self.start_stride + 1
        return low, tf.maximum(low, high)

    def has_start(self, sequences, length, context):
        """Says which sequences may start where they do, as `starts` defines it; bool [N]."""
        low, high = self.starts(length, context)
        nth = sequences.start // self.start_stride
        in_range = (tf.gather(low, sequences.env) <= nth) & (nth < tf.gather(high, sequences.env))
        return in_range & tf.equal(sequences.start % self.start_stride, 0)

    def list_sequences(self, low, high, stride=1):
        """Lists sequences of all columns.

        Args:
            low, high: int64 [num_envs], as `starts` returns them.
            stride: int64 scalar.

        Returns:
            the `Sequences` that start at `start_stride` times low, low + stride, ... below high.
        """
        counts = -((low - high) // stride)
        env = tf.repeat(tf.range(self.num_envs, dtype=tf.int64), counts)
        nth = tf.range(tf.reduce_sum(counts)) - tf.gather(tf.cumsum(counts, exclusive=True), env)
        start = (tf.gather(low, env) + nth * stride) * self.start_stride
        columns = tf.range(self.batch_size, dtype=tf.int64)
        return Sequences(
            tf.repeat(env, self.batch_size),
            tf.tile(columns, tf.shape(env)),
            tf.repeat(start, self.batch_size),
        )

    def read(self, sequences, before, after):
        """Reads from `before` time steps before the starts of sequences to `after` time steps after them.

        Returns:
            `Experience` of [before + 1 + after, N, ...]; `state.train` [N, ...] entered at the starts,
            `state.transformer` is zeros.
        """
        env, column, start = sequences
        offsets = tf.range(-before, after + 1, dtype=tf.int64)[:, tf.newaxis]
        rows = self.row_of(env, column, start + offsets)
        leaves = [read_at(variable, rows) for variable in self.rows.values()]
        experience = tf.nest.pack_sequence_as(_drop_unstored(self.row_spec), leaves)
        state_index = tf.stack([self.state_slot_of(env, start), column], axis=-1)
        states = [
            tf.raw_ops.ResourceGatherNd(resource=variable.handle, indices=state_index, dtype=variable.dtype)
            for variable in self.states.values()
        ]
        count = env.shape[0] if env.shape[0] is not None else tf.shape(env)[0]
        env_id = tf.cast(env * self.batch_size + column, tf.int32)
        return experience._replace(
            env_id=tf.ones_like(experience.step_type) * env_id,
            state=PolicyState(
                transformer=zeros_from_spec(self.row_spec.state.transformer, count),
                train=tf.nest.pack_sequence_as(self.row_spec.state.train, states),
            ),
        )


def make_row_spec(unroll_spec):
    """Makes the specs of one time step of one environment; bounds are kept.

    Args:
        unroll_spec: `Experience` of tensor specs of [T+1, B, ...], state [B, ...].
    """
    row_spec = remove_leading_dims(unroll_spec._replace(state=()), 2)
    return row_spec._replace(state=remove_leading_dims(unroll_spec.state, 1))


def stored_specs(row_spec):
    """The leaves that a buffer stores: dicts from name to spec, of each row and of the recurrent state."""
    rows = named_leaves(_drop_unstored(row_spec))
    return dict(rows), dict(named_leaves(row_spec.state.train, "state"))


def _drop_unstored(experience):
    return experience._replace(env_id=(), state=())
