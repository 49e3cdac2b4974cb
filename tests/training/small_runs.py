# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Small runs for tests of what is around training: a training that learns nothing, and a trainer with it.

A short run that learns spends most of its time in tracing the update.
"""

import functools

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, count_transitions
from alf.drivers import SyncOffPolicyDriver
from alf.learner import Learner, UnrollTraining, optimizers
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_trainer, driver_of

EPISODE_LENGTH = 5


class IdleTraining(UnrollTraining):
    """Takes experience and counts steps, updates and the policy lag as training does, but learns nothing.

    Args:
        replayer: as in `UnrollTraining`.
        move: callable (update) in place of each update, or None.
    """

    def __init__(self, replayer=None, move=None):
        super().__init__(replayer)
        self._move = move

    def train(self, update):
        batches = [self.replayer.replay_all()]
        while self.replayer.has_more:
            batches.append(self.replayer.replay_all())
        lags = []
        for experience, num_fresh in batches:
            lag = update.progress.updates - experience.policy_version[:, :-1]
            lags.append(tf.boolean_mask(lag, experience.step_type[:, 1:] != FIRST).numpy())
            if self._move is not None:
                self._move(update)
            update.progress.updates.assign_add(1)
            update.count_env_steps(count_transitions(experience.step_type[:num_fresh]))
        lags = np.concatenate(lags)
        scalars = {"loss": 0, **{f"policy_lag_{f.__name__}": f(lags) for f in (np.min, np.mean, np.max)}}
        summary = {name: tf.constant(x, tf.float32) for name, x in scalars.items()}
        return summary, batches[0][0]


def add_to_weights(update):
    """Moves every weight by 0.01; a `move` of `IdleTraining`."""
    for variable in update.algorithm.trainable_variables:
        variable.assign_add(tf.fill(variable.shape, tf.cast(0.01, variable.dtype)))


def make_idle_learner(algorithm, training, move=None, optimizer=None, **kwargs):
    """An `Experiment.learner` whose learner has an `IdleTraining`."""
    optimizer = optimizer or optimizers.SGD()
    return Learner(algorithm, optimizer, IdleTraining(training.replayer, move), **kwargs)


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
