# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An algorithm that a user writes in one file, with public names alone, learns."""

import functools
from pathlib import Path

import numpy as np
import tensorflow as tf

from alf.learner import optimizers
from alf.networks import CriticsNetwork, PolicyNetwork
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.algorithms import own_td3
from tests.algorithms.learning import find_private_names, replay_training, train
from tests.builders import build_learner


def make_learner(specs):
    small = [functools.partial(x, fc_layer_params=(32,)) for x in (PolicyNetwork, CriticsNetwork)]
    policy = own_td3.TD3Policy(specs.observation, specs.action, small[0])
    algorithm = own_td3.TD3Algorithm(policy, small[1], discount=0.5, tau=0.1)
    groups = {name: optimizers.Adam(1e-2) for name in algorithm.parameter_groups()}
    return build_learner(algorithm, groups, replay_training(specs, policy, unroll_length=4, length=1))


def test_it_learns_and_its_actor_moves_in_every_second_update():
    env = MatchObservationEnvironment(16, episode_length=4, continuous=True)
    learner, average_return = train(env, make_learner, 4, 500)
    assert average_return > 3.3, "of 4, less the noise; at random below 0"
    before = [variable.numpy() for variable in learner.policy.network.trainable_variables]
    moved = []
    learner.progress.updates.assign(10)
    for _ in range(4):
        learner.train_from_replay()
        after = [variable.numpy() for variable in learner.policy.network.trainable_variables]
        moved.append(any(np.any(x != y) for x, y in zip(before, after, strict=True)))
        before = after
    assert moved == [False, True, False, True]
    assert np.isfinite(tf.add_n([tf.reduce_sum(v) for v in learner.algorithm.trainable_variables]))


def test_it_uses_no_private_name_of_alf():
    assert find_private_names(Path(own_td3.__file__).read_text(encoding="utf-8")) == {"__init__"}
