# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TensorFlow metrics and replay buffers of TF-Agents get from ALF what TF-Agents' own driver gives them."""

import json
import time

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.drivers.dynamic_step_driver import DynamicStepDriver
from tf_agents.metrics import tf_metrics
from tf_agents.policies.random_tf_policy import RandomTFPolicy
from tf_agents.replay_buffers.tf_uniform_replay_buffer import TFUniformReplayBuffer

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.testing.fakes import FrozenPolicy, RecordingLearner
from alf.testing.toy_environments import CountingEnvironment
from tests.adapters.graph_environments import CountingTFEnvironment
from tests.builders import build_driver, collect_and_observe

NAMES = ("AverageReturnMetric", "AverageEpisodeLengthMetric", "MaxReturnMetric")


def make_metrics(batch_size):
    averages = [getattr(tf_metrics, name)(batch_size=batch_size, buffer_size=50) for name in NAMES]
    return [*averages, tf_metrics.EnvironmentSteps(), tf_metrics.NumberOfEpisodes()]


def make_buffer(batch_size):
    env = CountingTFEnvironment(batch_size)
    policy = RandomTFPolicy(env.time_step_spec(), env.action_spec())
    spec = policy.trajectory_spec
    return TFUniformReplayBuffer(spec, batch_size, max_length=200)


def collect(envs, driver_class=SyncOffPolicyDriver, count=8, is_done=lambda: True, **kwargs):
    """Collects unrolls of five steps; the transition from the last row is known when the next row is."""
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(envs[0].batch_size)))
    driver = build_driver(driver_class, envs, learner, unroll_length=5, **kwargs)
    driver.start()
    try:
        for _ in range(count):
            collect_and_observe(driver)
        deadline = time.monotonic() + 60
        while not is_done() and time.monotonic() < deadline:  # the log thread may be behind
            time.sleep(0.01)
    finally:
        driver.stop()
    return driver, learner


def collect_by_tf_agents(observers, num_steps=39):
    """39 steps with TF-Agents' driver; each call is one step, or the beginning of an episode."""
    env = CountingTFEnvironment(3)
    policy = RandomTFPolicy(env.time_step_spec(), env.action_spec())
    time_step, driver = env.reset(), DynamicStepDriver(env, policy, observers, num_steps=1)
    for _ in range(num_steps):
        time_step, _ = driver.run(time_step, maximum_iterations=1)


def test_metrics_have_the_numbers_of_tf_agents_driver():
    ours, theirs = make_metrics(3), make_metrics(3)
    driver, _ = collect([CountingTFEnvironment(3)], metrics=ours)
    collect_by_tf_agents(theirs)
    results = [metric.result().numpy() for metric in theirs]
    assert [metric.result().numpy() for metric in ours] == results
    assert [metric.result() for metric in driver.get_metrics()[-5:]] == results
    assert results[0] > 0 and results[4] > 10


def test_a_replay_buffer_has_the_content_of_tf_agents_driver():
    ours, theirs = make_buffer(3), make_buffer(3)
    _, learner = collect([CountingTFEnvironment(3)], observers=[ours.add_batch])
    collect_by_tf_agents([theirs.add_batch])
    a, b = ours.gather_all(), theirs.gather_all()
    assert a.step_type.shape == (3, 39)
    action = np.concatenate([e.action[0, :-1] for e in learner.observed])[:39]
    np.testing.assert_array_equal(a.action, action.T)
    tf.nest.map_structure(np.testing.assert_array_equal, a._replace(action=()), b._replace(action=()))


@pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_several_environments_fill_the_rows_of_one_buffer(driver_class):
    buffer = make_buffer(6)
    envs = [CountingTFEnvironment(2), *(CountingEnvironment(2, 4, env_index=i) for i in (1, 2))]
    settings = {"mode": "lockstep"} if driver_class is AsyncOffPolicyDriver else {}
    is_done = lambda: int(buffer.num_frames()) >= 6 * 39  # noqa: E731
    collect(envs, driver_class, observers=[buffer.add_batch], is_done=is_done, **settings)
    found = buffer.gather_all()
    assert found.step_type.shape[1] == 39
    np.testing.assert_array_equal(found.observation[:, :, 0], np.arange(6)[:, np.newaxis] + 0 * found.reward)
    steps = np.arange(found.step_type.shape[1])
    np.testing.assert_array_equal(found.observation[:, :, 1], steps + 0 * found.reward)
    np.testing.assert_array_equal(found.next_step_type[:, :-1], found.step_type[:, 1:])


def test_the_state_of_metrics_survives_a_checkpoint():
    driver, _ = collect([CountingTFEnvironment(3)], metrics=make_metrics(3))
    state = json.loads(json.dumps(driver.get_state()))
    other, _ = collect([CountingTFEnvironment(3)], count=0, metrics=make_metrics(3))
    assert all(np.isnan(metric.result()) for metric in other.get_metrics()[-5:-2])
    other.set_state(state)
    assert [m.result() for m in other.get_metrics()[-5:]] == [m.result() for m in driver.get_metrics()[-5:]]


def test_a_run_that_goes_on_begins_new_episodes():
    make = lambda: [tf_metrics.AverageEpisodeLengthMetric(batch_size=1, buffer_size=50)]  # noqa: E731
    driver, _ = collect([CountingTFEnvironment(1, 6)], metrics=make(), count=4)
    learner = RecordingLearner(FrozenPolicy(CountingEnvironment(1)))
    other = build_driver(
        SyncOffPolicyDriver, [CountingTFEnvironment(1, 6)], learner, unroll_length=5, metrics=make()
    )
    other.set_state(driver.get_state())
    other.start()
    collect_and_observe(other)
    collect_and_observe(other)
    other.stop()
    assert other.get_metrics()[-1].result() == 6


def test_another_batch_size_is_refused():
    with pytest.raises(ConfigError, match="batch_size of AverageReturn is 1: it must be 3"):
        collect([CountingTFEnvironment(3)], metrics=[tf_metrics.AverageReturnMetric()])
