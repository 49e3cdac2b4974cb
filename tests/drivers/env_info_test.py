# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The environment's info arrives at the right episode: in metrics, observers and experience."""

import collections
import functools
import math
import os
import random
import signal
import time

import gymnasium
import numpy as np
import pytest

from alf.data_structures import FIRST, LAST
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.episode_statistics import EpisodeStatistics
from alf.environments import GymnasiumEnvironment, PythonEnvironment
from alf.errors import ConfigError, EnvError
from alf.testing.fakes import (
    FakeEnvironment,
    FrozenPolicy,
    RecordingLearner,
    RecordingObserver,
    in_a_row,
    make_counting_envs,
)
from tests.builders import build_driver, build_python_env, collect_and_observe
from tests.workers.envs import INFO_KEYS, InfoEnv

DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]
PID, NUMBER, EPISODE, STEP = range(4)  # of the observation of `InfoEnv`


class Watcher(RecordingObserver):
    """Needs what `needs` says."""

    def __init__(self, *needs):
        super().__init__()
        self.needs = needs


def make_env_fns(numbers):
    """Environments whose episodes have different lengths."""
    return [functools.partial(InfoEnv, number, 3 + number % 4) for number in numbers]


def make_batches(num_groups, batch_size, num_workers, **kwargs):
    numbers = np.arange(num_groups * batch_size).reshape(num_groups, batch_size).tolist()
    return [
        build_python_env(make_env_fns(row), 0, num_workers, info_keys=INFO_KEYS, **kwargs) for row in numbers
    ]


def make_vector_env(numbers):
    return GymnasiumEnvironment(gymnasium.vector.SyncVectorEnv(make_env_fns(numbers)), info_keys=INFO_KEYS)


def make_driver(driver_class, envs, observers=(), **kwargs):
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    statistics = functools.partial(EpisodeStatistics, window=10**6)
    kwargs = {"unroll_length": 5, "statistics": statistics, **kwargs}
    return build_driver(driver_class, envs, learner, observers=observers, **kwargs)


def run(driver, is_over, seconds=90.0):
    """Runs a driver until a condition holds, or an assertion fails."""
    deadline = time.monotonic() + seconds
    driver.start()
    try:
        while not is_over():
            assert time.monotonic() < deadline
            collect_and_observe(driver)
    finally:
        driver.stop()


def expected_figures(number, episode, length):
    """Length, then mean and last value of each key, of an episode of an `InfoEnv`."""
    code, is_success = 1000 * number + episode, (number + episode) % 2 == 0
    even = range(2, length + 1, 2)
    last_even = length if length % 2 == 0 else math.nan
    means = code, np.mean(range(1, length + 1)), np.mean(even), is_success
    return [length, *means, code, length, last_even, is_success]


def list_episodes(records):
    """(number, episode, length) of each episode that ended, from the observations, one step at a time."""
    lengths, episodes = {}, []
    for record in records:
        for step_type, observation in zip(record.step_type, record.observation):
            for env_id, kind, row in zip(record.env_id, step_type, observation):
                lengths[env_id] = 0 if kind == FIRST else lengths[env_id] + 1
                if kind == LAST:
                    assert lengths[env_id] == row[STEP]
                    episodes.append((int(row[NUMBER]), int(row[EPISODE]), int(row[STEP])))
    return episodes


def figures_of(driver):
    """What the driver's metrics hold of the figures of `expected_figures`, a list for each of them."""
    states = {metric.name: metric.get_state() for metric in driver.get_metrics()}
    names = [f"{kind}/{key}" for kind in ("info", "info_last") for key in INFO_KEYS]
    return [states[name] for name in ("AverageEpisodeLength", *names)]


def assert_figures_are_those_of_the_episodes(driver, observer):
    episodes = list_episodes(observer.records)
    expected = [expected_figures(*episode) for episode in episodes]
    for found, wanted in zip(figures_of(driver), zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(found, [x for x in wanted if not math.isnan(x)])
    return episodes


def test_the_info_of_40_environments_arrives_at_the_right_episode_through_worker_restarts():
    envs = make_batches(2, 20, num_workers=2, max_restarts=1000)
    observer = Watcher("observation")
    driver = make_driver(AsyncOffPolicyDriver, envs, [observer])
    rng, killed_at, restarts = random.Random(0), [], 2

    def is_over():
        driver.learner.observed.clear()
        # One at a time, each at another moment of its episodes, after the first ones.
        num_steps = min(len(observer.of_env(i)) for i in range(2))
        if driver.num_restarts == len(killed_at) < restarts and num_steps > 10 + 7 * len(killed_at):
            os.kill(rng.choice(rng.choice(envs)._batch.pids), signal.SIGKILL)
            killed_at.append(len(observer.records))
        return driver.num_restarts == restarts and len(observer.records) > killed_at[-1] + 40

    run(driver, is_over)
    episodes = assert_figures_are_those_of_the_episodes(driver, observer)
    assert {number for number, *_ in episodes} == set(range(40))
    # A worker that was killed begins with the first episode again.
    counts = collections.Counter(episodes)
    assert max(counts.values()) > 1
    assert max(episode for _, episode, _ in episodes) > 5


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_the_info_of_a_native_vector_environment_arrives_too(driver_class):
    envs = [make_vector_env(range(4)), make_vector_env(range(4, 8))]
    observer = Watcher("observation")
    driver = make_driver(driver_class, envs, [observer])
    run(driver, lambda: all(len(observer.of_env(i)) > 10 for i in range(2)))
    episodes = assert_figures_are_those_of_the_episodes(driver, observer)
    assert {number for number, *_ in episodes} == set(range(8))


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_records_hold_what_observers_need(driver_class):
    envs = make_batches(2, 3, num_workers=0)
    observers = [Watcher(), Watcher("action"), Watcher("observation")]
    driver = make_driver(driver_class, envs, observers)

    def is_over():
        unrolls = driver.learner.unrolls(2)
        return all(len(unrolls[i]) >= 3 <= len(observers[-1].of_env(i)) for i in range(2))

    run(driver, is_over)
    assert len({len(observer.records) for observer in observers}) == 1
    for index, unrolls in enumerate(driver.learner.unrolls(2)):
        for record, unroll in zip(observers[0].of_env(index), unrolls):
            np.testing.assert_array_equal(record.observation, unroll.observation[:-1], strict=True)
            np.testing.assert_array_equal(record.action, unroll.action[:-1], strict=True)
            observation = record.observation
            steps = np.where(record.step_type == FIRST, -1, observation[..., STEP]).astype(np.float32)
            np.testing.assert_array_equal(record.env_info["step"], steps, strict=True)
            assert set(record.env_info) == set(INFO_KEYS)


def test_records_are_small_if_nobody_needs_more():
    envs, observer = make_counting_envs(2), RecordingObserver()
    driver = make_driver(SyncOffPolicyDriver, envs, [observer])
    run(driver, lambda: len(observer.records) >= 3)
    for record in observer.records:
        assert all(field == () for field in record[4:])


@pytest.mark.parametrize("needs", ["observation", ("reward",), ("observation", "info"), 3])
def test_needs_are_checked(needs):
    observer = RecordingObserver()
    observer.needs = needs
    with pytest.raises(ConfigError, match="its `needs` is .*: it must be a tuple of"):
        make_driver(AsyncOffPolicyDriver, make_counting_envs(1), [observer])


def test_experience_holds_the_info():
    envs = make_batches(2, 3, num_workers=0)
    driver = make_driver(AsyncOffPolicyDriver, envs)
    run(driver, lambda: all(len(unrolls) >= 4 for unrolls in driver.learner.unrolls(2)))
    for unrolls in driver.learner.unrolls(2):
        for before, after in zip(unrolls, unrolls[1:]):
            for key in INFO_KEYS:
                np.testing.assert_array_equal(before.env_info[key][-1], after.env_info[key][0])
        rows = in_a_row(unrolls)
        first = rows.step_type == FIRST
        code = 1000 * rows.observation[..., NUMBER] + rows.observation[..., EPISODE]
        np.testing.assert_array_equal(rows.env_info["code"], np.where(first, -1, code))
        np.testing.assert_array_equal(np.isnan(rows.env_info["is_success"]), (rows.step_type == 1))


def test_environments_must_have_the_same_keys():
    envs = make_batches(1, 2, 0) + [PythonEnvironment(make_env_fns([2, 3]), 0, 0)]
    with pytest.raises(ConfigError, match=r"envs\[1\] has other info_keys than envs\[0\]"):
        make_driver(AsyncOffPolicyDriver, envs)


class OwnInfoEnvironment(FakeEnvironment):
    """Says what `info` is."""

    def __init__(self, batch_size, info, **kwargs):
        super().__init__(batch_size, **kwargs)
        self.info_keys, self._info = ("a",), info

    def get_info(self):
        return self._info


@pytest.mark.parametrize(
    "driver_class, info",
    [
        (AsyncOffPolicyDriver, {}),
        *((SyncOffPolicyDriver, {"a": x}) for x in (3.0, np.zeros(3), ["x", "y"])),
    ],
)
def test_an_environment_of_ones_own_must_return_what_it_promises(driver_class, info):
    driver = make_driver(driver_class, [OwnInfoEnvironment(2, info)])
    with pytest.raises(EnvError, match=r"envs\[0\] \(OwnInfoEnvironment\): get_info\(\) returned for 'a' an"):
        run(driver, lambda: False)


def test_an_environment_of_ones_own_may_return_any_numbers():
    driver = make_driver(SyncOffPolicyDriver, [OwnInfoEnvironment(2, {"a": [True, False], "b": None})])
    average = driver.get_metrics()[-3]
    assert average.name == "info/a"
    run(driver, lambda: len(average.get_state()) > 5)
    assert set(average.get_state()) == {0.0, 1.0}


@pytest.mark.parametrize("driver_class, num_workers", [(AsyncOffPolicyDriver, 1), (SyncOffPolicyDriver, 0)])
def test_a_value_that_is_no_number_ends_the_run_with_its_name(driver_class, num_workers):
    env = PythonEnvironment(make_env_fns(range(2)), 0, num_workers, info_keys=("name",))
    driver = make_driver(driver_class, [env])
    with pytest.raises(
        EnvError, match="^environment 0, step 1: the info's 'name' is 'ignored': it must be a"
    ):
        run(driver, lambda: False)
