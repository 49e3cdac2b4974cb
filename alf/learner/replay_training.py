# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ReplayTraining: updates from a replay buffer, as often as the settings ask for."""

import gin
import tensorflow as tf

from alf.credit import Credit
from alf.data_structures import PolicyState, count_transitions
from alf.errors import ConfigError, check_bool, check_int, check_number
from alf.learner.minibatches import repeat_update, select_part
from alf.nest_utils import zeros_from_spec


@gin.configurable(module="alf.learner")
class ReplayTraining:
    """Trains on sequences from a replay buffer, for algorithms such as SAC and DQN.

    Args:
        replayer: `SequenceReplayer`.
        mini_batch_size: sequences of an update.
        mini_batch_length: L, environment steps of each sequence.
        initial_collect_steps: environment steps that the buffer must hold before the first update.
        replay_ratio: updates for each environment step after these, kept exactly. A fraction of an update
            waits for the next call of `train`. While `train` makes late updates, the environments wait.
        num_updates_per_train_iter: in place of a replay ratio, updates of each call of `train`; with
            `whole_replay_buffer_training`, passes over the buffer.
        whole_replay_buffer_training: whether the updates take all sequences of the buffer in turn, shuffled
            for each pass, or draw them as the replayer does.
        clear_replay_buffer: whether the buffer is emptied after each call of `train`.

    Raises:
        ConfigError: if a setting is wrong, or the replayer's capacity is too small for a sequence.
    """

    def __init__(
        self,
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
        replayer.num_sequences(mini_batch_length)  # raises an error if the buffer can never hold a sequence
        self.replayer = replayer
        self._size = mini_batch_size
        self._length = mini_batch_length
        self._initial_collect_steps = initial_collect_steps
        self._takes_all = whole_replay_buffer_training
        self._clears = clear_replay_buffer
        self._num_updates = num_updates_per_train_iter
        self._credit = None if replay_ratio is None else Credit(replay_ratio)
        self._fresh_steps = 0  # observed since the last call of `train`
        self._start = None  # the environment steps and updates when the initial steps were there
        self._is_filled = False  # also False again after a restart, whose buffer may be empty
        self._filling_steps = None  # observed while `train` waited for the buffer; None if it did not wait

    def check_batch_size(self, batch_size):
        """Accepts every number of environments."""

    def observe(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...] to the buffer."""
        self.replayer.observe(experience)
        self._fresh_steps += int(count_transitions(experience.step_type))

    def train(self, learner):
        """Makes the updates that are due.

        Returns:
            dict of float32 scalars, averaged over the updates, and `replay_ratio`, the updates for each
            environment step after the initial ones; empty if no update was due. And (), because there is no
            single batch.
        """
        num_steps, self._fresh_steps = self._fresh_steps, 0
        learner.progress.env_steps.assign_add(num_steps)
        if not self._is_filled:
            # The steps that fill a buffer earn no updates. After a restart a new buffer is filled, too.
            num_enough = max(1, self._initial_collect_steps)
            has_sequence = self.replayer.num_sequences(self._length) > 0
            if self.replayer.num_steps() < num_enough or not has_sequence:
                self._filling_steps = (self._filling_steps or 0) + num_steps
                return {}, ()
            self._is_filled = True
            if self._start is None:
                self._start = [int(count) for count in learner.progress]
                num_steps = 0
            elif self._filling_steps is not None:
                self._start[0] += self._filling_steps + num_steps
                num_steps = 0
        num_due = self._num_updates
        if self._credit is not None:
            self._credit.earn(num_steps)
            num_due = self._credit.take()
        summary = {}
        if self._takes_all:
            summary = self._train_on_all(learner, num_due)
        elif num_due:
            summary = self._train_on_samples(learner, tf.constant(num_due))
        if self._clears:
            self.replayer.clear()
        if summary:
            steps, updates = (int(now) - start for now, start in zip(learner.progress, self._start))
            summary["replay_ratio"] = updates / steps if steps else float("inf")
        return summary, ()

    @tf.function(autograph=False)
    def _train_on_samples(self, learner, num_updates):
        """Makes `num_updates` updates (int32 scalar, at least 1) with sequences that the replayer draws."""

        def update(i, nothing):
            batch, sequences, weight = self.replayer.sample(self._size, self._length, learner.progress)
            return self._update(learner, batch, sequences, weight), nothing

        return repeat_update(update, num_updates, ())

    def _train_on_all(self, learner, num_passes):
        """Makes passes over the buffer; returns the summary, which is empty if no sequence is whole."""
        sequences = self.replayer.all_sequences(self._length)
        num_sequences = int(tf.size(sequences.start))
        if not num_sequences:
            return {}
        size = min(self._size, num_sequences)
        num_updates = num_passes * (num_sequences // size)
        return self._train_on_sequences(learner, sequences, size, tf.constant(num_updates))

    @tf.function(autograph=False, reduce_retracing=True)
    def _train_on_sequences(self, learner, sequences, size, num_updates):
        """Makes `num_updates` updates with `size` sequences each, all in turn, shuffled for every pass."""
        num_sequences = tf.size(sequences.start)

        def update(i, order):
            part, order = select_part(i, order, size)
            chosen = tf.nest.map_structure(lambda x: tf.gather(x, part), sequences)
            batch = self.replayer.gather(chosen, self._length)
            return self._update(learner, batch, chosen, tf.ones(size)), order

        return repeat_update(update, num_updates, tf.range(num_sequences))

    def _update(self, learner, batch, sequences, weight):
        """Makes one update with sequences, in the graph; returns the summary.

        Args:
            learner: `Learner`.
            batch: `Experience` of [context + L + 1, B, ...] as the environments gave it.
            sequences: `Sequences` of [B].
            weight: float32 [B], of each sequence in the loss.
        """
        policy, batch_size = learner.policy, weight.shape[0]
        # A file may hold info and recurrent states that this policy does not have.
        state = PolicyState(
            zeros_from_spec(policy.data_transformer.state_spec, batch_size),
            batch.state.train if tf.nest.flatten(policy.state_spec) else (),
        )
        info = batch.info if tf.nest.flatten(policy.info_spec) else ()
        batch = batch._replace(info=info, state=state)
        batch, lag = learner.prepare(batch, policy.data_transformer.context, weight)
        summary, priority = learner.update(batch)
        if tf.is_tensor(priority):
            with tf.control_dependencies(tf.nest.flatten(summary)):
                self.replayer.update_priorities(sequences, priority)
        return {**summary, **lag}

    def get_state(self):
        """Returns what `set_state` needs, as JSON types: the fraction of an update that is due, and where
        the replay ratio began to count."""
        credit = None if self._credit is None else self._credit.get_state()
        return {"credit": credit, "start": self._start}

    def set_state(self, state):
        """Restores what `get_state` returned."""
        credit, self._start = state["credit"], state["start"]
        if self._credit is not None and credit is not None:
            self._credit.set_state(credit)
