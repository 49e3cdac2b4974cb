# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PrioritizedReplayer, which draws sequences with large errors more often, and its SumTree."""

from typing import Annotated, Any

import tensorflow as tf

from alf.config.kinds import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.settings import PASSED, configurable
from alf.core.annotations import Array
from alf.core.devices import HOST
from alf.data_structures import Experience
from alf.ops import draws
from alf.replay.buffer_replayer import BufferReplayer
from alf.replay.replayer import Sequences
from alf.replay.storage import read_at, write_at
from alf.schedules import Progress, ScheduledFraction, Tunable, as_schedule

_BLOCK = 32  # numbers of a block of a `SumTree`: a draw reads all sums and, of one block, all numbers


@configurable("alf.replay")
class PrioritizedReplayer(BufferReplayer):
    """Prioritized experience replay (Schaul et al., https://arxiv.org/abs/1511.05952).

    Each draw takes sequence i with probability P(i) = p_i^alpha / sum_k p_k^alpha, independently of the other
    draws. The weight of the sequence is P(i)^-beta, divided by the largest such weight in the batch. New
    sequences get the largest priority so far, also those from a file without priorities.

    Args:
        unroll_spec, num_groups, context, capacity, overlap: passed to `BufferReplayer`.
        alpha: number, at least 0; the influence of priorities. 0 draws uniformly.
        beta: number or `Schedule` in [0, 1]; the part of the bias of the draws that weights correct.
        epsilon: number above 0, added to every priority, so that every sequence can be drawn.
    """

    name = "prioritized"

    def __init__(
        self,
        unroll_spec: Experience,
        num_groups: Annotated[PositiveInt, PASSED],
        context: NonNegativeInt = 0,
        capacity: PositiveInt = 1_000_000,
        alpha: NonNegativeFloat = 0.6,
        beta: ScheduledFraction = 0.4,
        epsilon: PositiveFloat = 1e-6,
        overlap: NonNegativeInt | None = None,
    ) -> None:
        self._beta = as_schedule(beta)
        super().__init__(unroll_spec, num_groups, context, capacity, overlap)
        self._alpha = alpha
        self._epsilon = epsilon
        # p^alpha of the sequence that starts at each row, 0 if none does.
        self._tree = SumTree(self.num_rows)
        with tf.device(HOST):
            # Any number above 0 would do: until the first update all sequences have it, and the draws are
            # uniform.
            self._largest = tf.Variable(1.0, trainable=False, dtype=tf.float64)
            # The length of the sequences in the tree, from which follows where the newest of them start.
            self._length = tf.Variable(1, trainable=False, dtype=tf.int64)

    def list_tunables(self) -> list[Tunable]:
        return [self._beta] if isinstance(self._beta, Tunable) else []

    def _write_unrolls(self, experience):
        # The tree holds exactly the sequences that may be drawn. The difference between the starts before and
        # after: sequences that lost their oldest steps go, sequences that have become whole come.
        old_low, old_high = self.starts(self._length)
        super()._write_unrolls(experience)
        low, high = self.starts(self._length)
        gone = self.row_of(*self.list_sequences(self._length, old_low, tf.minimum(old_high, low)))
        self._tree.update(gone, tf.zeros_like(gone, tf.float64))
        new = self.row_of(*self.list_sequences(self._length, tf.maximum(old_high, low), high))
        self._tree.update(new, tf.fill(tf.shape(new), self._largest.read_value()))

    def clear(self) -> None:
        # `sample` draws from the tree and does not look at `starts`: sequences must leave the tree, too.
        super().clear()
        self._fill_tree(self._length)

    def new_sequences(self, length: int) -> Sequences:
        self._use_length(length)  # so that they can get priorities
        return super().new_sequences(length)

    def _use_length(self, length):
        """Fills the tree with sequences of a length; it has them except before the first call."""
        self._check_length(length)
        # Only a run that changes its length pays for it.
        tf.cond(tf.equal(self._length, length), lambda: None, lambda: self._fill_tree(length))

    def sample(
        self, batch_size: int, length: int, progress: Progress, num_batches: int = 1
    ) -> tuple[Experience, Sequences, Array]:
        self._use_length(length)
        total = self._tree.total()
        with tf.control_dependencies([self._assert_any(total, length)]):
            # In float64, as the tree is: a float32 is one of 2^23 numbers, so in a large buffer some
            # sequences would never be hit, and the sums would lose small priorities beside large ones.
            targets = draws.uniform((num_batches * batch_size,), tf.float64) * total
        rows = self._tree.find(targets)
        probability = self._tree.get(rows) / total
        beta = tf.cast(self._beta(progress), tf.float64)
        # (1 / P)^beta divided by its largest value in the batch, which belongs to the smallest probability.
        ratio = tf.reshape(probability, (num_batches, batch_size))
        weight = tf.reshape((ratio / tf.reduce_min(ratio, axis=1, keepdims=True)) ** -beta, (-1,))
        sequences = self.sequences_at(rows)
        return self.gather(sequences, length), sequences, tf.cast(weight, tf.float32)

    def update_priorities(self, sequences: Sequences, priorities: Array) -> None:
        # Sequences that were overwritten since they were drawn are ignored: their rows start others now.
        rows = self.row_of(*sequences)
        held = (self._tree.get(rows) > 0.0) & tf.equal(self.sequences_at(rows).start, sequences.start)
        rows = tf.boolean_mask(rows, held)
        priorities = tf.boolean_mask(tf.cast(priorities, tf.float64), held)
        is_right = tf.reduce_all(tf.math.is_finite(priorities) & (priorities >= 0.0))
        message = ["ALF: a priority is negative or not finite", priorities]
        with tf.control_dependencies([tf.debugging.Assert(is_right, message)]):
            values = (priorities + self._epsilon) ** self._alpha
        # The largest priority so far, also if that sequence is gone: new sequences are tried soon.
        # If none of them is held any more, the maximum of no values is minus infinity, which changes nothing.
        self._largest.assign(tf.maximum(self._largest, tf.reduce_max(values)))
        self._tree.update(rows, values)

    def get_state(self) -> Any:
        return {"largest": float(self._largest)}

    def set_state(self, state: Any) -> None:
        self._largest.assign(state.get("largest", self._largest))

    def load(self, path: str) -> None:
        try:
            # The file has p^alpha: with another alpha these stay as they are until updates replace them.
            super().load(path)
            self._largest.assign(tf.maximum(self._largest, tf.reduce_max(self._tree.numbers())))
        finally:  # a load that fails may leave an empty buffer; then the tree must be empty, too
            self._fill_tree(self._length)

    @tf.function(autograph=False, reduce_retracing=True)
    def _fill_tree(self, length):
        """Fills the tree with all sequences of `length`. New ones get the largest priority so far."""
        length = tf.cast(length, tf.int64)
        rows = self.row_of(*self.list_sequences(length, *self.starts(length)))
        # A sequence that starts where one of the old length started keeps its priority.
        values = self._tree.get(rows)
        values = tf.where(values > 0.0, values, self._largest)
        self._tree.assign(tf.scatter_nd(rows[:, tf.newaxis], values, (self.num_rows,)))
        self._length.assign(length)


class SumTree:
    """Numbers and sums of them, for draws in proportion to the numbers.

    The tree has two levels, because a draw costs operations of TensorFlow for each: the numbers in blocks of
    32, and the sum of each block. When a number changes, the sum of its block is computed again, so rounding
    errors do not accumulate.

    Args:
        size: int, how many numbers it holds. They are never negative, and zero at first.
    """

    def __init__(self, size):
        self._size, num_blocks = size, -(-size // _BLOCK)
        with tf.device(HOST):
            self._numbers = tf.Variable(tf.zeros((num_blocks, _BLOCK), tf.float64), trainable=False)
            self._sums = tf.Variable(tf.zeros(num_blocks, tf.float64), trainable=False)

    def total(self):
        """Returns the sum of all numbers, float64 scalar."""
        return tf.reduce_sum(self._sums)

    def numbers(self):
        """Returns all numbers, float64 [size]."""
        return tf.reshape(self._numbers, (-1,))[: self._size]

    def get(self, indices):
        """Returns the numbers at `indices`, int64 [...], as float64 [...]."""
        handle = self._numbers.handle
        return tf.raw_ops.ResourceGatherNd(resource=handle, indices=_split(indices), dtype=tf.float64)

    @tf.function(autograph=False, reduce_retracing=True)
    def update(self, indices, values):
        """Sets the numbers at `indices`, int64 [N], to `values`, float64 [N].

        If an index occurs twice, either value may win.
        """
        handle = self._numbers.handle
        tf.raw_ops.ResourceScatterNdUpdate(ref=handle, indices=_split(indices), updates=values)
        # The numbers are read after they are written: a `tf.function` keeps the order of reads and writes of
        # one variable.
        blocks = indices // _BLOCK
        write_at(self._sums, blocks, tf.reduce_sum(read_at(self._numbers, blocks), axis=1))

    def assign(self, values):
        """Sets all numbers to `values`, float64 [size]."""
        padding = self._numbers.shape.num_elements() - self._size
        numbers = tf.reshape(tf.pad(values, [[0, padding]]), self._numbers.shape)
        self._numbers.assign(numbers)
        self._sums.assign(tf.reduce_sum(numbers, axis=1))

    def find(self, targets):
        """Finds the index where the running sum of the numbers first exceeds each target.

        Args:
            targets: float64 [N] in [0, total). The total must not be zero.

        Returns:
            int64 [N], indices of numbers above zero.
        """
        ends = tf.cumsum(self._sums.read_value())  # at the end of each block
        # Because of rounding, a target may reach the last sum. Then the last number above zero is right: here
        # in the last block that adds to the sum, below in its block.
        last = tf.searchsorted(ends, ends[-1:], side="left", out_type=tf.int64)
        block = tf.minimum(tf.searchsorted(ends, targets, side="right", out_type=tf.int64), last)
        targets = targets - tf.gather(tf.pad(ends, [[1, 0]]), block)
        sums = tf.cumsum(read_at(self._numbers, block), axis=1)
        exceeds = (sums > targets[:, tf.newaxis]) | (sums == sums[:, -1:])
        return block * _BLOCK + tf.argmax(exceeds, axis=1)


def _split(indices):
    return tf.stack([indices // _BLOCK, indices % _BLOCK], axis=-1)
