# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Small runs for tests of what is around training: a training that learns nothing, and a trainer with it.

A short run that learns spends most of its time in tracing the update.
"""

import functools

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, count_transitions
from alf.drivers import SyncOffPolicyDriver
from alf.learner import UnrollLearner, optimizers
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_learner, build_trainer, driver_of

EPISODE_LENGTH = 5


class IdleLearner(UnrollLearner):
    """Takes experience and counts steps, updates and the policy lag as training does, but learns nothing.

    Args:
        algorithm, optimizer, replayer, settings: as in `UnrollLearner`.
        move: callable (algorithm) in place of each update, or None.
    """

    def __init__(self, algorithm, optimizer, replayer=None, move=None, settings=None):
        super().__init__(algorithm, optimizer, replayer, settings=settings)
        self._move = move

    def _make_due_updates(self):
        batches = [self.replayer.replay_all()]
        while self.replayer.has_more:
            batches.append(self.replayer.replay_all())
        lags = []
        for experience, num_fresh in batches:
            lag = self.progress.updates - experience.policy_version[:, :-1]
            lags.append(tf.boolean_mask(lag, experience.step_type[:, 1:] != FIRST).numpy())
            if self._move is not None:
                self._move(self.algorithm)
            self.progress.updates.assign_add(1)
            self._update.count_env_steps(count_transitions(experience.step_type[:num_fresh]))
        lags = np.concatenate(lags)
        scalars = {"loss": 0, **{f"policy_lag_{f.__name__}": f(lags) for f in (np.min, np.mean, np.max)}}
        summary = {name: tf.constant(x, tf.float32) for name, x in scalars.items()}
        return summary, batches[0][0]


def add_to_weights(algorithm):
    """Moves every weight by 0.01; a `move` of `IdleLearner`."""
    for variable in algorithm.trainable_variables:
        variable.assign_add(tf.fill(variable.shape, tf.cast(0.01, variable.dtype)))


def make_idle_learner(algorithm, replayer, move=None, optimizer=None, **kwargs):
    """An `Experiment.learner` that makes an `IdleLearner`."""
    return build_learner(algorithm, optimizer or optimizers.SGD(), IdleLearner, replayer, move=move, **kwargs)


def make_trainer(root_dir, stop=None, experiment=None, units=8, **kwargs):
    """A trainer of a tiny network, which learns nothing. `stop`, `experiment`: arguments of constructors."""
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(units,))
    parts = {
        "env": functools.partial(MatchObservationEnvironment, 4, episode_length=EPISODE_LENGTH),
        "num_groups": 1,
        "policy": functools.partial(ActorCriticPolicy, network=network),
        "learner": make_idle_learner,
        "driver": SyncOffPolicyDriver,
        "unroll_length": 4,
        "seed": 0,
        **(experiment or {}),
    }
    stop_criteria = functools.partial(StopCriteria, **(stop or {}))
    return build_trainer(str(root_dir), driver_of(Experiment(**parts)), stop_criteria, **kwargs)
