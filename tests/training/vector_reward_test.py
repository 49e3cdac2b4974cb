# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Vector rewards in whole runs: algorithms learn from the weighted sum, statistics show each component."""

import functools

import gin
import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm
from alf.callback import Callback
from alf.config.registry import own_config
from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import load
from alf.errors import ConfigError
from alf.evaluation.episodes import evaluate
from alf.learner import optimizers
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy
from alf.policies.data_transformers import RewardClipping, RewardWeighting
from alf.runs.saved_run import load_agent
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_learner, build_trainer, driver_of
from tests.training.counting_parts import WeightDecay
from tests.training.event_files import read_events


class TwoRewards(gymnasium.Env):
    """Step n of an episode of 3 steps has the reward (n, -10 n); the observation is n."""

    observation_space = spaces.Box(0, 10, (1,), np.float32)
    action_space = spaces.Discrete(2)
    reward_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        reward = np.array([self.count, -10 * self.count], np.float32)
        return np.array([self.count], np.float32), reward, self.count == 3, False, {}


def check_reward(algorithm, experience, expected):
    """Fails in the graph unless the reward of each row is what `expected` makes of its step number."""
    step = experience.observation[..., 0]
    is_step = tf.not_equal(experience.step_type, FIRST)
    tf.debugging.assert_near(
        tf.boolean_mask(experience.reward, is_step), tf.boolean_mask(expected(step), is_step), rtol=1e-5
    )
    algorithm.checks.assign_add(1)


class CheckingImpala(WeightDecay, ImpalaAlgorithm):
    """Fails in the graph unless it learns from the sum, weighted with `expected`, another variable."""

    def __init__(self, policy):
        super().__init__(policy)
        self.expected = tf.Variable([1.0, 1.0], trainable=False)
        self.checks = tf.Variable(0, trainable=False)

    def preprocess(self, experience):
        first, second = tf.unstack(self.expected)
        check_reward(self, experience, lambda step: (first - 10 * second) * step)
        return super().preprocess(experience)


class CheckingDqn(WeightDecay, DqnAlgorithm):
    def __init__(self, policy):
        super().__init__(policy)
        self.checks = tf.Variable(0, trainable=False)

    def preprocess(self, experience):
        check_reward(self, experience, lambda step: -9 * step)
        return super().preprocess(experience)


def make_experiment(algorithm=CheckingImpala, policy=ActorCriticPolicy, **kwargs):
    optimizer = optimizers.Adam(1e-6)
    settings = {"driver": SyncOffPolicyDriver, "unroll_length": 5, **kwargs}
    return Experiment(
        env=lambda seed: load(TwoRewards, 2, seed, num_workers=0),
        policy=policy,
        algorithm=algorithm,
        learner=functools.partial(build_learner, optimizer=optimizer),
        **settings,
    )


def make_trainer(root_dir, num_iterations, callbacks=(), **kwargs):
    stop_criteria = lambda: StopCriteria(num_iterations=num_iterations)  # noqa: E731
    driver = driver_of(make_experiment(**kwargs))
    return build_trainer(str(root_dir), driver, stop_criteria, callbacks=callbacks)


class ChangeWeights(Callback):
    """Sets other weights after 3 train iterations."""

    def on_train_iter(self, trainer, summary):
        if trainer.counters["iterations"] == 3:
            algorithm = trainer.learner.algorithm
            algorithm.set_reward_weights([2.0, -0.5])
            algorithm.expected.assign([2.0, -0.5])


def test_the_sum_is_plain_until_the_weights_change_and_a_checkpoint_keeps_them(tmp_path):
    trainer = make_trainer(tmp_path, 6, [ChangeWeights()])
    algorithm = trainer.learner.algorithm
    assert algorithm.has_multidim_reward
    np.testing.assert_array_equal(algorithm.reward_weights, [1, 1])
    trainer.train()
    assert int(algorithm.checks) == 6
    last = {tag: points[-1][1] for tag, points in read_events(tmp_path / "train").items()}
    assert last["metrics/AverageReturn_0"] == 6 and last["metrics/AverageReturn_1"] == -60
    assert last["metrics/AverageReturn"] == -54

    trainer = make_trainer(tmp_path, 8)
    np.testing.assert_array_equal(trainer.learner.algorithm.reward_weights, [2, -0.5])
    trainer.train()
    assert int(trainer.learner.algorithm.checks) == 8

    experiment = make_experiment()
    env = experiment.make_env(seed=0)
    spec = trainer.learner.policy.time_step_spec
    policy = experiment.make_policy(spec.observation, spec.prev_action, spec.reward)
    episodes = evaluate(load_agent(str(tmp_path), policy=policy), env, num_episodes=4)
    env.close()
    assert episodes.returns.tolist() == [-54] * 4 and episodes.components["return_1"].tolist() == [-60] * 4


def test_replayed_rewards_are_summed(tmp_path):
    kwargs = dict(algorithm=CheckingDqn, policy=EpsilonGreedyPolicy, exp_replayer="uniform")
    trainer = make_trainer(tmp_path, 4, driver=AsyncOffPolicyDriver, **kwargs)
    trainer.train()
    assert int(trainer.learner.algorithm.checks) > 0


def test_gin_binds_the_weights_with_and_without_the_transformer_in_the_list():
    for transformers in ((), (RewardWeighting,)):
        with own_config():
            gin.bind_parameter("RewardWeighting.weights", (0.5, 3))
            learner = driver_of(make_experiment(ImpalaAlgorithm, data_transformers=transformers)).learner
        np.testing.assert_array_equal(learner.algorithm.reward_weights, [0.5, 3])
        assert len([v for v in learner.variables if "reward_weights" in v.name]) == 1


def test_the_weighted_sum_may_be_transformed_further():
    weighting = functools.partial(RewardWeighting, weights=(1.0, 0.0))
    clipping = functools.partial(RewardClipping, maximum=1.5)
    learner = driver_of(make_experiment(ImpalaAlgorithm, data_transformers=(weighting, clipping))).learner
    learner.algorithm.set_reward_weights((2.0, 0.0))
    assert learner.policy.data_transformer.reward_spec.shape == ()
    np.testing.assert_array_equal(learner.algorithm.reward_weights, [2, 0])


class KeepsVectors(ImpalaAlgorithm):
    uses_vector_reward = True

    def train_step(self, experience, prepared):
        assert experience.reward.shape == (6, 4, 2)
        reward = tf.linalg.matvec(experience.reward, self.reward_weights)
        return super().train_step(experience, prepared), reward

    def calc_loss(self, experience, train_info):
        info, reward = train_info
        return super().calc_loss(experience._replace(reward=reward), info)


def test_an_algorithm_may_get_the_vectors(tmp_path):
    trainer = make_trainer(tmp_path, 2, algorithm=KeepsVectors)
    assert trainer.train()[0]


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1, 2, 3], r"weights is \[1, 2, 3\]: .* which has shape \(2,\)"),
        ([1.0, float("nan")], "weights is .* must be a list of numbers"),
    ],
)
def test_weights_that_do_not_fit(weights, message):
    algorithm = driver_of(make_experiment(ImpalaAlgorithm)).learner.algorithm
    with pytest.raises(ConfigError, match=message):
        algorithm.set_reward_weights(weights)


def test_scalar_rewards_have_no_weights():
    action_spec = BoundedTensorSpec((), tf.int64, 0, 1)
    algorithm = ImpalaAlgorithm(ActorCriticPolicy(tf.TensorSpec((4,), tf.float32), action_spec))
    assert not algorithm.has_multidim_reward and algorithm.reward_weights is None
    with pytest.raises(ConfigError, match="set_reward_weights: the reward .* is not a vector"):
        algorithm.set_reward_weights([1.0])
