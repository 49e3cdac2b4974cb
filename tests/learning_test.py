# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Does it learn? Through the asynchronous driver, with thresholds that a broken algorithm misses.

Returns alone do not tell: with positive rewards much that is broken still finds the best action. So
the values are checked too. The episodes of `MatchObservationEnvironment` end by a time limit, hence
the value of acting well is 1 / (1 - discount) at every step, unless a time limit is taken for a
termination, the value loss is missing, or V-trace corrects towards the wrong policy.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.data_structures import PolicyStep, TimeStep
from alf.drivers import AsyncOffPolicyDriver
from alf.learner import Learner
from alf.nest_utils import to_tensor_spec, zeros_from_spec
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.example_runs import EXAMPLES, build

EPISODE_LENGTH = 4
DISCOUNT = 0.5
BEST_VALUE = 1 / (1 - DISCOUNT)


class FromOthers(ActorCriticPolicy):
    """Acts as a policy that never learns: uniform, or normal with mean 0 and deviation 1."""

    def rollout_step(self, time_step, state):
        info = zeros_from_spec(self.info_spec, time_step.step_type.shape[0])
        raw = self.actions.sample(info.params)
        return PolicyStep(self.actions.action(raw), state, info._replace(raw=raw))


def learn(continuous, iterations, cls=ActorCriticPolicy, seed=0):
    """Returns the policy and the average reward of a step while it learned last."""
    tf.random.set_seed(seed)
    envs = [
        MatchObservationEnvironment(32, episode_length=EPISODE_LENGTH, continuous=continuous, seed=seed + i)
        for i in range(2)
    ]
    policy = cls(
        to_tensor_spec(envs[0].observation_spec()),
        to_tensor_spec(envs[0].action_spec()),
        functools.partial(ActorCriticNetwork, fc_layer_params=(32,), seed=seed),
    )
    algorithm = ImpalaAlgorithm(policy, discount=DISCOUNT)
    learner = Learner(algorithm, tf.keras.optimizers.legacy.Adam(3e-3), max_grad_norm=0.5)
    driver = AsyncOffPolicyDriver(envs, learner, unroll_length=8)
    try:
        driver.start()
        for _ in range(iterations):
            driver.collect()
            learner.train()
        results = {metric.name: metric.result() for metric in driver.get_metrics()}
    finally:
        driver.stop()
    assert results["AverageEpisodeLength"] == EPISODE_LENGTH
    return policy, results["AverageReturn"] / EPISODE_LENGTH


def observations(continuous):
    if continuous:
        return np.linspace(-1.0, 1.0, 21, dtype=np.float32)[:, np.newaxis]
    return np.eye(3, dtype=np.float32)


def act(policy, observation):
    """Greedy actions, as an array."""
    zeros = tf.zeros(len(observation))
    time_step = TimeStep(zeros, zeros, zeros, tf.constant(observation), zeros, zeros)
    return policy.predict_step(time_step, ()).action.numpy()


def values(policy, observation):
    return policy._network(tf.constant(observation))[1].numpy()


@pytest.mark.parametrize(
    "continuous, iterations", [(False, 200), (True, 250)], ids=["discrete", "continuous"]
)
def test_learns_to_match(continuous, iterations):
    policy, reward = learn(continuous, iterations)
    assert reward > 0.97, "of 1; at random 1/3, continuous -1/3"
    seen = observations(continuous)
    if continuous:
        assert np.abs(act(policy, seen) - seen).mean() < 0.1
    else:
        np.testing.assert_array_equal(act(policy, seen), [0, 1, 2])
    np.testing.assert_allclose(values(policy, seen), BEST_VALUE, atol=0.15)


def test_learns_from_the_actions_of_another_policy():
    # The correction decides what is learned here: the values are those of the policy that is
    # learned, not of the one that acts (1/3 of them) nor of one on the far side of it.
    policy, reward = learn(False, 300, FromOthers)
    assert reward < 0.5, "the policy that acts never learns"
    seen = observations(False)
    np.testing.assert_array_equal(act(policy, seen), [0, 1, 2])
    np.testing.assert_allclose(values(policy, seen), BEST_VALUE, atol=0.15)


def train_cartpole(root_dir, **stop_criteria):
    """Trains as the example says, with other stop criteria; returns what ended it."""
    bindings = [f"StopCriteria.{name} = {value}" for name, value in stop_criteria.items()]
    finished, reason = build(EXAMPLES / "impala_cartpole.gin", root_dir, bindings).train()
    assert finished
    return reason


def test_cartpole_gets_better(tmp_path):
    reason = train_cartpole(tmp_path, target_return=150.0, num_env_steps=2_500_000)
    assert reason.startswith("target_return=150.0 reached")
