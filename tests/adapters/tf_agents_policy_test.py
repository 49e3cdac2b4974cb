# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TFAgentsPolicy: drivers, metrics and policies of TF-Agents take it as it is."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.drivers.dynamic_episode_driver import DynamicEpisodeDriver
from tf_agents.drivers.py_driver import PyDriver
from tf_agents.environments.tf_py_environment import TFPyEnvironment
from tf_agents.metrics import py_metrics, tf_metrics
from tf_agents.policies.policy_saver import PolicySaver
from tf_agents.policies.py_tf_eager_policy import PyTFEagerPolicy, SavedModelPyTFEagerPolicy
from tf_agents.trajectories import time_step as ts

from alf.adapters import TFAgentsEnvironment, TFAgentsPolicy
from alf.core.nest_utils import BoundedTensorSpec, to_tensor_spec
from alf.data_structures import FIRST, PolicyStep
from alf.environments import load
from alf.networks import GRU, ActorCriticNetwork
from alf.policies import ActorCriticPolicy, Policy
from alf.policies.agent import Agent, AgentState
from alf.policies.data_transformers import FrameStacker, ObservationNormalizer, Pipeline

NUMBER = tf.TensorSpec((), tf.float32)


def make_env(seed=0):
    return load("CartPole-v1", 2, seed=seed, max_episode_steps=30)


@pytest.fixture(scope="module")
def policy():
    """Recurrent, with transformers of both kinds."""
    env = make_env()
    ctors = [functools.partial(FrameStacker, num_frames=2), ObservationNormalizer]
    transformer = Pipeline(to_tensor_spec(env.observation_spec()), NUMBER, ctors)
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(8,), rnn=functools.partial(GRU, units=4))
    action_spec = to_tensor_spec(env.action_spec())
    env.close()
    return ActorCriticPolicy(transformer.observation_spec, action_spec, network, data_transformer=transformer)


def returns_of_agent(policy, num_episodes):
    """The returns of the first episodes that end, by a plain loop."""
    env, agent, state, returns = make_env(), Agent(policy), None, []
    time_step, total = env.reset(), np.zeros(2)
    while len(returns) < num_episodes:
        action, state = agent.act(*time_step, state)
        time_step = env.step(action)
        total = np.where(time_step.step_type == FIRST, 0, total + time_step.reward)
        returns += total[time_step.step_type == ts.StepType.LAST].tolist()
    env.close()
    return returns


def assert_same_returns(metric, num_episodes, policy):
    assert num_episodes >= 4
    expected = returns_of_agent(policy, num_episodes)
    np.testing.assert_allclose(metric.result(), np.mean(expected[-10:]), rtol=1e-6)


def test_a_dynamic_driver_and_its_metrics(policy):
    env = TFPyEnvironment(TFAgentsEnvironment(make_env()))
    average, episodes = tf_metrics.AverageReturnMetric(batch_size=2), tf_metrics.NumberOfEpisodes()
    driver = DynamicEpisodeDriver(env, TFAgentsPolicy(policy), [average, episodes], num_episodes=5)
    _, state = tf.function(driver.run, autograph=False)()
    assert isinstance(state, AgentState)
    assert_same_returns(average, int(episodes.result()), policy)
    env.close()


@pytest.mark.parametrize("is_saved", [False, True])
def test_python_driver(policy, is_saved, tmp_path):
    tf_policy = TFAgentsPolicy(policy)
    if is_saved:
        PolicySaver(tf_policy).save(str(tmp_path / "policy"))
        py_policy = SavedModelPyTFEagerPolicy(
            str(tmp_path / "policy"), load_specs_from_pbtxt=True, batch_time_steps=False
        )
    else:
        py_policy = PyTFEagerPolicy(tf_policy, use_tf_function=True, batch_time_steps=False)
    env, average = TFAgentsEnvironment(make_env()), py_metrics.AverageReturnMetric(batch_size=2)
    episodes = py_metrics.NumberOfEpisodes()
    driver = PyDriver(env, py_policy, [average, episodes], max_episodes=5)
    driver.run(env.reset(), py_policy.get_initial_state(2))
    assert_same_returns(average, int(episodes.result()), policy)
    env.close()


class StepPolicy(Policy):
    """Its action is 10 times the sum of the previous action, which is not clipped, and of the rewards."""

    def __init__(self):
        super().__init__(NUMBER, BoundedTensorSpec((), tf.float32, -30.0, 30.0))
        self.data_transformer.input_reward_spec = tf.TensorSpec((2,), tf.float32)
        self._weight = tf.Variable(10.0)

    def rollout_step(self, time_step, state):
        return PolicyStep(self._weight * (time_step.prev_action + tf.reduce_sum(time_step.reward, 1)), state)

    def predict_step(self, time_step, state):
        return self.rollout_step(time_step, state)._replace(action=time_step.observation)


def make_time_step(*step_types):
    ones = tf.ones([len(step_types)])
    return ts.TimeStep(tf.constant(step_types), tf.ones([len(step_types), 2]), ones, ones)


def test_state_rewards_and_bounds():
    policy = TFAgentsPolicy(StepPolicy(), deterministic=False)
    assert policy.time_step_spec.reward.shape == (2,)
    state = policy.get_initial_state(2)
    expected = [([20, 20], [20, 20]), ([30, 20], [220, 20]), ([30, 30], [2220, 220])]
    for step_types, (action, prev_action) in zip([(0, 0), (1, 0), (2, 1)], expected, strict=True):
        step = policy.action(make_time_step(*step_types), state)
        state = step.state
        assert step.info == ()
        assert step.action.numpy().tolist() == action
        assert state.prev_action.numpy().tolist() == prev_action
    assert policy.action(make_time_step(1, 1)).action.numpy().tolist() == [20, 20]  # no state: zeros


def test_it_predicts_or_explores_with_the_variables_of_the_policy(tmp_path):
    policy = StepPolicy()
    predicts, explores = TFAgentsPolicy(policy), TFAgentsPolicy(policy, deterministic=False)
    policy._weight.assign(5.0)
    assert predicts.action(make_time_step(0)).action.numpy() == [1]
    assert explores.action(make_time_step(0)).action.numpy() == [10]
    assert [v.ref() for v in explores.variables()] == [v.ref() for v in policy.variables]
    path = tf.train.Checkpoint(policy=explores).write(str(tmp_path / "checkpoint"))
    policy._weight.assign(6.0)
    tf.train.Checkpoint(policy=predicts).read(path).assert_consumed()
    assert policy._weight.numpy() == 5


def test_a_seed_is_refused():
    with pytest.raises(ValueError, match=r"seed is 3: use tf\.random\.set_seed"):
        TFAgentsPolicy(StepPolicy()).action(make_time_step(0), seed=3)
