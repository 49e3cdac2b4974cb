# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ReplayLearner: makes updates from a replay buffer."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.settings import PASSED, configurable
from alf.core.annotations import Array
from alf.core.credit import Credit
from alf.core.devices import HOST
from alf.core.nest_utils import zeros_from_spec
from alf.core.tf_runtime import GraphFunction, parallel, single_threaded
from alf.data_structures import Experience, PolicyState, count_transitions
from alf.errors import ConfigError
from alf.learner.learner import Learner
from alf.learner.learner_settings import LearnerSettings
from alf.learner.optimizers import OptimizerSetting
from alf.ops import draws
from alf.replay import SequenceReplayer
from alf.replay.replayer import Sequences

# The most updates whose sequences are read at the same time, and bytes of these. Each call of `train` with
# more updates counts 3, each other one -1, and above so many points the number grows.
_MOST_AT_ONCE, _MOST_BYTES, _PATIENCE = 64, 2**26, 9
_IN_TURN = 4  # updates at a time in passes over a buffer: one trace serves it while it grows


@configurable("alf.learner")
class ReplayLearner(Learner):
    """Learns from sequences of a replay buffer, for algorithms such as SAC and DQN.

    Args:
        algorithm, optimizer, settings, strategy: as in `Learner`.
        replayer: `SequenceReplayer` with room for at least one sequence.
        mini_batch_size: sequences of an update.
        mini_batch_length: L, environment steps of each sequence.
        initial_collect_steps: environment steps that the buffer must hold before the first update.
        replay_ratio: number, updates for each environment step after the initial ones. It is kept exactly: a
            fraction of an update is carried to the next call of `train`. If updates are slower than the
            environments, the environments wait.
        num_updates_per_train_iter: int, in place of a replay ratio: the updates of each call of `train`; with
            `whole_replay_buffer_training`, the passes over the buffer.
        whole_replay_buffer_training: whether the updates take all sequences of the buffer in turn, shuffled
            for each pass; the last update of a pass may have fewer. False: the replayer draws the sequences.
        clear_replay_buffer: whether the buffer is emptied after each call of `train` that makes an update.
        initial_priorities: the priorities of new sequences in a `PrioritizedReplayer`. "largest": the largest
            so far, so that they are tried soon. "learner": by the loss with the present weights, one more
            evaluation of the networks for each sequence (`Algorithm.first_priority`). "actor": by what the
            policy said when it acted, without an evaluation (Ape-X, arXiv 1803.00933, section 3); it needs
            `EpsilonGreedyPolicy.reports_values`.

    Attributes:
        needs_fresh_experience: `clear_replay_buffer`.
    """

    # With target networks and several critics, a loss has passes that do not depend on each other.
    _executor = staticmethod(parallel)

    def __init__(
        self,
        algorithm: Algorithm,
        optimizer: OptimizerSetting | Mapping[str, OptimizerSetting] | None = None,
        replayer: Annotated[SequenceReplayer | None, PASSED] = None,
        mini_batch_size: PositiveInt = 256,
        mini_batch_length: PositiveInt = 1,
        initial_collect_steps: NonNegativeInt = 0,
        replay_ratio: PositiveFloat | None = None,
        num_updates_per_train_iter: PositiveInt | None = None,
        whole_replay_buffer_training: bool = False,
        clear_replay_buffer: bool = False,
        initial_priorities: Literal["largest", "learner", "actor"] = "largest",
        settings: LearnerSettings | None = None,
        strategy: Annotated[tf.distribute.Strategy | None, PASSED] = None,
    ) -> None:
        if not isinstance(replayer, SequenceReplayer):
            raise ConfigError(f"ReplayLearner.replayer is {replayer!r}: it must be a SequenceReplayer")
        super().__init__(algorithm, optimizer, replayer, settings, strategy)
        if self.peers.count > 1:
            raise ConfigError(
                f"there are {self.peers.count} learner processes: they must train on fresh experience, so "
                f"exp_replayer must be one such as 'one_time', not {self.replayer.name!r}"
            )
        # For `after_train_iter`: updates from a buffer have different batches.
        self._keeps_rollout |= type(algorithm).after_train_iter is not Algorithm.after_train_iter
        self._size = mini_batch_size
        self._length = mini_batch_length
        self._takes_all = whole_replay_buffer_training
        self.needs_fresh_experience = clear_replay_buffer
        if replay_ratio is not None and (num_updates_per_train_iter is not None or self._takes_all):
            raise ConfigError(
                "ReplayLearner.replay_ratio says how many updates there are: leave "
                "num_updates_per_train_iter and whole_replay_buffer_training out"
            )
        algorithm.check_sequence_length(mini_batch_length)
        replayer.num_sequences(mini_batch_length)  # raises an error if the buffer can never hold a sequence
        if initial_priorities != "largest" and replayer.name == "uniform":
            raise ConfigError(
                f"ReplayLearner.initial_priorities is {initial_priorities!r}, but the replayer 'uniform' has "
                "no priorities: set Experiment.exp_replayer to 'prioritized', or leave it 'largest'"
            )
        self._initial_priorities = initial_priorities
        self._rate_new = GraphFunction(self._rate_new_sequences)
        self._num_at_once = self._excess = 0
        self._most_at_once = self._count_at_once(replayer)
        self._num_enough_steps = max(1, initial_collect_steps)
        self._num_updates = num_updates_per_train_iter or 1
        self._credit = None if replay_ratio is None else Credit(replay_ratio)
        self._fresh_steps = 0  # observed since the last call of `train`
        # Environment steps and updates at the moment when the initial steps were complete. The ratio counts
        # from it. Not a list, which `tf.Module` would track.
        self._start_steps: int | None = None
        self._start_updates = 0
        self._is_filled = False  # also False again after a restart, whose buffer may be empty
        self._source: Any = None  # the replayer that `train_from_replay` trains on, once it has chosen one
        self._has_waited = False  # whether `train` has waited until the buffer was filled

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        """Raises ConfigError if the buffer can never hold the initial steps; accepts every batch."""
        capacity = self.replayer.capacity
        if capacity is not None and self._num_enough_steps > capacity:
            raise ConfigError(
                f"ReplayLearner.initial_collect_steps is {self._num_enough_steps}: the replay buffer holds "
                f"{capacity} steps at most, so nothing would ever be trained"
            )

    def observe(self, experience: Experience) -> None:
        super().observe(experience)
        if self._has_dropped:
            return
        self._fresh_steps += count_transitions(experience.step_type.numpy())
        if self._initial_priorities != "largest":
            with single_threaded():
                self._rate_new(())

    def _rate_new_sequences(self, _):
        """Gives the sequences that have become whole in the replayer their priorities, in the graph."""
        with tf.device(HOST):
            chosen = self.replayer.new_sequences(self._length)
            batch = self.replayer.gather(chosen, self._length)
        with self.stream.spawn(2).at([(0, self.progress.env_steps)]):
            (experience, prepared), _ = self._prepare(batch, tf.ones_like(chosen.start, tf.float32), False)
            if self._initial_priorities == "actor":
                priority = self.algorithm.priority_of_actor(experience)
            else:
                priority = self.algorithm.first_priority(experience, prepared)
        with tf.device(HOST):
            self.replayer.update_priorities(chosen, priority)

    def _prepare(self, batch, weight, counts_old=True):
        """Calls `Update.prepare` with sequences that a replayer has read; `weight` is float32 [N]."""
        policy = self.policy
        count = tf.shape(weight)[0] if weight.shape[0] is None else weight.shape[0]
        # The state of the data transformer starts at zero: the rows of `context` in front bring it up to
        # date. A file may hold info and recurrent states that this policy does not have.
        train = policy.state_spec.train
        state = PolicyState(
            zeros_from_spec(policy.data_transformer.state_spec, count),
            batch.state.train if tf.nest.flatten(train) else train,
        )
        info = batch.info if tf.nest.flatten(policy.info_spec) else ()
        batch = batch._replace(info=info, state=state)
        return self._update.prepare(batch, policy.data_transformer.context, weight, counts_old)

    def _make_due_updates(self) -> tuple[dict[str, Array], Any]:
        """Makes the updates for the steps observed since the last call.

        The summary has `replay_ratio`, too: the updates for each environment step after the initial ones so
        far.
        """
        # No source: new experience may have filled the buffer, so the next call of `train_from_replay`
        # chooses anew.
        num_steps, self._fresh_steps, self._source = self._fresh_steps, 0, None
        # Before the updates, whose schedules see these steps. Not summed over processes, as `UnrollLearner`
        # does: there is only one.
        self.progress.env_steps.assign_add(num_steps)
        if not self._is_filled:
            # Steps that fill a buffer earn no updates. After a restart without the old buffer, the new one is
            # filled first, and these steps do not count for the replay ratio either.
            has_sequence = self.replayer.num_sequences(self._length) > 0
            is_short = bool(self.replayer.num_steps() < self._num_enough_steps) or not has_sequence
            self._has_waited |= is_short
            if self._start_steps is not None and self._has_waited:
                self._start_steps += num_steps
            if is_short:
                return {}, ()
            # The steps up to here are the initial ones, or they refill the buffer.
            num_steps = 0 if self._start_steps is None or self._has_waited else num_steps
            if self._start_steps is None:
                self._start_steps, self._start_updates = (int(count) for count in self.progress)
            self._is_filled = True
        if self._credit is not None:
            self._credit.earn(num_steps)
        # After `clear` several unrolls that are shorter than `mini_batch_length` must come together.
        if self.needs_fresh_experience and self.replayer.num_sequences(self._length) == 0:
            return {}, ()
        num_updates = self._num_updates if self._credit is None else self._credit.take()
        summary = self._train_on_part(self.replayer, num_updates)
        if not summary:
            return summary, ()
        if self.needs_fresh_experience:
            self.replayer.clear()
        steps = int(self.progress.env_steps) - (self._start_steps or 0)
        if steps:
            summary["replay_ratio"] = (int(self.progress.updates) - self._start_updates) / steps
        return summary, self.rollout

    def train_from_replay(self) -> dict[str, Array]:
        """Makes `num_updates_per_train_iter` updates while nothing is collected.

        It returns the same dict as `train`, and raises the same errors.

        With a replay ratio it makes one update, because the ratio counts only collected steps.
        `initial_collect_steps` has no effect. Before the first step is collected, the updates take the
        offline part of the buffer.
        """
        if self._source is None:
            sources = [self.replayer, self.replayer.offline]
            sources = [source for source in sources if source is not None]
            self._source = next((s for s in sources if s.num_sequences(self._length) > 0), None)
        if self._source is None:
            raise ConfigError(
                f"nothing is collected any more, and the replay buffer holds no sequence of {self._length} "
                "steps: it must hold one before collection ends"
            )
        updates_before = int(self.progress.updates)
        summary = self._run(lambda: (self._train_on_part(self._source, self._num_updates), ()))
        if self._start_steps is not None:  # these updates do not count for the replay ratio
            self._start_updates += int(self.progress.updates) - updates_before
        return summary

    def _train_on_part(self, replayer, num_updates):
        """Makes updates from a replayer, or passes over it; returns the summary, empty without updates."""
        if self._takes_all:
            calls = self._choose_in_turn(replayer, num_updates)
        else:
            self._choose_at_once(num_updates)
            at_once = self._num_at_once
            calls = [(min(at_once, num_updates - i), ()) for i in range(0, num_updates, at_once or 1)]
        # Tensors, because a fractional ratio gives another number at each call: one trace serves all numbers.
        summaries = []
        for count, chosen in calls:
            inputs, at_once = (tf.constant(count), chosen), self._num_at_once
            summaries.append((count, self._train_on(inputs, at_once, replayer, at_once)))
        if len(summaries) < 2:
            return summaries[0][1] if summaries else {}
        # The mean over all updates.
        total = sum(count for count, _ in summaries)
        return {
            name: tf.add_n([count * summary[name] for count, summary in summaries]) / total
            for name in summaries[0][1]
        }

    def _choose_in_turn(self, replayer, num_passes):
        """Chooses the sequences of the updates of passes over a buffer, which is shuffled for each pass.

        Yields:
            the number of the next updates, an int; and `Sequences` of [N * size] with bool [N * size], which
            is False for sequences that only fill the last update of a pass, or the last of N updates.
        """
        self._num_at_once = number = min(_IN_TURN, self._most_at_once)
        with tf.device(HOST):
            sequences = [x.numpy() for x in replayer.all_sequences(self._length)]
            count, updates, stream = len(sequences[0]), self.progress.updates, self.stream.spawn(1)
            if not count:
                return
            num_parts = -(-count // self._size)  # of a pass
            orders = []
            for i in range(num_passes):
                with stream.at([(0, updates + i * num_parts)]):
                    orders.append(draws.shuffle(tf.range(count)).numpy())
        # Whole parts, which repeat the first sequences of their pass, and then whole calls.
        rows = np.concatenate([np.resize(order, num_parts * self._size) for order in orders])
        is_new = np.tile(np.arange(num_parts * self._size) < count, num_passes)
        num_updates, step = num_passes * num_parts, number * self._size
        for first in range(0, num_updates, number):
            part = slice(first * self._size, first * self._size + step)
            missing = step - len(rows[part])
            chosen = np.resize(rows[part], step)
            with tf.device(HOST):
                used = tf.constant(np.pad(is_new[part], (0, missing)))
                given = Sequences(*(tf.constant(x[chosen]) for x in sequences)), used
            yield min(number, num_updates - first), given

    def _choose_at_once(self, num_updates):
        """Chooses for how many updates sequences are read at the same time, before so many updates."""
        # One program serves this number and all smaller ones, and reads as much for them. So a larger number
        # must come often, every second time, for example: after a pause one call may make many more than
        # usual, in several parts.
        wanted = min(num_updates, self._most_at_once)
        self._excess = self._excess + 3 if wanted > self._num_at_once else max(0, self._excess - 1)
        if wanted and (not self._num_at_once or self._excess > _PATIENCE):
            self._num_at_once, self._excess = wanted, 0

    def _make_updates(self, inputs, compiles, replayer, number):
        """Makes at most `number` updates in the graph with sequences that are read before the first of them.

        `inputs` are the number of updates, an int32 scalar, and with `whole_replay_buffer_training` what
        `_choose_in_turn` has chosen.
        """
        num_updates, given = inputs
        # The buffer is in main memory, and so is all that finds rows in it: only the batch leaves.
        with tf.device(HOST):
            if self._takes_all:
                chosen, used = given
                batch, weight = replayer.gather(chosen, self._length), 1.0
            else:
                batch, chosen, weight = replayer.sample(self._size, self._length, self.progress, number)
                used = tf.range(number * self._size) < num_updates * self._size
            weight *= tf.cast(used, tf.float32)
        batch, lag = self._prepare(batch, weight)
        parts = None if number == 1 else tf.reshape(tf.range(number * self._size), (number, -1))
        summary, priority = self._loop.run(batch, parts, num_updates, compiles)
        if tf.is_tensor(priority):
            # After the updates: no priority changes if one fails.
            with tf.control_dependencies(tf.nest.flatten(summary)), tf.device(HOST):
                chosen = tf.nest.map_structure(lambda x: tf.boolean_mask(x, used), chosen)
                replayer.update_priorities(chosen, tf.boolean_mask(tf.reshape(priority, (-1,)), used))
        return {**summary, **lag}

    def _count_at_once(self, replayer):
        """Returns the most updates whose sequences are read at the same time, an int."""
        rows = self.policy.data_transformer.context + self._length + 1
        row = sum(spec.shape.num_elements() * spec.dtype.size for spec in tf.nest.flatten(replayer.row_spec))
        return max(1, min(_MOST_AT_ONCE, _MOST_BYTES // (rows * row * self._size)))

    def get_state(self) -> Any:
        # The fraction of an update left, and the start of the replay ratio.
        credit = None if self._credit is None else self._credit.get_state()
        start, at_once = (self._start_steps, self._start_updates), (self._num_at_once, self._excess)
        # The number at a time, too, because draws depend on it.
        return {**super().get_state(), "credit": credit, "start": start, "at_once": at_once}

    def set_state(self, state: Any) -> None:
        super().set_state(state)
        credit, (self._start_steps, self._start_updates) = state["credit"], state["start"]
        self._num_at_once, self._excess = state["at_once"]
        if self._credit is not None and credit is not None:
            self._credit.set_state(credit)
