# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RingBuffer: the newest time steps of every environment."""

import tensorflow as tf
from tf_agents.specs import tensor_spec

from alf.data_structures import PolicyState
from alf.nest_utils import zeros_from_spec
from alf.replay.replayer import Sequences
from alf.replay.spec_json import named_leaves
from alf.replay.storage import allocate, check_experience, read_rows, write_rows


class RingBuffer:
    """The newest time steps of every environment, each stored once, in memory that does not grow.

    The time steps of an environment have positions, which count from 0 and never start again. The last row
    of an unroll has the position of the next one's first row, which overwrites it. An environment has
    `num_steps` + 1 slots; a position's slot is its remainder.

    The recurrent state is stored once for each unroll: sequences start where unrolls did. `env_id` follows
    from the slot. The state of data transformers is not stored.

    One thread may write; others may read at the same time, as `claimed` explains.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        num_envs: int; batched environments.
        num_steps: int; of each environment, at least T.

    Attributes:
        row_spec: `Experience` of unbatched specs; bounds are kept.
        unroll_length, batch_size, num_envs, num_steps: T, B and the arguments.
        num_rows: int; num_envs * (num_steps + 1) * B.
        unit: int; sequences start at its multiples: T with a recurrent state, else 1.
        steps: int64 variable [num_envs]; position of the newest time step.
        claimed: int64 variable [num_envs]; what `steps` will be after a write that has begun: it may have
            overwritten time steps at `claimed - num_steps - 1` and before.
        first: int64 variable [num_envs]; position of the first time step that is not forgotten.
        rows: dict from name to variable [num_rows, ...], one for each leaf of a row.
        states: dict from name to variable [num_envs * unrolls, B, ...] of the recurrent state.
    """

    def __init__(self, unroll_spec, num_envs, num_steps):
        rows, self.batch_size = unroll_spec.step_type.shape
        self.unroll_length = rows - 1
        self.num_envs = num_envs
        self.num_steps = num_steps
        self.row_spec = make_row_spec(unroll_spec)
        self._unroll_spec = unroll_spec
        stored, state = stored_specs(self.row_spec)
        self.unit = self.unroll_length if state else 1
        self.num_rows = num_envs * (num_steps + 1) * self.batch_size
        self.rows = {name: allocate(self.num_rows, s.shape, s.dtype) for name, s in stored.items()}
        self._state_slots = num_steps // self.unroll_length
        self.states = {
            name: allocate(num_envs * self._state_slots, (self.batch_size, *s.shape), s.dtype)
            for name, s in state.items()
        }
        with tf.device("CPU:0"):
            self.steps, self.claimed, self.first = (
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
        start = read_rows(self.steps, env)
        end = start + self.unroll_length
        positions = tf.range(start, end + 1)[:, tf.newaxis]
        rows = tf.reshape(self.row(env, positions, tf.range(self.batch_size, dtype=tf.int64)), (-1,))
        with tf.control_dependencies([write_rows(self.claimed, env, end)]):
            leaves = tf.nest.flatten(_stored(unroll))
            writes = [
                write_rows(variable, rows, tf.reshape(x, (-1, *x.shape[2:])))
                for variable, x in zip(self.rows.values(), leaves, strict=True)
            ]
            slot = self.state_row(env, start)
            leaves = tf.nest.flatten(unroll.state.train)
            writes += [write_rows(v, slot, x) for v, x in zip(self.states.values(), leaves, strict=True)]
        with tf.control_dependencies(writes):
            return write_rows(self.steps, env, end)

    def row(self, env, position, column):
        """Index into `rows`' variables; int64, broadcast."""
        slot = position % (self.num_steps + 1)
        return (env * (self.num_steps + 1) + slot) * self.batch_size + column

    def state_row(self, env, position):
        """Index into `states`' variables of the unroll that began at a position; int64."""
        return env * self._state_slots + position // self.unroll_length % self._state_slots

    def oldest(self):
        """Position of the oldest time step that is held, int64 [num_envs]."""
        return tf.maximum(self.first, self.steps - self.num_steps)

    def clear(self):
        """Forgets everything. Positions go on."""
        self.first.assign(self.steps)

    def starts(self, length, context):
        """Where sequences of `length` steps with `context` rows before them may start.

        Returns:
            low, high: int64 [num_envs]; at `unit` times low, low + 1, ... high - 1. None if they are equal.
        """
        low = -(-(self.oldest() + context) // self.unit)
        high = (self.steps - length) // self.unit + 1
        return low, tf.maximum(low, high)

    def sequences(self, low, high, stride=1):
        """Lists the `Sequences` that start at `unit` times low, low + stride, ... below high, of all columns.

        Args:
            low, high: int64 [num_envs].
            stride: int64 scalar.
        """
        counts = -((low - high) // stride)
        env = tf.repeat(tf.range(self.num_envs, dtype=tf.int64), counts)
        nth = tf.range(tf.reduce_sum(counts)) - tf.gather(tf.cumsum(counts, exclusive=True), env)
        start = (tf.gather(low, env) + nth * stride) * self.unit
        columns = tf.range(self.batch_size, dtype=tf.int64)
        return Sequences(
            tf.repeat(env, self.batch_size),
            tf.tile(columns, tf.shape(env)),
            tf.repeat(start, self.batch_size),
        )

    def rows_of(self, sequences):
        """Where in `rows` sequences start, int64 [N]."""
        return self.row(sequences.env, sequences.start, sequences.column)

    def sequences_at(self, rows):
        """The `Sequences` that start at rows of `rows`, int64 [N]."""
        columns, slots = self.batch_size, self.num_steps + 1
        env = rows // (slots * columns)
        slot = rows // columns % slots
        newest = tf.gather(self.steps, env)
        return Sequences(env, rows % columns, newest - (newest - slot) % slots)

    def read(self, sequences, before, after):
        """Reads from `before` rows before the starts of sequences to `after` rows after them.

        Returns:
            `Experience` of [before + 1 + after, N, ...]; `state.train` [N, ...] entered at the starts,
            `state.transformer` is zeros.
        """
        env, column, start = sequences
        rows = self.row(env, start + tf.range(-before, after + 1, dtype=tf.int64)[:, tf.newaxis], column)
        leaves = [read_rows(variable, rows) for variable in self.rows.values()]
        experience = tf.nest.pack_sequence_as(_stored(self.row_spec), leaves)
        env_id = tf.cast(env * self.batch_size + column, tf.int32)
        train = self._read_state(env, column, start)
        count = env.shape[0] if env.shape[0] is not None else tf.shape(env)[0]
        return experience._replace(
            env_id=tf.ones_like(experience.step_type) * env_id,
            state=PolicyState(zeros_from_spec(self.row_spec.state.transformer, count), train),
        )

    def _read_state(self, env, column, start):
        index = tf.stack([self.state_row(env, start), column], axis=-1)
        leaves = [
            tf.raw_ops.ResourceGatherNd(resource=variable.handle, indices=index, dtype=variable.dtype)
            for variable in self.states.values()
        ]
        return tf.nest.pack_sequence_as(self.row_spec.state.train, leaves)


def make_row_spec(unroll_spec):
    """Makes the unbatched specs of an unroll's; bounds are kept.

    Args:
        unroll_spec: `Experience` of tensor specs of [T+1, B, ...], state [B, ...].
    """

    def without(num_dims):
        def remove(spec):
            shape = spec.shape[num_dims:]
            if isinstance(spec, tensor_spec.BoundedTensorSpec):
                return tensor_spec.BoundedTensorSpec(shape, spec.dtype, spec.minimum, spec.maximum, spec.name)
            return tf.TensorSpec(shape, spec.dtype, spec.name)

        return remove

    rows = tf.nest.map_structure(without(2), unroll_spec._replace(state=()))
    return rows._replace(state=tf.nest.map_structure(without(1), unroll_spec.state))


def stored_specs(row_spec):
    """What a buffer stores: dicts from name to spec, of each time step and of the recurrent state."""
    return dict(named_leaves(_stored(row_spec))), dict(named_leaves(row_spec.state.train, "state"))


def _stored(experience):
    return experience._replace(env_id=(), state=())
