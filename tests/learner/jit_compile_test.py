# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""jit_compile: XLA makes the same updates, of every algorithm."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import Learner, ReplayTraining, UnrollTraining
from alf.networks import GRU, ActorCriticNetwork, CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.replay import UniformReplayer
from alf.testing.toy_environments import MatchObservationEnvironment

IMPACT = functools.partial(PPOAlgorithm, target_update_period=1)
SMALL_GRU = functools.partial(GRU, units=8)


def make_learner(algorithm_ctor, specs, rnn_ctor, **kwargs):
    """A learner with small networks; SAC and DQN learn from replay."""
    small = lambda cls: functools.partial(cls, fc_layer_params=(16,), rnn_ctor=rnn_ctor, seed=0)  # noqa: E731
    acting = specs.observation, specs.action
    if algorithm_ctor is DqnAlgorithm:
        policy = EpsilonGreedyPolicy(*acting, small(QValueNetwork))
        algorithm = DqnAlgorithm(policy, target_update_period=2)
    elif algorithm_ctor is SacAlgorithm:
        critic_ctor = small(CriticsNetwork)
        policy = SacPolicy(*acting, small(PolicyNetwork), critic_ctor if rnn_ctor else None)
        algorithm = SacAlgorithm(policy, None if rnn_ctor else critic_ctor, initial_alpha=0.1)
    else:
        policy = ActorCriticPolicy(*acting, small(ActorCriticNetwork))
        algorithm = algorithm_ctor(policy)
    if algorithm_ctor in (DqnAlgorithm, SacAlgorithm):
        replayer = UniformReplayer(specs.unroll_spec(policy, 4), specs.num_envs)
        training = ReplayTraining(replayer, mini_batch_size=8, mini_batch_length=3)
    else:
        is_ppo = algorithm_ctor is not ImpalaAlgorithm
        training = UnrollTraining(num_epochs=4, num_minibatches=2) if is_ppo else None
    return Learner(algorithm, tf.keras.optimizers.legacy.SGD(0.1), training, **kwargs)


def train(algorithm_ctor, continuous, rnn_ctor, jit_compile):
    """Trains a little; returns the learner and what its last call of `train` showed."""
    tf.keras.utils.set_random_seed(0)
    env = MatchObservationEnvironment(4, episode_length=3, continuous=continuous)
    learner = make_learner(algorithm_ctor, EnvSpecs([env]), rnn_ctor, jit_compile=jit_compile)
    driver = SyncOffPolicyDriver([env], learner, unroll_length=4)
    driver.start()
    try:
        for _ in range(3):
            driver.collect()
            summary = learner.train()
    finally:
        driver.stop()
    return learner, summary


@pytest.mark.parametrize(
    "algorithm_ctor, continuous, rnn_ctor",
    [
        (ImpalaAlgorithm, False, None),
        (PPOAlgorithm, True, None),
        (IMPACT, False, None),
        (DqnAlgorithm, False, SMALL_GRU),
        (SacAlgorithm, True, SMALL_GRU),
        (SacAlgorithm, False, None),
    ],
)
def test_updates_are_the_same(algorithm_ctor, continuous, rnn_ctor):
    plain, shown = train(algorithm_ctor, continuous, rnn_ctor, False)
    compiled, shown_too = train(algorithm_ctor, continuous, rnn_ctor, True)
    assert not hasattr(plain._loss_and_gradients, "get_concrete_function")
    assert compiled._loss_and_gradients._jit_compile
    assert int(compiled.train_step_counter) == int(plain.train_step_counter) > 1
    assert shown.keys() == shown_too.keys()
    for name, value in shown.items():
        np.testing.assert_allclose(shown_too[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    for a, b in zip(compiled.trainable_variables, plain.trainable_variables, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_it_is_checked():
    with pytest.raises(ConfigError, match="jit_compile is 'yes'"):
        train(ImpalaAlgorithm, False, None, "yes")
