# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replay buffers of time steps, and uniform draws of sequences from them."""

from typing import Annotated, Any

import tensorflow as tf

from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.settings import PASSED, configurable
from alf.core.annotations import Array
from alf.core.devices import HOST
from alf.core.nest_utils import remove_leading_dims, zeros_from_spec
from alf.core.tf_runtime import GraphFunction
from alf.data_structures import Experience, PolicyState
from alf.errors import ConfigError
from alf.ops import draws
from alf.replay import buffer_file
from alf.replay.replayer import SequenceReplayer, Sequences
from alf.replay.storage import (
    allocate,
    check_experience,
    check_unroll_spec,
    read_at,
    write_at,
)
from alf.schedules import Progress


class BufferReplayer(SequenceReplayer):
    """Base class of replayers that keep the newest time steps of every environment, each stored once.

    The memory is allocated once and does not grow.

    Positions: the time steps of an environment have positions, which count from 0 and never start again. The
    last time step of an unroll and the first one of the next unroll have the same position; the later write
    replaces the earlier one. A batched environment has `max_steps` + 1 slots. Position p is in slot
    p modulo (`max_steps` + 1).

    Rows: a row is the place of one time step of one environment in the variables `rows`. The B environments
    of a slot have consecutive rows.

    The recurrent state is stored once for each unroll, so sequences start where unrolls did. `env_id` is not
    stored, because it follows from the row. The state of data transformers is not stored either.

    Threads: one thread writes while others read, without a lock. To write an unroll, the writer first
    increases `steps_after_write`, then overwrites slots, then increases `steps`. A reader reads `steps`, then
    time steps, then `steps_after_write`, and drops all time steps at positions below
    `steps_after_write - max_steps`, which the writer may have overwritten. All others are intact.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        num_groups: int, the number of batched environments. Their `env_id`s are index * B + column.
        context: int, the number of time steps in front of a sequence that data transformers need.
        capacity: int, the environment steps of all environments together. All have the same share.
        overlap: int, the steps that two neighbouring sequences of an environment share: sequences of L steps
            start at every (L - overlap)-th step. None: at every step, or with a recurrent state where unrolls
            began.

    Attributes:
        unroll_length, batch_size, num_groups: ints, T, B and the argument.
        num_rows: int, the size of `rows`.
        max_steps: int, the environment steps that it keeps of each environment.
        start_stride: int, T with a recurrent state, else 1: sequences start at its multiples only.
        steps: int64 variable [num_groups], the position of the newest time step.
        steps_after_write: int64 variable [num_groups], the value that `steps` has after the current write;
            `steps` if nothing is written.
        first: int64 variable [num_groups], the position of the first time step since `clear`.
        rows: `Experience` of variables [num_rows, ...], like `row_spec` without env_id and state.
        states: nest of variables [num_groups * unrolls * B, ...] of the recurrent state.
    """

    _tree: Any = None  # in a subclass: `SumTree` of the priorities of the sequences that start at the rows

    def __init__(
        self,
        unroll_spec: Experience,
        num_groups: Annotated[PositiveInt, PASSED],
        context: NonNegativeInt = 0,
        capacity: PositiveInt = 1_000_000,
        overlap: NonNegativeInt | None = None,
    ) -> None:
        kind = type(self).__name__
        num_time_steps, self.batch_size = unroll_spec.step_type.shape
        self.unroll_length = num_time_steps - 1
        self.num_groups = num_groups
        columns = num_groups * self.batch_size
        self.max_steps = -(-capacity // columns)  # rounded up
        self.capacity = self.max_steps * columns
        self._context, self._overlap = context, overlap
        self._setting = f"{kind}.capacity is {capacity}"  # for errors
        if self.max_steps < self.unroll_length:
            unroll = f"one unroll of {self.unroll_length} steps of each of {columns} environments"
            raise ConfigError(
                f"{self._setting}: it must be at least {self.unroll_length * columns}, {unroll}"
            )
        self._unroll_spec = unroll_spec
        row_spec = remove_leading_dims(unroll_spec._replace(state=()), 2)
        self.row_spec = row_spec._replace(state=remove_leading_dims(unroll_spec.state, 1))
        # One slot more than steps: n steps have n + 1 time steps.
        self.num_rows = columns * (self.max_steps + 1)
        self.rows = allocate(self._setting, self.num_rows, row_spec._replace(env_id=()))
        self._max_states = self.max_steps // self.unroll_length  # of each environment
        self.states = allocate(self._setting, columns * self._max_states, self.row_spec.state.train)
        self.start_stride = self.unroll_length if tf.nest.flatten(self.states) else 1
        # Not trainable and not part of a `tf.Module`: they belong to no checkpoint.
        with tf.device(HOST):
            self.steps, self.steps_after_write, self.first, self._steps_before = (
                tf.Variable(tf.zeros(num_groups, tf.int64), trainable=False) for _ in range(4)
            )
        self._write = GraphFunction(self._write_unrolls, reduce_retracing=True)

    def observe(self, experience: Experience) -> None:
        self._write(experience)

    def _write_unrolls(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...], in the graph."""
        # Only while this is traced, so that it costs nothing later.
        check_experience(experience, self._unroll_spec)
        num_unrolls = tf.shape(experience.step_type)[0]
        self._steps_before.assign(self.steps)

        def write_unroll(q):
            unroll = tf.nest.map_structure(lambda x: x[q], experience)
            env = tf.cast(unroll.env_id[0, 0] // self.batch_size, tf.int64)
            column = tf.range(self.batch_size, dtype=tf.int64)
            # Row 0 overwrites row T of the unroll before, which `EnvUnroller.unroll` could not fill: the
            # action in that row and its log probability were only known when this unroll began.
            start = read_at(self.steps, env)
            end = start + self.unroll_length
            rows = tf.reshape(self.row_of(env, column, tf.range(start, end + 1)[:, tf.newaxis]), (-1,))
            time_steps = unroll._replace(env_id=(), state=())
            time_steps = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])), time_steps)
            # This order is what readers rely on (see the class): mark, write, publish.
            with tf.control_dependencies(write_at(self.steps_after_write, env, end)):
                writes = write_at(self.rows, rows, time_steps)
                writes += write_at(self.states, self.state_row_of(env, column, start), unroll.state.train)
            with tf.control_dependencies(writes):
                last_write = write_at(self.steps, env, end)
            with tf.control_dependencies(last_write):
                return [q + 1]

        # One after another: a later unroll of the same environment begins where the one before ended.
        tf.while_loop(lambda q: q < num_unrolls, write_unroll, [tf.constant(0)], parallel_iterations=1)

    def num_steps(self) -> Array:
        return tf.reduce_sum(self.steps - self.oldest()) * self.batch_size

    def oldest(self) -> Array:
        """Returns the position of the oldest time step that it holds, int64 [num_groups]."""
        return tf.maximum(self.first, self.steps - self.max_steps)

    def clear(self) -> None:
        # Positions go on: a `Sequences` from before must not name time steps that are written later. The rows
        # of the context stay, so that a sequence may start at the newest time step.
        self.first.assign(tf.maximum(self.first, self.steps - self._context))

    def check_fits(self, unroll_spec: Experience, num_groups: int, context: int) -> None:
        check_unroll_spec(self.name, self._unroll_spec, unroll_spec)
        for argument, ours, needed in (
            ("num_groups", self.num_groups, num_groups),
            ("context", self._context, context),
        ):
            if ours != needed:
                made = f"exp_replayer is a {self.name!r} replayer that was made with {argument} = {ours}"
                raise ConfigError(f"{made}: {argument} = {needed} is needed")

    def row_of(self, env: Array, column: Array, position: Array) -> Array:
        """Returns the row of a time step. Arguments and result are int64, broadcast."""
        slot = position % (self.max_steps + 1)
        return (env * (self.max_steps + 1) + slot) * self.batch_size + column

    def state_row_of(self, env: Array, column: Array, position: Array) -> Array:
        """Returns the index in `states` of the state with which the unroll at a position begins; int64."""
        # States go round by themselves, and not with the slots of time steps, of which a round need not be a
        # whole number of unrolls.
        slot = position // self.unroll_length % self._max_states
        return (env * self._max_states + slot) * self.batch_size + column

    def sequences_at(self, rows: Array) -> Sequences:
        """Returns the `Sequences` that start at rows, int64 [N]: at the newest position in each row."""
        columns, slots = self.batch_size, self.max_steps + 1
        # The inverse of `row_of`. Of all positions with this slot, the newest one that is not above `steps`.
        env = rows // (slots * columns)
        slot = rows // columns % slots
        newest = tf.gather(self.steps, env)
        return Sequences(env, rows % columns, newest - (newest - slot) % slots)

    def stride(self, length: int) -> int:
        """Returns the steps between the starts of sequences of `length` steps, an int or int64 scalar."""
        if self._overlap is None:
            return self.start_stride
        steps = length - self._overlap  # not above 0 for a length that `_check_length` refuses
        return max(1, steps) if isinstance(steps, int) else tf.maximum(steps, 1)

    def starts(self, length: int) -> tuple[Array, Array]:
        """Returns where sequences of `length` steps, an int or int64 scalar, may start.

        Returns:
            low, high: int64 [num_groups]. Sequences may start at `stride(length)` times low, low + 1, ...
            high - 1; nowhere if low == high.
        """
        # A start needs its context in front and `length` steps behind. Both bounds are rounded inwards, to
        # where sequences start.
        stride = self.stride(length)
        low = -(-(self.oldest() + self._context) // stride)
        high = (self.steps - length) // stride + 1
        return low, tf.maximum(low, high)

    def new_sequences(self, length: int) -> Sequences:
        stride = self.stride(length)
        low, high = self.starts(length)
        before = (self._steps_before - length) // stride + 1
        return self.list_sequences(length, tf.clip_by_value(before, low, high), high)

    def list_sequences(self, length: int, low: Array, high: Array, every: int = 1) -> Sequences:
        """Lists the `Sequences` of all columns at `stride(length)` times low, low + every, ... below high.

        Args:
            length: int or int64 scalar.
            low, high: int64 [num_groups], results of `starts`.
            every: int or int64 scalar.
        """
        # The environments' lists, of different lengths, one after another: `nth` counts within a list.
        counts = -((low - high) // every)  # rounded up
        env = tf.repeat(tf.range(self.num_groups, dtype=tf.int64), counts)
        nth = tf.range(tf.reduce_sum(counts)) - tf.gather(tf.cumsum(counts, exclusive=True), env)
        start = (tf.gather(low, env) + nth * every) * self.stride(length)
        column = tf.tile(tf.range(self.batch_size, dtype=tf.int64), tf.shape(env))
        return Sequences(tf.repeat(env, self.batch_size), column, tf.repeat(start, self.batch_size))

    def num_sequences(self, length: int) -> Array:
        self._check_length(length)
        low, high = self.starts(length)
        return tf.reduce_sum(high - low) * self.batch_size

    def all_sequences(self, length: int) -> Sequences:
        self._check_length(length)
        low, high = self.starts(length)
        every = -(-length // self.stride(length))
        # The last sequence ends at the newest time step. Steps that do not fill a sequence are the oldest.
        low = tf.where(high > low, low + (high - 1 - low) % every, high)
        return self.list_sequences(length, low, high, every)

    def gather(self, sequences: Sequences, length: int) -> Experience:
        return self.read(sequences, self._context, length)

    def read(self, sequences: Sequences, before: int, after: int) -> Experience:
        """Reads sequences, from `before` time steps before their starts to `after` time steps after them.

        Returns:
            `Experience` of [before + 1 + after, N, ...]. `state.train` [N, ...] is the recurrent state at the
            starts, `state.transformer` is zeros.
        """
        # Rows are gathered time-major at once, so the batch needs no transpose.
        env, column, start = sequences
        offsets = tf.range(-before, after + 1, dtype=tf.int64)[:, tf.newaxis]
        experience = read_at(self.rows, self.row_of(env, column, start + offsets))
        count = env.shape[0] if env.shape[0] is not None else tf.shape(env)[0]
        env_id = tf.cast(env * self.batch_size + column, tf.int32)
        # `env_id` is not stored, because it follows from the place of a row.
        return experience._replace(
            env_id=tf.ones_like(experience.step_type) * env_id,
            state=PolicyState(
                transformer=zeros_from_spec(self.row_spec.state.transformer, count),
                # Right only where an unroll began, and `starts` names no other places.
                train=read_at(self.states, self.state_row_of(env, column, start)),
            ),
        )

    def save(self, path: str, compress: bool = False) -> None:
        # Usually in the thread in which `Checkpointer` saves, while the thread that trains observes and
        # draws.
        buffer_file.save(path, self, self._tree, compress)

    def load(self, path: str) -> None:
        buffer_file.load(path, self, self._tree)

    def _check_length(self, length):
        """Raises ConfigError if the buffer can never hold a sequence of this length."""
        if self._context + length > self.max_steps:
            held = f"{self.max_steps} steps of each environment"
            needed = f"{length} steps" + (f" and {self._context} before them" if self._context else "")
            raise ConfigError(f"{self._setting}, {held}: it is too small for sequences of {needed}")
        if self._overlap is None:
            return
        setting = f"{type(self).__name__}.overlap is {self._overlap}"
        if self._overlap >= length:
            raise ConfigError(f"{setting}: it must be less than mini_batch_length, which is {length}")
        if (length - self._overlap) % self.start_stride:
            raise ConfigError(
                f"{setting}: with a recurrent state sequences start where unrolls did, so mini_batch_length "
                f"- overlap = {length} - {self._overlap} must be a multiple of {self.start_stride}, the "
                "unroll_length"
            )

    def _assert_any(self, total, length):
        """Makes an operation, to be run before a draw, that fails if `total` is 0. None in eager mode."""
        # In the graph, because the number of sequences is known only when it runs.
        message = f"ALF: the replay buffer holds no sequence of {length} steps yet"
        return tf.debugging.Assert(total > 0, [message])


@configurable("alf.replay")
class UniformReplayer(BufferReplayer):
    """A replay buffer that draws all sequences with the same probability.

    Its arguments are the arguments of `BufferReplayer`.
    """

    name = "uniform"

    def sample(
        self, batch_size: int, length: int, progress: Progress, num_batches: int = 1
    ) -> tuple[Experience, Sequences, Array]:
        del progress
        count = num_batches * batch_size
        self._check_length(length)
        low, high = self.starts(length)
        ends = tf.cumsum(high - low)
        with tf.control_dependencies([self._assert_any(ends[-1], length)]):
            # Not 0, or `uniform` would fail first, with a worse message.
            total = tf.maximum(ends[-1], 1) * self.batch_size
        # One number for (environment, start, column): environments with more sequences are drawn more often.
        # In int64, because TensorFlow takes random bits modulo the range, which is uneven unless the range is
        # far smaller than the type's.
        drawn = draws.integers((count,), 0, total)
        nth, column = drawn // self.batch_size, drawn % self.batch_size
        # An environment without sequences ends where the one before ends: "right" passes it over.
        env = tf.searchsorted(ends, nth, side="right", out_type=tf.int64)
        start = (tf.gather(high, env) - (tf.gather(ends, env) - nth)) * self.stride(length)
        sequences = Sequences(env, column, start)
        return self.gather(sequences, length), sequences, tf.ones(count)
