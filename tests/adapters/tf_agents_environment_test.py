# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments of ALF in the tools of TF-Agents, and environments of TF-Agents in the drivers of ALF."""

import contextlib
import itertools

import numpy as np
import pytest
from tf_agents.drivers.dynamic_step_driver import DynamicStepDriver
from tf_agents.environments import random_py_environment, wrappers
from tf_agents.environments.batched_py_environment import BatchedPyEnvironment
from tf_agents.environments.tf_py_environment import TFPyEnvironment
from tf_agents.environments.utils import validate_py_environment
from tf_agents.metrics import tf_metrics
from tf_agents.policies.random_tf_policy import RandomTFPolicy
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from alf.adapters import TFAgentsEnvironment
from alf.core.array_spec import to_array_spec
from alf.core.nest_utils import to_tensor_spec
from alf.data_structures import FIRST, LAST
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver
from alf.environments import ArraySpec, BatchedEnvironment, BehaviorEnvironment, load
from alf.evaluation.episodes import evaluate
from alf.games.mapping import MappedEnvironment
from alf.testing import EnvironmentContract
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, RecordingLearner, assert_equal_nests
from alf.testing.toy_environments import CountingEnvironment, NullEnvironment
from tests.builders import build_driver, collect_and_observe


@pytest.fixture(scope="module", params=["CartPole-v1", "Pendulum-v1"])
def env(request):
    """Discrete and continuous actions."""
    with contextlib.closing(load(request.param, 3, seed=0, max_episode_steps=20, num_workers=0)) as env:
        yield TFAgentsEnvironment(env)


def test_tf_agents_finds_it_valid(env):
    validate_py_environment(env, episodes=5)
    validate_py_environment(TFAgentsEnvironment(NullEnvironment(2, episode_length=3)), episodes=2)


def test_its_specs_are_those_of_the_environment(env):
    inner = env.wrapped_env()
    for name in ("observation_spec", "action_spec", "reward_spec"):
        spec, own = getattr(env, name)(), getattr(inner, name)()
        assert isinstance(spec, array_spec.ArraySpec) and to_array_spec(spec) == own, name
        assert isinstance(spec, array_spec.BoundedArraySpec) == hasattr(own, "minimum")
    assert env.batched and env.batch_size == 3


def test_it_passes_on_what_tf_agents_does_not_know():
    env = TFAgentsEnvironment(load("CartPole-v1", 2, num_workers=0, info_keys=("x",), seed=0))
    assert env.info_keys == ("x",)
    env.seed(3)
    first = env.reset()
    assert isinstance(first, ts.TimeStep) and env.current_time_step() is first
    assert env.get_info()["x"].shape == (2,)
    env.close()


def test_an_actor_of_tf_agents_acts_in_it():
    env = TFAgentsEnvironment(load("Pendulum-v1", 3, seed=0, max_episode_steps=20, num_workers=0))
    tf_env = TFPyEnvironment(env)
    policy = RandomTFPolicy(tf_env.time_step_spec(), tf_env.action_spec())
    steps, length = tf_metrics.EnvironmentSteps(), tf_metrics.AverageEpisodeLengthMetric(batch_size=3)
    DynamicStepDriver(tf_env, policy, observers=[steps, length], num_steps=90).run()
    assert steps.result() >= 90
    assert length.result() == 20
    tf_env.close()


# --- In the drivers of ALF.


def collect(driver_class, envs):
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(2)))
    driver = build_driver(driver_class, envs, learner, unroll_length=5)
    try:
        driver.start()
        collect_and_observe(driver)
    finally:
        driver.stop()
    return learner.observed[0]


class Flipped(wrappers.PyEnvironmentBaseWrapper):
    """A wrapper of the user's around an environment of ALF as it is."""

    def _step(self, action):
        time_step = self._env.step(action)
        return time_step._replace(reward=-time_step.reward)


@pytest.mark.parametrize(
    "wrap",
    [
        TFAgentsEnvironment,
        lambda env: TFPyEnvironment(TFAgentsEnvironment(env)),
        lambda env: wrappers.PyEnvironmentBaseWrapper(TFAgentsEnvironment(env)),
        lambda env: Flipped(Flipped(env)),
    ],
    ids=["adapter", "TFPyEnvironment", "wrapper", "wrappers of ALF"],
)
def test_a_driver_takes_it_back(wrap):
    env, driver_class = FakeEnvironment(2), SyncOffPolicyDriver
    assert_equal_nests(collect(driver_class, [wrap(env)]), collect(driver_class, [FakeEnvironment(2)]))
    assert env.num_closes == 1


def test_batched_environments_of_tf_agents():
    driver_class = AsyncOffPolicyDriver
    specs = (
        array_spec.BoundedArraySpec((3,), np.float32, 0, 1),
        array_spec.BoundedArraySpec((), np.int64, 0, 1),
    )
    seeds = itertools.count()
    make = lambda: random_py_environment.RandomPyEnvironment(  # noqa: E731
        *specs, episode_end_probability=0.4, seed=next(seeds)
    )
    experience = collect(driver_class, [BatchedPyEnvironment([make(), make()])])
    step_type = experience.step_type[0]
    assert np.all((step_type[1:] == FIRST) == (step_type[:-1] == LAST)) and np.any(step_type == LAST)
    learner = RecordingLearner(FrozenPolicy(TFPyEnvironment(make())))
    envs = [TFPyEnvironment(make())]  # of one environment
    driver = build_driver(driver_class, envs, learner, unroll_length=5)
    driver.stop()


def test_environments_of_both_kinds_have_the_same_specs():
    envs = [CountingEnvironment(2), TFAgentsEnvironment(CountingEnvironment(2, env_index=1))]
    specs = EnvSpecs(envs)
    assert specs.num_groups == 2 and specs.action.maximum == 1


class CountingAgent:
    """Stands in for an `Agent`."""

    def __init__(self, env):
        self.observation_spec, self.action_spec = map(
            to_tensor_spec, (env.observation_spec(), env.action_spec())
        )

    def act(self, step_type, reward, discount, observation, state, deterministic):
        return np.zeros(len(reward), np.int64), state


def test_an_agent_is_evaluated_in_it():
    agent = CountingAgent(CountingEnvironment(2))
    plain = evaluate(agent, CountingEnvironment(2), 4)
    wrapped = evaluate(agent, TFAgentsEnvironment(CountingEnvironment(2)), 4)
    np.testing.assert_array_equal(plain.returns, wrapped.returns)


def test_wrappers_of_alf_take_environments_of_tf_agents():
    inner = TFAgentsEnvironment(CountingEnvironment(2))
    env = BehaviorEnvironment(inner, lambda time_step, state: (np.ones(2, np.int64), state))
    env.reset()
    assert env.step(np.zeros(2, np.int64)).reward.tolist() == [1, 1]
    assert env.taken_action().tolist() == [1, 1]
    mapped = MappedEnvironment(inner, "a", ("a", "b"))
    assert mapped.reset().observation["owner"].tolist() == [0, 0]
    assert mapped.batch_size == 2 and mapped.reward_spec() == ArraySpec((), np.float32)


class OfTFAgents(BatchedEnvironment):
    """A user's environment with specs and time steps of TF-Agents."""

    def __init__(self, batch_size=2, seed=0):
        specs = array_spec.ArraySpec((1,), np.float32, "x"), array_spec.BoundedArraySpec((), np.int64, 0, 1)
        super().__init__(batch_size, *specs)
        self._rng = np.random.default_rng(seed)

    def _make(self, step_type):
        observation = self._rng.random((self._batch_size, 1), np.float32)
        zeros = np.zeros(self._batch_size, np.float32)
        return ts.TimeStep(np.full(self._batch_size, step_type, np.int32), zeros, zeros + 1, observation)

    def _reset(self):
        self._count = 0
        return self._make(FIRST)

    def _step(self, action):
        self._count = (self._count + 1) % 4
        return self._make((0, 1, 1, 2)[self._count])


class TestOfTFAgents(EnvironmentContract):
    num_steps = 20

    def make_env(self, seed):
        return OfTFAgents(seed=seed)


def test_specs_and_time_steps_of_tf_agents_are_taken():
    for env in (OfTFAgents(), TFAgentsEnvironment(OfTFAgents())):
        learner = RecordingLearner(FrozenPolicy(OfTFAgents()))
        driver = build_driver(SyncOffPolicyDriver, [env], learner, unroll_length=5)
        driver.start()
        collect_and_observe(driver)
        driver.stop()
        assert learner.observed[0].observation.shape == (1, 6, 2, 1)
