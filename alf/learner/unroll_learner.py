# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UnrollLearner: makes updates from whole unrolls; most replayers hand out each unroll once."""

import contextlib
from collections.abc import Mapping
from typing import Annotated

import tensorflow as tf

from alf.algorithms import Algorithm
from alf.config.kinds import PositiveInt
from alf.config.settings import PASSED, configurable
from alf.core.annotations import Array
from alf.data_structures import Experience, count_transitions
from alf.errors import ConfigError
from alf.learner.learner import Learner
from alf.learner.learner_settings import LearnerSettings
from alf.learner.minibatches import find_segments, merge_unrolls, shuffle_in_parts, split_in_segments
from alf.learner.optimizers import OptimizerSetting
from alf.replay import OneTimeReplayer, UnrollReplayer


@configurable("alf.learner")
class UnrollLearner(Learner):
    """Learns from the unrolls that a replayer hands out, for algorithms such as IMPALA and PPO.

    `recurrence` splits unrolls in time, as in Sample Factory (arXiv 2006.11751): segments are shuffled and
    split into minibatches, and gradients of a recurrent policy go back through one segment.
    `Algorithm.preprocess` sees whole unrolls, so the advantages of PPO do not depend on `recurrence`.
    `Algorithm.calc_loss` sees segments, so the returns of IMPALA end with the segment, where the value
    bootstraps them. The recurrent state that enters a segment is computed with the weights before the first
    update of the batch. A segment of S steps evaluates S + 1 rows.

    Args:
        algorithm, optimizer, settings, strategy: as in `Learner`.
        replayer: `UnrollReplayer`; None makes a `OneTimeReplayer`.
        num_epochs: passes over each batch.
        num_minibatches: updates of a pass, each from a part of the batch, which is shuffled for every pass.
            It must divide the segments of a batch, at most unrolls * batch_size * unroll_length / recurrence.
            A batch with fewer segments has an update for each.
        mini_batch_size: environment steps of a minibatch; `num_minibatches` has no effect then. None: the
            number says how large minibatches are.
        recurrence: the most steps of a segment. Unrolls are split into as few equal segments as possible;
            rows that the last one has too many count for nothing. None: unrolls stay whole, and a batch has
            unrolls * batch_size segments.

    Attributes:
        needs_fresh_experience: True: `train` learns only from unrolls observed since its last call, and from
            older ones that the replayer adds to them.
    """

    needs_fresh_experience = True

    def __init__(
        self,
        algorithm: Algorithm,
        optimizer: OptimizerSetting | Mapping[str, OptimizerSetting] | None = None,
        replayer: Annotated[UnrollReplayer | None, PASSED] = None,
        num_epochs: PositiveInt = 1,
        num_minibatches: PositiveInt = 1,
        recurrence: PositiveInt | None = None,
        mini_batch_size: PositiveInt | None = None,
        settings: LearnerSettings | None = None,
        strategy: Annotated[tf.distribute.Strategy | None, PASSED] = None,
    ) -> None:
        super().__init__(algorithm, optimizer, replayer or OneTimeReplayer(), settings, strategy)
        self._num_epochs = num_epochs
        self._num_minibatches = num_minibatches
        self._mini_batch_size = mini_batch_size
        self._recurrence = recurrence

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        policy = self.policy
        has_state = bool(tf.nest.flatten(policy.state_spec.train))
        if self._recurrence is not None and has_state and not hasattr(policy, "final_state"):
            raise ConfigError(
                f"UnrollLearner.recurrence is {self._recurrence}: {type(policy).__name__} has a recurrent "
                "state, but no final_state(), as ActorCriticPolicy has"
            )
        self._check_split(self.replayer.divisor(num_unrolls), unroll_length, batch_size)

    def _make_due_updates(self) -> tuple[dict[str, Array], Experience]:
        """Makes updates from all batches that the replayer hands out."""
        summary, experience = self._train_on_next()
        if not self.replayer.has_more:
            return summary, experience
        summaries = [summary]
        while self.replayer.has_more:
            summaries.append(self._train_on_next()[0])
        return tf.nest.map_structure(lambda *x: tf.add_n(x) / len(x), *summaries), experience

    def _train_on_next(self):
        """Makes the updates of the next batch of the replayer; returns their summary, and the batch."""
        with contextlib.ExitStack() as stack:
            if self.replayer.draws:
                # A stream of its own: the updates draw at the same count.
                stack.enter_context(self.stream.spawn(0).at([(0, self.progress.updates)]))
            experience, num_fresh = self.replayer.replay_all()
        # A tensor and not an int, for which each number of fresh unrolls would need a trace of its own.
        num_unrolls, num_time_steps, batch_size = experience.step_type.shape
        count = self._num_epochs * self._check_split(num_unrolls, num_time_steps - 1, batch_size)
        return self._train_on((experience, tf.constant(num_fresh)), count), experience

    def _make_updates(self, inputs, compiles):
        """Makes the updates of one batch, in the graph; its first `num_fresh` unrolls are new."""
        experience, num_fresh = inputs
        num_unrolls, num_time_steps, batch_size = experience.step_type.shape
        num_minibatches = self._check_split(num_unrolls, num_time_steps - 1, batch_size)
        num_segments, length = find_segments(num_time_steps - 1, self._recurrence)
        # Whole unrolls are prepared, and only then split: advantages look ahead to the end of the unroll.
        batch, lag = self._update.prepare(merge_unrolls(experience))
        if num_segments > 1:
            batch = split_in_segments(batch, length, getattr(self.policy, "final_state", None))
        # A stream of its own: the first update draws at the same count.
        split = batch[0].step_type.shape[1], self._num_epochs, num_minibatches
        parts = shuffle_in_parts(*split, self.stream.spawn(1), self.progress.updates)
        num_updates = tf.constant(self._num_epochs * num_minibatches)
        summary, _ = self._loop.run(batch, parts, num_updates, compiles)
        # After the updates. Without an order, a schedule might read the steps before or after the sum.
        with tf.control_dependencies(tf.nest.flatten(summary)):
            # Older unrolls were counted when they were fresh.
            self._update.count_env_steps(count_transitions(experience.step_type[:num_fresh]))
            return {**summary, **lag}

    def _check_split(self, num_unrolls, unroll_length, batch_size):
        """Returns the number of minibatches of a batch of this shape; ConfigError: it cannot be split so."""
        number_in_time, length = find_segments(unroll_length, self._recurrence)
        segments = num_unrolls * batch_size * number_in_time
        number, what = min(self._num_minibatches, segments), "num_minibatches"
        if self._mini_batch_size is not None:
            # A fraction of 1, which divides nothing, if a minibatch is larger than the batch.
            number = segments * length / self._mini_batch_size
            what = f"mini_batch_size is {self._mini_batch_size}, so that the number of minibatches"
        # A number such as 4.5 divides 9, but no batch has half a minibatch.
        if number < 1 or number % 1 or segments % number:
            raise ConfigError(
                f"UnrollLearner.{what} is {number:g}: it must divide the segments of every batch, "
                f"{num_unrolls} unrolls * {batch_size} environments * {number_in_time} segments in "
                f"time = {segments}; UnrollLearner.recurrence splits unrolls of {unroll_length} steps in "
                "time"
            )
        return int(number)
