# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PrioritizedReplayer: sequences from which there is more to learn are drawn more often."""

import gin
import tensorflow as tf

from alf.errors import check_number
from alf.replay import buffer_file
from alf.replay.buffer_replayer import BufferReplayer
from alf.replay.replayer import Sample
from alf.replay.sum_tree import SumTree


@gin.configurable(module="alf.replay")
class PrioritizedReplayer(BufferReplayer):
    """Prioritized experience replay (Schaul et al., https://arxiv.org/abs/1511.05952).

    Sequence i is drawn with probability P(i) = p_i^alpha / sum_k p_k^alpha, independently of the others, and
    its weight is P(i)^-beta over the largest such weight of the batch. New sequences get the largest priority
    so far; so does what comes from a file without priorities.

    Args:
        unroll_spec, num_envs, context, capacity: as in `BufferReplayer`.
        alpha: number; how much priorities matter; 0 draws uniformly.
        beta: number or `Schedule`, in [0, 1]; 1 corrects the bias of the draw fully.
        epsilon: number; added to every priority, so that all are drawn some time.
    """

    name = "prioritized"

    def __init__(
        self, unroll_spec, num_envs, context=0, capacity=1_000_000, alpha=0.6, beta=0.4, epsilon=1e-6
    ):
        # At the top it would be a cycle: alf.algorithms imports alf.replay.
        from alf.schedules import as_schedule

        check_number("PrioritizedReplayer.alpha", alpha, at_least=0)
        check_number("PrioritizedReplayer.epsilon", epsilon, above=0)
        self._beta = as_schedule("PrioritizedReplayer.beta", beta, at_least=0, at_most=1)
        super().__init__(unroll_spec, num_envs, context, capacity)
        self._alpha = alpha
        self._epsilon = epsilon
        # p^alpha of the sequence that starts at each row of the buffer, 0 where none does.
        self._tree = SumTree(self._buffer.num_rows)
        with tf.device("CPU:0"):
            self._largest = tf.Variable(1.0, trainable=False, dtype=tf.float64)
            # Of the sequences in the tree. Where the newest ones start depends on it.
            self._length = tf.Variable(1, trainable=False, dtype=tf.int64)

    @tf.function(autograph=False, reduce_retracing=True)
    def observe(self, experience):
        buffer = self._buffer
        old_low, old_high = buffer.starts(self._length, self._context)
        buffer.write(experience)
        low, high = buffer.starts(self._length, self._context)
        gone = buffer.rows_of(buffer.sequences(old_low, tf.minimum(old_high, low)))
        self._tree.update(gone, tf.zeros_like(gone, tf.float64))
        new = buffer.rows_of(buffer.sequences(tf.maximum(old_high, low), high))
        self._tree.update(new, tf.fill(tf.shape(new), self._largest.read_value()))

    def clear(self):
        super().clear()
        self._fill_tree(self._length)

    def sample(self, batch_size, length, progress):
        self._starts(length)  # checks it
        tf.cond(tf.equal(self._length, length), lambda: None, lambda: self._fill_tree(length))
        total = self._tree.total()
        with tf.control_dependencies(self._assert_any(total, length)):
            targets = tf.random.uniform((batch_size,), dtype=tf.float64) * total
        rows = self._tree.find(targets)
        probability = self._tree.get(rows) / total
        beta = tf.cast(self._beta(progress), tf.float64)
        weight = (probability / tf.reduce_min(probability)) ** -beta
        sequences = self._buffer.sequences_at(rows)
        return self.gather(sequences, length), Sample(sequences, tf.cast(weight, tf.float32))

    def update_priorities(self, sequences, priorities):
        low, high = self._buffer.starts(self._length, self._context)
        nth = sequences.start // self._buffer.unit
        # Others have been overwritten since they were drawn.
        held = (tf.gather(low, sequences.env) <= nth) & (nth < tf.gather(high, sequences.env))
        rows = tf.boolean_mask(self._buffer.rows_of(sequences), held)
        priorities = tf.boolean_mask(tf.cast(priorities, tf.float64), held)
        fine = tf.debugging.Assert(
            tf.reduce_all(tf.math.is_finite(priorities) & (priorities >= 0.0)),
            ["ALF: a priority is negative or not finite", priorities],
        )
        with tf.control_dependencies([] if fine is None else [fine]):
            values = (priorities + self._epsilon) ** self._alpha
        self._largest.assign(tf.maximum(self._largest, tf.reduce_max(values)))
        self._tree.update(rows, values)

    def save(self, path):
        buffer_file.save(path, self._buffer, self._tree)

    def load(self, path):
        try:
            buffer_file.load(path, self._buffer, self._tree)
            self._largest.assign(tf.maximum(self._largest, tf.reduce_max(self._tree.numbers())))
        finally:  # also empties the tree if the buffer had to be emptied
            self._fill_tree(self._length)

    @tf.function(autograph=False, reduce_retracing=True)
    def _fill_tree(self, length):
        """Makes the tree hold what may be drawn now, sequences that it does not hold yet as new ones."""
        length = tf.cast(length, tf.int64)
        buffer = self._buffer
        low, high = buffer.starts(length, self._context)
        sequences = buffer.sequences_at(tf.range(buffer.num_rows, dtype=tf.int64))
        nth = sequences.start // buffer.unit
        may_start = (tf.gather(low, sequences.env) <= nth) & (nth < tf.gather(high, sequences.env))
        may_start &= tf.equal(sequences.start % buffer.unit, 0)
        values = self._tree.numbers()
        values = tf.where(values > 0.0, values, self._largest)
        self._tree.assign(tf.where(may_start, values, 0.0))
        self._length.assign(length)
