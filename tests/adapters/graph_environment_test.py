# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments of TF-Agents in TensorFlow step in the graphs of drivers, and anywhere else with arrays."""

import contextlib
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.environments import tf_wrappers
from tf_agents.environments.random_tf_environment import RandomTFEnvironment
from tf_agents.environments.tf_py_environment import TFPyEnvironment
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from alf.adapters import TFAgentsEnvironment, as_environment
from alf.adapters.graph_environment import GraphEnvironment
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.stage_clock import STEP
from alf.environments import EnvironmentWrapper
from alf.errors import ConfigError, EnvError
from alf.evaluation.episodes import evaluate
from alf.testing import EnvironmentContract
from alf.testing.fakes import FrozenPolicy, RecordingLearner, assert_equal_nests, make_counting_envs
from alf.testing.toy_environments import CountingEnvironment
from tests.adapters.graph_environments import CountingTFEnvironment
from tests.adapters.tf_agents_environment_test import CountingAgent
from tests.builders import build_driver, collect_and_observe

DRIVERS = [SyncOffPolicyDriver, AsyncOffPolicyDriver]


def collect(driver_class, envs, count=3, **kwargs):
    """Collects batches of all environments; returns the learner and the driver."""
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(envs[0].batch_size), counts_steps=True))
    if driver_class is AsyncOffPolicyDriver:
        kwargs = {"mode": "lockstep", **kwargs}
    driver = build_driver(driver_class, envs, learner, unroll_length=5, **kwargs)
    try:
        driver.start()
        for _ in range(count):
            collect_and_observe(driver)
    finally:
        driver.stop()
    return learner, driver


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("kinds", ["g", "gg", "gpg"], ids=["one", "two", "with one in Python"])
def test_a_driver_makes_the_same_experience_as_of_an_environment_in_python(driver_class, kinds):
    classes = {"g": CountingTFEnvironment, "p": CountingEnvironment}
    envs = [classes[kind](3, 4, env_index=i) for i, kind in enumerate(kinds)]
    learner, _ = collect(driver_class, envs)
    expected, _ = collect(driver_class, make_counting_envs(len(kinds), 3))
    assert_equal_nests([*learner.observed], [*expected.observed])


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_python_runs_only_while_a_graph_is_traced(driver_class):
    envs = [CountingTFEnvironment(3, 4, env_index=i) for i in range(2)]
    calls = []
    for count in (1, 20):
        learner, driver = collect(driver_class, envs, count)
        assert len(learner.observed) == count
        calls.append([env.num_calls for env in envs])
        assert all(clock.read()[STEP].times > 5 * count for clock in driver.clocks.environments)
    once, twice = np.array(calls)
    assert (once == twice - once).all() and (once <= 4).all(), "no matter how many steps"


def test_time_in_the_graph_counts_as_steps():
    _, driver = collect(SyncOffPolicyDriver, [CountingTFEnvironment()], 4)
    (clock,) = driver.clocks.environments
    spent = clock.read()[STEP]
    assert spent.times == 1 + 4 * 5 and 0 < spent.seconds < 10


def test_one_sub_environment_waits_for_the_next_unroll():
    learner, _ = collect(SyncOffPolicyDriver, [CountingTFEnvironment(1, 3)], sticky=True)
    expected, _ = collect(SyncOffPolicyDriver, [CountingEnvironment(1, 3)], sticky=True)
    assert_equal_nests([*learner.observed], [*expected.observed])
    with pytest.raises(ConfigError, match=r"sticky is True: envs\[0\] \(CountingTFEnvironment\) has no hold"):
        collect(SyncOffPolicyDriver, [CountingTFEnvironment(2)], sticky=True)


WRONG = [  # a function that makes the environment, the error, and a part of it
    (lambda: RaisingTFEnvironment("bug"), KeyError, rf"(?s){__file__}.*raise KeyError.*my own bug"),
    (lambda: Misfit(), ConfigError, r"^Misfit returned a time step that differs .* \(2, 2\) instead"),
]


@pytest.mark.parametrize("make, error, message", WRONG)
def test_what_an_environment_does_wrong_names_it(make, error, message):
    with pytest.raises(error, match=message):
        collect(SyncOffPolicyDriver, [make()])


def test_each_needs_a_thread_of_its_own():
    envs = [CountingTFEnvironment(2, 4, i) for i in range(2)]
    with pytest.raises(ConfigError, match="num_env_threads is 1: leave it out, because a TFEnvironment"):
        collect(AsyncOffPolicyDriver, envs, num_env_threads=1)


class LevelTFEnvironment(CountingTFEnvironment):
    """Its rewards are a number that a callback may change between two unrolls."""

    def __init__(self):
        super().__init__(2, 4)
        self.level, self.name = tf.Variable(1.0), "level"

    def add(self, number):
        return float(self.level.assign_add(number))

    def _current_time_step(self):
        step = super()._current_time_step()
        return step._replace(reward=tf.zeros_like(step.reward) + self.level)


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_calls_of_a_driver_reach_the_environment_in_the_graph(driver_class):
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(2)))
    settings = {"mode": "lockstep"} if driver_class is AsyncOffPolicyDriver else {}
    driver = build_driver(driver_class, [LevelTFEnvironment()], learner, unroll_length=5, **settings)
    try:
        driver.start()
        collect_and_observe(driver)
        assert driver.call_envs("add", 1.5) == [2.5]
        collect_and_observe(driver)
        driver.set_attr("level", 7)
        collect_and_observe(driver)
        with pytest.raises(ConfigError, match="LevelTFEnvironment.name must be a tf.Variable"):
            driver.set_attr("name", "other")
    finally:
        driver.stop()
    levels = [set(np.unique(x.reward[:, 1:]).tolist()) for x in learner.observed]
    assert levels == [{1.0}, {2.5}, {7.0}]


class BrokenTFEnvironment(CountingTFEnvironment):
    """Puts `value` into `field` of each time step from step 7 on."""

    def __init__(self, field, value):
        super().__init__()
        self._field, self._value = field, value

    def _current_time_step(self):
        step = super()._current_time_step()
        x = getattr(step, self._field)
        is_late = self._before[0] >= 7
        return step._replace(**{self._field: tf.where(is_late, tf.cast(self._value, x.dtype), x)})


@pytest.mark.parametrize(
    "field, value, text",
    [
        ("reward", np.nan, "nan in reward of"),
        ("observation", np.inf, r"inf in observation\[0\] of"),
        ("discount", 1.5, "1.5 in discount of"),
        ("step_type", 7, "7 in step_type of"),
    ],
)
def test_a_wrong_number_ends_the_run_before_anybody_learns_from_it(field, value, text):
    env = BrokenTFEnvironment(field, value)
    text = rf"^envs\[0\] \(BrokenTFEnvironment\) returned {text} sub-environment 0, in row 2 of an unroll"
    with pytest.raises(EnvError, match=text):
        collect(AsyncOffPolicyDriver, [env], 100)


class RaisingTFEnvironment(CountingTFEnvironment):
    """An operation of the third step fails."""

    def __init__(self, kind):
        super().__init__()
        self._kind, self._rest = kind, iter(tf.data.Dataset.range(2))

    def _step(self, action):
        if self._kind == "assertion":
            tf.debugging.assert_less(self._before, tf.constant(2, tf.int64), "my own check")
        elif self._kind == "end":
            next(self._rest)
        else:
            raise KeyError("my own bug")
        return super()._step(action)


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize(
    "kind, text",
    [("assertion", "InvalidArgumentError: .*my own check"), ("end", "OutOfRangeError: .*End of sequence")],
)
def test_an_operation_that_fails_is_an_error_of_its_environment(driver_class, kind, text):
    envs = [CountingTFEnvironment(), RaisingTFEnvironment(kind)]
    with pytest.raises(EnvError, match=rf"(?s)^envs\[1\] \(RaisingTFEnvironment\) raised {text}"):
        collect(driver_class, envs)


class Misfit(CountingTFEnvironment):
    """Returns observations of another shape than its spec says."""

    def _current_time_step(self):
        step = super()._current_time_step()
        return step._replace(observation=step.observation[:, :2])


def test_an_environment_of_tf_agents_itself():
    spec = ts.time_step_spec(tensor_spec.BoundedTensorSpec((3,), tf.float32, 0, 1))
    env = RandomTFEnvironment(spec, tensor_spec.BoundedTensorSpec((), tf.int64, 0, 1), batch_size=2)
    learner, _ = collect(AsyncOffPolicyDriver, [env], 10)
    step_type = np.concatenate([e.step_type[0, :-1] for e in learner.observed])
    np.testing.assert_array_equal(step_type[1:] == 0, step_type[:-1] == 2)
    assert (step_type == 2).any() and len({e.observation[0, 1, 0, 0] for e in learner.observed}) == 10


class Doubled(tf_wrappers.TFEnvironmentBaseWrapper):
    """Doubles the rewards."""

    def _step(self, action):
        step = self._env.step(action)
        return step._replace(reward=2 * step.reward)


def test_wrappers_of_tf_agents_stay():
    inner = CountingEnvironment(2)
    assert as_environment(TFPyEnvironment(TFAgentsEnvironment(inner)))._env is inner
    in_python = TFPyEnvironment(TFAgentsEnvironment(CountingEnvironment(2, 4)))
    expected, _ = collect(SyncOffPolicyDriver, [CountingEnvironment(2, 4)])
    for env in (CountingTFEnvironment(2), in_python):
        learner, _ = collect(SyncOffPolicyDriver, [Doubled(env)])
        for ours, theirs in zip(learner.observed, expected.observed, strict=True):
            np.testing.assert_array_equal(ours.observation, theirs.observation)
            np.testing.assert_array_equal(ours.reward, 2 * theirs.reward)


class SlowTFEnvironment(CountingTFEnvironment):
    """Each step takes 0.2 s; `events`, which several may share, has begins, ends and the close."""

    def __init__(self, events):
        super().__init__()
        self.events, self.has_begun = events, threading.Event()

    def _step(self, action):
        with tf.control_dependencies([tf.numpy_function(self._wait, [], tf.bool)]):
            return super()._step(tf.identity(action))

    def _wait(self):
        self.events.append("begins")
        self.has_begun.set()
        time.sleep(0.2)
        self.events.append("ends")
        return True

    def close(self):
        self.events.append("closed")


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_it_closes_after_its_last_step(driver_class):
    env = SlowTFEnvironment([])
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(2)))
    driver = build_driver(driver_class, [env], learner, unroll_length=5)
    driver.start()

    def collect():
        with contextlib.suppress(RuntimeError):  # the stop ends it
            collect_and_observe(driver)

    collecting = threading.Thread(target=collect)
    collecting.start()
    assert env.has_begun.wait(60)
    driver.stop()
    collecting.join()
    time.sleep(0.3)
    assert env.events[-2:] == ["ends", "closed"] and env.events.count("closed") == 1


class ShapelessTFEnvironment(CountingTFEnvironment):
    """Loses the shapes of its observations and rewards, as code with `tf.numpy_function` does."""

    def _current_time_step(self):
        step = super()._current_time_step()
        lose = lambda x: tf.numpy_function(lambda y: y, [x], x.dtype)  # noqa: E731
        return step._replace(observation=lose(step.observation), reward=lose(step.reward))


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_time_steps_may_lack_static_shapes(driver_class):
    ours, theirs = (
        collect(driver_class, [env])[0] for env in (ShapelessTFEnvironment(), CountingTFEnvironment())
    )
    assert_equal_nests([*ours.observed], [*theirs.observed])


class Negated(EnvironmentWrapper):
    """Negates the rewards, in Python."""

    def _step(self, action):
        step = self._env.step(action)
        return step._replace(reward=-step.reward)


def test_wrappers_of_alf_around_it_step_in_python():
    ours, theirs = (
        collect(SyncOffPolicyDriver, [Negated(as_environment(env))])[0]
        for env in (CountingTFEnvironment(2), CountingEnvironment(2, 4))
    )
    assert_equal_nests([*ours.observed], [*theirs.observed])
    assert min(e.reward.min() for e in ours.observed) < 0


def test_it_may_have_been_stepped_in_python_before():
    env = CountingTFEnvironment(2)
    both = GraphEnvironment(env), CountingEnvironment(2, 4)
    for each in both:
        each.reset()
        each.step(np.zeros(2, np.int64))
    ours, theirs = (collect(SyncOffPolicyDriver, [each])[0] for each in both)
    assert_equal_nests([*ours.observed], [*theirs.observed])


class TestWithArrays(EnvironmentContract):
    num_steps = 30
    random = False

    def make_env(self, seed):
        return GraphEnvironment(CountingTFEnvironment(3))


def test_an_agent_is_evaluated_in_it():
    agent = CountingAgent(CountingEnvironment(2))
    ours, theirs = (evaluate(agent, env, 4) for env in (CountingTFEnvironment(2), CountingEnvironment(2, 4)))
    np.testing.assert_array_equal(ours.returns, theirs.returns)
    np.testing.assert_array_equal(ours.lengths, theirs.lengths)
