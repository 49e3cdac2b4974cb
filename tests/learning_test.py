# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Does each algorithm learn? Through a driver, with thresholds that a broken algorithm misses.

Returns alone do not tell: with positive rewards much that is broken still finds the best action. So the
values are checked too. The episodes of `MatchObservationEnvironment` end by a time limit, hence the value of
acting well is 1 / (1 - discount) at every step, unless a time limit is taken for a termination, the value
loss is missing, or V-trace corrects towards the wrong policy.

More of this is in learning_more_test.py, and beside the other tests of each algorithm.
"""

import functools

import numpy as np
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.core.nest_utils import zeros_from_spec
from alf.data_structures import PolicyStep, TimeStep
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver
from alf.learner import ReplayLearner, UnrollLearner, optimizers
from alf.networks import ActorCriticNetwork, CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.replay import UniformReplayer
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.builders import build_driver, build_learner, collect_and_observe

EPISODE_LENGTH = 4
DISCOUNT = 0.5
BEST_VALUE = 1 / (1 - DISCOUNT)
SMALL = {"fc_layer_params": (32,), "seed": 0}


def learn(make_learner, iterations, continuous=False, driver_class=AsyncOffPolicyDriver, batch_size=32):
    """Trains in two environments; returns the learner and the average reward of a step while it learned last.

    `make_learner`: callable (`EnvSpecs`) -> `Learner`.
    """
    tf.random.set_seed(0)
    envs = [
        MatchObservationEnvironment(batch_size, episode_length=EPISODE_LENGTH, continuous=continuous, seed=i)
        for i in range(2)
    ]
    learner = make_learner(EnvSpecs(envs))
    driver = build_driver(driver_class, envs, learner, unroll_length=8)
    try:
        driver.start()
        for _ in range(iterations):
            collect_and_observe(driver)
            learner.train()
        results = {metric.name: metric.result() for metric in driver.get_metrics()}
    finally:
        driver.stop()
    assert results["AverageEpisodeLength"] == EPISODE_LENGTH
    return learner, results["AverageReturn"] / EPISODE_LENGTH


def make_actor_critic(specs, cls=ActorCriticPolicy):
    return cls(specs.observation, specs.action, functools.partial(ActorCriticNetwork, **SMALL))


def make_replay_training(specs, policy):
    """One update for every 4 steps, with a batch of 64."""
    replayer = UniformReplayer(specs.unroll_spec(policy, 8), num_groups=2, capacity=20_000)
    sizes = dict(mini_batch_size=64, initial_collect_steps=256, replay_ratio=0.25)
    return functools.partial(ReplayLearner, replayer=replayer, **sizes)


def observations(continuous):
    if continuous:
        return np.linspace(-1.0, 1.0, 21, dtype=np.float32)[:, np.newaxis]
    return np.eye(3, dtype=np.float32)


def act(policy, observation):
    """Greedy actions, as an array."""
    zeros = tf.zeros(len(observation))
    time_step = TimeStep(zeros, zeros, zeros, tf.constant(observation), zeros, zeros)
    return policy.predict_step(time_step, zeros_from_spec(policy.state_spec, 1)).action.numpy()


def check_matches(policy, continuous, tolerance=0.1):
    seen = observations(continuous)
    if continuous:
        assert np.abs(act(policy, seen) - seen).mean() < tolerance
    else:
        np.testing.assert_array_equal(act(policy, seen), [0, 1, 2])


def check_values(policy, continuous):
    values = policy._network(tf.constant(observations(continuous)))[1]
    np.testing.assert_allclose(values, np.full(values.shape, BEST_VALUE), atol=0.1)


class FromOthers(ActorCriticPolicy):
    """Acts as a policy that never learns: uniform, or normal with mean 0 and deviation 1."""

    def rollout_step(self, time_step, state):
        info = zeros_from_spec(self.info_spec, time_step.step_type.shape[0])
        raw = self.actions.sample(info.params)
        return PolicyStep(self.actions.action(raw), state, info._replace(raw=raw))


def make_impala(specs, cls=ActorCriticPolicy, learning_rate=3e-3):
    algorithm = ImpalaAlgorithm(make_actor_critic(specs, cls), discount=DISCOUNT)
    return build_learner(algorithm, optimizers.Adam(learning_rate), max_grad_norm=0.5)


def test_impala_learns_from_the_actions_of_another_policy():
    # The correction decides what is learned here: the values are those of the policy that is learned, not of
    # the one that acts (1/3 of them) nor of one on the far side of it.
    learner, reward = learn(functools.partial(make_impala, cls=FromOthers, learning_rate=1e-2), 120)
    assert reward < 0.5, "the policy that acts never learns"
    check_matches(learner.policy, False)
    check_values(learner.policy, False)


def test_ppo_learns():
    def make_learner(specs):
        algorithm = PPOAlgorithm(make_actor_critic(specs), discount=DISCOUNT)
        # Not faster: 16 updates of a batch that change the policy a lot are unstable once it is nearly
        # deterministic, and one run in 15 would miss the bound.
        optimizer = optimizers.Adam(1e-3, epsilon=1e-5)
        training = functools.partial(UnrollLearner, num_epochs=4, num_minibatches=4)
        return build_learner(algorithm, optimizer, training, max_grad_norm=0.5)

    learner, reward = learn(make_learner, 70, continuous=True)
    assert reward > 0.97, "of 1; at random -1/3"
    check_matches(learner.policy, True)
    check_values(learner.policy, True)


def test_dqn_learns():
    def make_learner(specs):
        network = functools.partial(QValueNetwork, **SMALL)
        policy = EpsilonGreedyPolicy(specs.observation, specs.action, network, epsilon=0.1)
        algorithm = DqnAlgorithm(policy, discount=DISCOUNT, tau=0.1, target_update_period=1)
        optimizer = optimizers.Adam(1e-2)
        return build_learner(algorithm, optimizer, make_replay_training(specs, policy), max_grad_norm=10.0)

    learner, reward = learn(make_learner, 6, driver_class=SyncOffPolicyDriver, batch_size=16)
    assert reward > 0.85, "of 1, with a fifteenth of all actions wrong; at random 1/3"
    # Each other action is worth 1 less than the best one.
    q, _ = learner.policy.network(tf.eye(3))
    np.testing.assert_allclose(q, BEST_VALUE - 1 + np.eye(3), atol=0.05)


def test_sac_learns():
    """Values contain the entropy that is to come; the temperature makes it what was asked for."""
    target_entropy = 0.5

    def make_learner(specs):
        network = functools.partial(PolicyNetwork, **SMALL)
        policy = SacPolicy(specs.observation, specs.action, network)
        critic = functools.partial(CriticsNetwork, **SMALL)
        settings = dict(tau=0.1, initial_alpha=0.1, target_entropy=target_entropy)
        algorithm = SacAlgorithm(policy, critic, discount=DISCOUNT, **settings)
        optimizer = optimizers.Adam(1e-2)
        return build_learner(algorithm, optimizer, make_replay_training(specs, policy))

    learner, reward = learn(make_learner, 10, driver_class=SyncOffPolicyDriver, batch_size=16)
    check_matches(learner.policy, False)
    # Of two actions that are worth 1 less than the best one, which has this share:
    share = tf.nn.softmax(learner.policy.network(tf.eye(3))[0]).numpy().max(axis=1)
    rest = 1 - share
    entropy = -share * np.log(share) - rest * np.log(rest / 2)
    np.testing.assert_allclose(entropy, np.full(3, target_entropy), atol=0.1)
    # Over the last 100 episodes, in which it acted as in training; at random 1/3.
    assert reward > share.mean() - 0.1, share
    # The soft value is worth V = log(sum(exp(q / alpha))) * alpha, and q is the reward + discount * V.
    alpha = np.exp(learner.algorithm._log_alpha.numpy())
    best = 1 + alpha * np.log(np.exp(1 / alpha) + 2)
    for q in learner.algorithm._critic.values(tf.eye(3)):
        np.testing.assert_allclose(q, best - 1 + np.eye(3), atol=0.05)
