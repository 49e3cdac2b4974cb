# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Priorities of new sequences, `ReplayLearner.initial_priorities`, with the real driver and buffer."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, SacAlgorithm, Td3Algorithm, Td3Policy
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.errors import ConfigError
from alf.learner import ReplayLearner, optimizers
from alf.networks import GRU, CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.policies import EpsilonGreedyPolicy, SacPolicy
from alf.policies.data_transformers import Pipeline, RewardNormalizer
from alf.replay import PrioritizedReplayer, UniformReplayer
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.builders import build_driver, build_learner, collect_and_observe

T, B, GROUPS, LENGTH = 4, 3, 2, 8


def make_learner(specs, initial_priorities, rnn=None, reports_values=False, replayer=PrioritizedReplayer):
    pipeline = Pipeline(specs.observation, specs.reward, (RewardNormalizer,))
    network = functools.partial(QValueNetwork, fc_layer_params=(8,), rnn=rnn, seed=0)
    policy = EpsilonGreedyPolicy(
        pipeline.observation_spec,
        specs.action,
        network,
        epsilon=0.5,
        reports_values=reports_values,
        data_transformer=pipeline,
    )
    settings = {"burn_in": 2, "priority_eta": 0.9} if rnn else {}
    algorithm = DqnAlgorithm(policy, discount=0.9, n_step=2, **settings)
    replayer = replayer(specs.unroll_spec(policy, T), GROUPS, policy.data_transformer.context, 400)
    make = functools.partial(
        ReplayLearner,
        replayer=replayer,
        mini_batch_size=4,
        mini_batch_length=LENGTH,
        initial_collect_steps=48,
        replay_ratio=0.5,
        initial_priorities=initial_priorities,
    )
    return build_learner(algorithm, optimizers.SGD(0.01), make)


def priorities_of(replayer):
    """Of every sequence that may be drawn, without `epsilon` and `alpha`."""
    numbers = replayer._tree.numbers().numpy()
    rows = np.flatnonzero(numbers)
    names = list_names(replayer.sequences_at(tf.constant(rows, tf.int64)))
    return dict(zip(names, numbers[rows] ** (1 / replayer._alpha) - replayer._epsilon))


def list_names(sequences):
    return list(zip(*(x.numpy().tolist() for x in sequences)))


def make_sac(specs):
    network, critic = (functools.partial(x, fc_layer_params=(8,)) for x in (PolicyNetwork, CriticsNetwork))
    return SacAlgorithm(SacPolicy(specs.observation, specs.action, network), critic)


def make_td3(specs):
    network, critic = (functools.partial(x, fc_layer_params=(8,)) for x in (PolicyNetwork, CriticsNetwork))
    return Td3Algorithm(Td3Policy(specs.observation, specs.action, network), critic)


@pytest.mark.parametrize("rnn", [None, functools.partial(GRU, units=4)], ids=["feedforward", "GRU"])
@pytest.mark.parametrize("source", ["learner", "actor"])
def test_new_sequences_have_the_priorities_of_their_errors(source, rnn):
    envs = [MatchObservationEnvironment(B, episode_length=7, seed=i) for i in range(GROUPS)]
    learner = make_learner(EnvSpecs(envs), source, rnn, reports_values=source == "actor")
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=T)
    replayer, algorithm = learner.replayer, learner.algorithm
    seen = {}  # the priorities at the first sight, which updates and new statistics change later
    try:
        driver.start()
        for _ in range(12):
            collect_and_observe(driver)
            new = replayer.new_sequences(LENGTH)
            names, found = list_names(new), priorities_of(replayer)
            assert not set(names) & seen.keys()
            if names:
                # The same computation, sequence by sequence.
                (experience, prepared), _ = learner._prepare(
                    replayer.gather(new, LENGTH), tf.ones(len(names)), False
                )
                if source == "actor":
                    expected = algorithm.priority_of_actor(experience)
                    np.testing.assert_array_equal(experience.info.taken <= experience.info.greatest, True)
                else:
                    expected = algorithm.calc_loss(experience, algorithm.train_step(experience, ())).priority
                for name, priority in zip(names, expected.numpy()):
                    assert found[name] == pytest.approx(priority, rel=1e-4, abs=1e-6)
                    seen[name] = priority
            learner.train()
    finally:
        driver.stop()
    assert int(learner.progress.updates) > 20
    assert len(seen) > 20 and np.std(list(seen.values())) > 0.01


@pytest.mark.parametrize("make", [make_sac, make_td3])
def test_algorithms_with_draws_compute_them_too(make):
    """How many sequences are new is not known while graphs are traced."""
    envs = [MatchObservationEnvironment(B, episode_length=7, continuous=True, seed=i) for i in range(GROUPS)]
    specs = EnvSpecs(envs)
    algorithm = make(specs)
    replayer = PrioritizedReplayer(specs.unroll_spec(algorithm.policy, T), GROUPS, capacity=400)
    groups = {name: optimizers.SGD(0.01) for name in algorithm.parameter_groups()}
    training = functools.partial(
        ReplayLearner, replayer=replayer, mini_batch_size=4, initial_priorities="learner"
    )
    learner = build_learner(algorithm, groups, training)
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=T)
    try:
        driver.start()
        for _ in range(3):
            collect_and_observe(driver)
            learner.train()
    finally:
        driver.stop()
    found = list(priorities_of(replayer).values())
    assert np.std(found) > 1e-3 and len(found) >= 3 * B * T


def test_what_cannot_be_is_refused():
    specs = EnvSpecs([MatchObservationEnvironment(B, episode_length=7)])
    with pytest.raises(
        ConfigError, match="^ReplayLearner.initial_priorities is 'actor', but the replayer 'uniform'"
    ):
        make_learner(specs, "actor", replayer=UniformReplayer)
    with pytest.raises(ConfigError, match="^ReplayLearner.initial_priorities is 'newest'"):
        make_learner(specs, "newest")
    algorithm = SacAlgorithm(SacPolicy(specs.observation, specs.action))
    with pytest.raises(
        ConfigError, match="'actor': SacAlgorithm computes none .* set 'learner' or 'largest'"
    ):
        algorithm.priority_of_actor(())


def test_too_short_sequences_are_refused_before_anything_is_collected():
    specs = EnvSpecs([MatchObservationEnvironment(B, episode_length=7)])
    policy = EpsilonGreedyPolicy(specs.observation, specs.action)
    replayer = PrioritizedReplayer(specs.unroll_spec(policy, T), 1)
    with pytest.raises(ConfigError, match="^mini_batch_length is 2: DqnAlgorithm needs at least burn_in"):
        ReplayLearner(DqnAlgorithm(policy, n_step=3), optimizers.SGD(0.1), replayer, mini_batch_length=2)
