# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How a driver starts: with the weights of now, after random steps, which nobody counts, and one by one."""

import functools
import threading
import time

import gin
import gymnasium
import numpy as np
import pytest

from alf.data_structures import FIRST, LAST
from alf.drivers import AsyncOffPolicyDriver
from alf.drivers.episode_statistics import EpisodeStatistics
from alf.environments import GymnasiumEnvironment, PythonEnvironment
from alf.errors import ConfigError
from alf.testing.fakes import (
    FakeEnvironment,
    FrozenPolicy,
    RecordingLearner,
    RecordingObserver,
    in_a_row,
    make_counting_envs,
)
from tests.builders import build_driver, collect_and_observe
from tests.workers.envs import CountEnv

STEP, LENGTH = 3, 10  # the column of the observation, and the steps of an episode


def make_single_envs(seed):
    return PythonEnvironment([functools.partial(CountEnv, LENGTH)] * 3, seed, 0, max_random_steps=9)


def make_vector_env(seed):
    env = gymnasium.vector.SyncVectorEnv([functools.partial(CountEnv, LENGTH)] * 3)
    return GymnasiumEnvironment(env, seed, max_random_steps=9)


@pytest.mark.parametrize("make", [make_single_envs, make_vector_env])
def test_random_steps_are_no_part_of_experience_and_statistics(make):
    envs = [make(seed) for seed in (2, 1003)]
    learner, observer = RecordingLearner(FrozenPolicy(envs[0])), RecordingObserver()
    driver = build_driver(
        AsyncOffPolicyDriver,
        envs,
        learner,
        unroll_length=4,
        learn_queue_cap=2,
        observers=[observer],
        statistics=functools.partial(EpisodeStatistics, window=10**6),
    )
    driver.start()
    try:
        total = 0
        while min(map(len, learner.unrolls(2))) < 8:
            total += collect_and_observe(driver)
        assert observer.wait_for(lambda: all(len(observer.of_env(i)) >= 8 for i in range(2)))
    finally:
        driver.stop()
    unrolls = learner.unrolls(2)
    num_transitions, starts = 0, []
    for rows in map(in_a_row, unrolls):
        is_first, step = rows.step_type == FIRST, rows.observation[..., STEP]
        num_transitions += np.count_nonzero(~is_first[1:])
        assert is_first[0].all() and (rows.reward[is_first] == 0).all()
        np.testing.assert_array_equal(rows.reward[~is_first], 0.5 * step[~is_first])
        np.testing.assert_array_equal((step[1:] - step[:-1])[~is_first[1:]], 1)
        assert (step[1:][is_first[1:]] == 0).all()  # later episodes begin at their beginning
        starts += step[0].tolist()
    assert total == num_transitions and len(set(starts)) > 1
    _check_statistics(driver, observer, starts)


def _check_statistics(driver, observer, starts):
    """The metrics are those of the records, whose first episodes begin at `starts`."""
    lengths, returns = [], []
    for i in range(2):
        step_type = np.concatenate([record.step_type for record in observer.of_env(i)])
        for column, start in zip(step_type.T, starts[3 * i : 3 * i + 3], strict=True):
            ends = np.count_nonzero(column == LAST)
            first = [LENGTH - start] if ends and start < LENGTH else []
            later = [LENGTH] * (ends - len(first))
            lengths += [*first, *later]
            returns += [0.5 * sum(range(LENGTH - int(n) + 1, LENGTH + 1)) for n in (*first, *later)]
    metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    assert metrics["NumberOfEpisodes"] == len(lengths) > 12
    assert metrics["AverageEpisodeLength"] == pytest.approx(np.mean(lengths))
    assert metrics["AverageReturn"] == pytest.approx(np.mean(returns))
    steps = [record.step_type for record in observer.records]
    assert metrics["EnvironmentSteps"] == sum(np.count_nonzero(s != FIRST) for s in steps)


def test_actors_begin_with_the_weights_that_the_learner_has_at_the_start():
    """As of a checkpoint, which comes after the driver was made."""
    envs = make_counting_envs(1)
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    # No copy is due before update 100.
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=2, parameter_update_period=100)
    learner.policy.progress.updates.assign(7)
    driver.start()
    try:
        collect_and_observe(driver)
    finally:
        driver.stop()
    (experience,) = learner.observed
    assert (experience.info["version"] == 7).all() and (experience.policy_version == 7).all()


class TimedEnvironment(FakeEnvironment):
    """Notes when it is reset for the first time, and sets `started` then."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.started, self.started_at = threading.Event(), None

    def _reset(self):
        if self.started_at is None:
            self.started_at = time.monotonic()
            self.started.set()
        return super()._reset()


def test_environments_start_one_after_another(monkeypatch):
    gin.parse_config("DriverSettings.start_spread = 0.9")
    envs = make_counting_envs(3, cls=TimedEnvironment)
    driver = build_driver(
        AsyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=2
    )
    start_threads, starts = driver._threads.start, []
    monkeypatch.setattr(
        driver._threads, "start", lambda *args: starts.append(time.monotonic()) or start_threads(*args)
    )
    driver.start()
    try:
        # Nothing is collected meanwhile: those that have started soon stand still.
        assert all(env.started.wait(60) for env in envs)
    finally:
        driver.stop()
    # A busy machine may delay an environment, but none is early.
    assert all(env.started_at - starts[0] >= i * 0.3 for i, env in enumerate(envs))


def test_a_stop_does_not_wait_for_an_environment_that_starts_late():
    envs = make_counting_envs(2, cls=TimedEnvironment)
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    # The second one would start after 125 s. A stop that waits for its thread gives up after 60 s.
    settings = {"start_spread": 250.0, "stop_timeout": 60.0}
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=2, **settings)
    driver.start()
    collect_and_observe(driver)
    start = time.monotonic()
    driver.stop()
    assert time.monotonic() - start < 30.0  # it needs milliseconds of a core
    assert not envs[1].started.is_set()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"start_spread": -1}, "start_spread is -1: it must be a number at least 0"),
        (
            {"start_spread": 20.0, "stall_timeout": 10.0},
            "start_spread is 20: .* than stall_timeout = 10",
        ),
    ],
)
def test_settings_are_checked(settings, message):
    envs = make_counting_envs(2)
    with pytest.raises(ConfigError, match=message):
        build_driver(AsyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), **settings)
