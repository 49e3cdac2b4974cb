# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ReplayTraining: how often, and from how much at a time, an algorithm learns from a replay buffer."""

from fractions import Fraction

import gin
import tensorflow as tf

from alf.errors import ConfigError, check_bool, check_int, check_number
from alf.learner.minibatches import repeat_update, shuffled_part


@gin.configurable(module="alf.learner")
class ReplayTraining:
    """Trains an algorithm from a replay buffer, as often as is due.

    Args:
        algorithm: `Algorithm`.
        replayer: its `Replayer`, a buffer.
        mini_batch_size: sequences of an update.
        mini_batch_length: L, environment steps of each.
        initial_collect_steps: environment steps that the buffer must hold before the first update.
        replay_ratio: updates for each environment step after these, held exactly: what is due waits for the
            next call, and what an update is late the environments wait for it.
        num_updates_per_train_iter: in place of a replay ratio, updates of each call of `Algorithm.train`;
            with `whole_replay_buffer_training`, passes over the buffer.
        whole_replay_buffer_training: whether every update takes other sequences, all of the buffer's in
            turn, shuffled, or draws them as the replayer does.
        clear_replay_buffer: whether the buffer is emptied after each call of `Algorithm.train`.

    Raises:
        ConfigError: if a setting is wrong, or the replayer's capacity is too small for a sequence.
    """

    def __init__(
        self,
        algorithm,
        replayer,
        mini_batch_size=256,
        mini_batch_length=1,
        initial_collect_steps=0,
        replay_ratio=None,
        num_updates_per_train_iter=None,
        whole_replay_buffer_training=False,
        clear_replay_buffer=False,
    ):
        check_int("ReplayTraining.mini_batch_size", mini_batch_size)
        check_int("ReplayTraining.mini_batch_length", mini_batch_length)
        check_int("ReplayTraining.initial_collect_steps", initial_collect_steps, at_least=0)
        check_number("ReplayTraining.replay_ratio", replay_ratio, above=0, optional=True)
        check_bool("ReplayTraining.whole_replay_buffer_training", whole_replay_buffer_training)
        check_bool("ReplayTraining.clear_replay_buffer", clear_replay_buffer)
        if num_updates_per_train_iter is None and (replay_ratio is None or whole_replay_buffer_training):
            num_updates_per_train_iter = 1
        elif num_updates_per_train_iter is not None:
            check_int("ReplayTraining.num_updates_per_train_iter", num_updates_per_train_iter)
        if replay_ratio is not None and num_updates_per_train_iter is not None:
            raise ConfigError(
                "ReplayTraining.replay_ratio says how many updates there are: leave "
                "num_updates_per_train_iter and whole_replay_buffer_training out"
            )
        replayer.num_sequences(mini_batch_length)  # an error if it can never hold one
        self._algorithm = algorithm
        self._replayer = replayer
        self._size = mini_batch_size
        self._length = mini_batch_length
        self._initial_collect_steps = initial_collect_steps
        self._takes_all = whole_replay_buffer_training
        self._clears = clear_replay_buffer
        self._num_updates = num_updates_per_train_iter
        # Exactly: floats would lose an update now and then.
        self._ratio = None if replay_ratio is None else Fraction(str(replay_ratio))
        self._credit = Fraction(0)
        self._has_collected = False
        self._steps = 0
        self._updates = 0

    def train(self, num_steps):
        """Makes the updates that are due.

        Args:
            num_steps: int; environment steps since the last call.

        Returns:
            dict of float32 scalars, averaged over the updates, and `replay_ratio`, updates for each
            environment step so far; empty if there was no update.
        """
        if not self._has_collected:
            if not self._holds_enough():
                return {}
            self._has_collected, num_steps = True, 0
        due = self._due(num_steps)
        if self._takes_all:
            summary, num_updates = self._train_on_all(due)
        else:
            summary, num_updates = self._train_on_samples(tf.constant(due)) if due else {}, due
        if self._clears:
            self._replayer.clear()
        if not num_updates:
            return {}
        self._updates += num_updates
        return {**summary, "replay_ratio": self._updates / self._steps if self._steps else float("inf")}

    def _holds_enough(self):
        enough = max(1, self._initial_collect_steps)
        return self._replayer.num_steps() >= enough and self._replayer.num_sequences(self._length) > 0

    def _due(self, num_steps):
        """How many updates, or passes, are due now."""
        self._steps += num_steps
        if self._ratio is None:
            return self._num_updates
        self._credit += self._ratio * num_steps
        due = int(self._credit)
        self._credit -= due
        return due

    @tf.function(autograph=False)
    def _train_on_samples(self, num_updates):
        """Makes `num_updates` updates (int32 scalar, at least 1) with sequences that the replayer draws."""

        def update(i, nothing):
            batch, sample = self._replayer.sample(self._size, self._length, self._algorithm.progress())
            return self._update(batch, sample.sequences, sample.weight), nothing

        return repeat_update(update, num_updates, ())

    def _train_on_all(self, num_passes):
        """Makes passes over the buffer; returns the summary and the number of updates."""
        sequences = self._replayer.all_sequences(self._length)
        num_sequences = int(tf.size(sequences.start))
        if not num_sequences:
            return {}, 0
        size = min(self._size, num_sequences)
        num_updates = num_passes * (num_sequences // size)
        return self._train_on_sequences(sequences, size, tf.constant(num_updates)), num_updates

    @tf.function(autograph=False, reduce_retracing=True)
    def _train_on_sequences(self, sequences, size, num_updates):
        """Makes `num_updates` updates with `size` sequences each, all in turn, shuffled for every pass."""
        num_sequences = tf.size(sequences.start)

        def update(i, order):
            part, order = shuffled_part(i, order, size)
            chosen = tf.nest.map_structure(lambda x: tf.gather(x, part), sequences)
            batch = self._replayer.gather(chosen, self._length)
            return self._update(batch, chosen, tf.ones(size)), order

        return repeat_update(update, num_updates, tf.range(num_sequences))

    def _update(self, batch, sequences, weight):
        summary, priority = self._algorithm.update_with_sequences(batch, weight)
        if tf.is_tensor(priority):
            with tf.control_dependencies(tf.nest.flatten(summary)):
                self._replayer.update_priorities(sequences, priority)
        return summary
