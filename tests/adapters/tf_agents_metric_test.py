# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Metrics of TF-Agents show what ALF's own show, and get every transition once."""

import json

import gin
import numpy as np
import pytest
from tf_agents.metrics import py_metric, py_metrics

from alf.adapters import TFAgentsMetric
from alf.data_structures import FIRST, LAST, MID, LogRecord
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.metrics import EnvironmentSteps
from alf.errors import ConfigError
from alf.testing.fakes import FrozenPolicy, RecordingLearner, RecordingObserver, make_counting_envs
from tests.builders import build_driver, collect_and_observe

SAME = ["AverageReturn", "AverageEpisodeLength", "NumberOfEpisodes", "EnvironmentSteps"]


class Recorder(py_metric.PyStepMetric):
    """Keeps the trajectories."""

    def __init__(self, needs=()):
        super().__init__("Recorder")
        self.needs = needs
        self.trajectories = []

    def call(self, trajectory):
        self.trajectories.append(trajectory)

    def reset(self):
        self.trajectories = []

    def result(self):
        return np.float32(len(self.trajectories))


def make_metrics():
    return [
        py_metrics.AverageReturnMetric(buffer_size=100),
        py_metrics.AverageEpisodeLengthMetric(buffer_size=100),
        py_metrics.NumberOfEpisodes(),
        py_metrics.EnvironmentSteps(),
    ]


def run(driver_class, metrics, num_groups=3, **kwargs):
    """Collects from environments with episodes of 3, 4 and 5 steps; returns the driver and its records."""
    envs = make_counting_envs(num_groups, 3, 3)
    observer = RecordingObserver()
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    driver = build_driver(
        driver_class, envs, learner, unroll_length=4, metrics=metrics, observers=[observer], **kwargs
    )
    driver.start()
    try:
        for _ in range(8):
            collect_and_observe(driver)
        assert observer.wait_for(lambda: len(observer.records) >= 8)
    finally:
        driver.stop()
    return driver, observer.records


@pytest.fixture(scope="module")
def synchronous():
    """A driver that has collected with all of these metrics, and its records."""
    return run(SyncOffPolicyDriver, [*make_metrics(), Recorder()])


@pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_they_show_what_our_own_metrics_show(driver_class, synchronous):
    driver, _ = synchronous if driver_class is SyncOffPolicyDriver else run(driver_class, make_metrics())
    results = {metric.name: metric.result() for metric in driver.get_metrics()}
    for name in SAME:
        assert results[f"tf_agents/{name}"] == pytest.approx(results[name], rel=1e-6), name
    assert results["AverageReturn"] > 0 and results["NumberOfEpisodes"] >= 10


@pytest.mark.parametrize("needs", [(), ("observation", "action")])
def test_a_metric_gets_every_transition_once(needs, synchronous):
    driver, records = run(SyncOffPolicyDriver, [Recorder(needs)]) if needs else synchronous
    trajectories = driver.get_metrics()[-1]._metric.trajectories
    assert driver.get_metrics()[-1].result() == len(trajectories) == 3 * (8 * 4 - 1)
    for index in range(3):
        mine = [r for r in records if r.env_id[0] == 3 * index]
        columns = slice(3 * index, 3 * index + 3)
        step_type, reward, discount = (
            np.concatenate([getattr(r, name) for r in mine]) for name in ("step_type", "reward", "discount")
        )
        # The rows of others are boundaries: an environment never is at one in all of its three rows.
        theirs = [t for t in trajectories if np.any(t.step_type[columns] != LAST)]
        assert len(theirs) == len(step_type) - 1
        for t, trajectory in enumerate(theirs):
            np.testing.assert_array_equal(trajectory.step_type[columns], step_type[t])
            np.testing.assert_array_equal(trajectory.next_step_type[columns], step_type[t + 1])
            np.testing.assert_array_equal(trajectory.reward[columns], reward[t + 1])
            np.testing.assert_array_equal(trajectory.discount[columns], discount[t + 1])
            others = np.delete(np.arange(9), np.r_[columns])
            assert np.all(trajectory.is_boundary()[others]) and not np.any(trajectory.reward[others])
            assert trajectory.step_type.dtype == np.int32 and trajectory.reward.dtype == np.float32
            if needs:
                observation = np.concatenate([r.observation for r in mine])
                np.testing.assert_array_equal(trajectory.observation[columns], observation[t])
                np.testing.assert_array_equal(
                    trajectory.action[columns], np.concatenate([r.action for r in mine])[t]
                )
            else:
                assert trajectory.observation == trajectory.action == ()


def test_an_episode_that_a_restart_breaks_off_does_not_count():
    metric, recorder = TFAgentsMetric(py_metrics.AverageReturnMetric(), 1), Recorder()
    step_type = np.array([[FIRST], [MID], [FIRST], [MID], [LAST]], np.int32)
    reward = np.array([[0], [5], [9], [1], [2]], np.float32)
    assert np.isnan(metric.result())
    record = LogRecord(step_type, reward, np.ones((5, 1), np.float32), np.zeros(1, np.int32))
    metric(record)
    TFAgentsMetric(recorder, 1)(record)
    assert metric.result() == 3.0
    assert [float(t.reward[0]) for t in recorder.trajectories] == [5, 0, 1, 2]
    assert [bool(t.is_boundary()[0]) for t in recorder.trajectories] == [False, True, False, False]


def test_their_state_survives_a_checkpoint(synchronous):
    first, _ = synchronous
    state = json.loads(json.dumps(first.get_state()))
    envs = make_counting_envs(3, 3, 3)
    metrics = [*make_metrics(), Recorder()]
    other = build_driver(SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), metrics=metrics)
    other.set_state(state)
    other.stop()
    for ours, theirs in zip(first.get_metrics()[:-1], other.get_metrics()[:-1], strict=True):
        np.testing.assert_equal(theirs.result(), ours.result())
    assert other.get_state() == state


def test_the_order_of_the_values_survives_too():
    """A full buffer drops the oldest value first."""
    metrics = [py_metrics.AverageReturnMetric(buffer_size=2) for _ in range(2)]
    metrics[0].add_to_buffer([1.0, 2.0, 3.0])
    TFAgentsMetric(metrics[1], 1).set_state(TFAgentsMetric(metrics[0], 1).get_state())
    for metric in metrics:
        metric.add_to_buffer([5.0])
        assert metric.result() == 4.0


def test_gin_can_name_them():
    gin.parse_config("""
        Monitoring.metrics = [@py_metrics.AverageReturnMetric()]
        py_metrics.AverageReturnMetric.name = "MyReturn"
    """)
    try:
        envs = make_counting_envs(1)
        driver = build_driver(SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])))
    finally:
        gin.clear_config()
    driver.stop()
    assert driver.get_metrics()[-1].name == "tf_agents/MyReturn"


@pytest.mark.parametrize("metric", [5, "AverageReturn", py_metrics.AverageReturnMetric, EnvironmentSteps])
def test_what_is_no_metric(metric):
    envs = make_counting_envs(1)
    with pytest.raises(ConfigError, match="metrics: .* is neither an object of alf.drivers.metrics.Metric"):
        build_driver(SyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), metrics=[metric])
