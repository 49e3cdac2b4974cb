# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UnrollTraining: updates from whole unrolls, most of which train once."""

import gin
import tensorflow as tf

from alf.data_structures import count_transitions
from alf.errors import ConfigError, check_int
from alf.learner.minibatches import check_num_minibatches, merge_unrolls, train_in_minibatches
from alf.replay import OneTimeReplayer, UnrollReplayer


@gin.configurable(module="alf.learner")
class UnrollTraining:
    """Trains on the unrolls that a replayer hands out, for algorithms such as IMPALA and PPO.

    Args:
        replayer: `UnrollReplayer`; None makes a `OneTimeReplayer`.
        num_epochs: passes over each batch.
        num_minibatches: updates of a pass. The batch is split by environments, which are shuffled.

    Attributes:
        needs_fresh_experience: True, see `ReplayTraining`.
    """

    needs_fresh_experience = True

    def __init__(self, replayer=None, num_epochs=1, num_minibatches=1):
        self.replayer = replayer or OneTimeReplayer()
        if not isinstance(self.replayer, UnrollReplayer):
            raise ConfigError(f"UnrollTraining.replayer is {replayer!r}: it must be an UnrollReplayer")
        self._num_epochs = check_int("UnrollTraining.num_epochs", num_epochs)
        self._num_minibatches = check_int("UnrollTraining.num_minibatches", num_minibatches)

    def check_batch_size(self, batch_size):
        """Raises ConfigError if a batch of so many environments cannot be split into `num_minibatches`."""
        check_num_minibatches(self._num_minibatches, batch_size)

    def observe(self, experience):
        """Keeps an `Experience` of [Q, T+1, B, ...] until `train`."""
        self.replayer.observe(experience)

    def train(self, learner):
        """Makes the updates of one batch.

        Returns the mean of their summaries, a dict of float32 scalars; and the `Experience` of
        [Q, T+1, B, ...].
        """
        experience, num_fresh = self.replayer.replay_all()
        return self._train_on(learner, experience, num_fresh), experience

    @tf.function(autograph=False)
    def _train_on(self, learner, experience, num_fresh):
        """Makes the updates; the first `num_fresh` unrolls were never trained on before."""
        batch, lag = learner.prepare(merge_unrolls(experience))
        splits, stop = (self._num_epochs, self._num_minibatches), learner.algorithm.stops_early
        summary = train_in_minibatches(lambda part: learner.update(part)[0], batch, *splits, stop)
        with tf.control_dependencies(tf.nest.flatten(summary)):
            learner.progress.env_steps.assign_add(count_transitions(experience.step_type[:num_fresh]))
            return {**summary, **lag}

    def get_state(self):
        """Returns an empty dict: no state outlives a call of `train`."""
        return {}

    def set_state(self, state):
        """Does nothing: there is no state."""
