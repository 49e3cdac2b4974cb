# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""sticky: a sub-environment whose episode has ended waits for the next unroll."""

import contextlib
import functools

import numpy as np
import pytest
from tf_agents.metrics import py_metrics

from alf.data_structures import FIRST, LAST
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import PythonEnvironment, load_pettingzoo
from alf.errors import ConfigError
from alf.games.mapping import MappedEnvironment
from alf.testing.fakes import (
    FrozenPolicy,
    RecordingLearner,
    RecordingObserver,
    in_a_row,
    make_counting_envs,
)
from tests.builders import build_driver, collect_and_observe
from tests.workers.envs import CallCountEnv

DRIVERS = [SyncOffPolicyDriver, AsyncOffPolicyDriver]
STEP, CALLS, LENGTH = range(3)  # of the observation
UNROLLS = 9


def make_env(lengths, num_workers=0):
    env_fns = [functools.partial(CallCountEnv, n) for n in lengths]
    return PythonEnvironment(env_fns, seed=0, num_workers=num_workers, info_keys=("calls",))


class InfoLearner(RecordingLearner):
    uses_env_info = True


def collect(driver_class, envs, unroll_length, sticky=True, metrics=(), num_env_threads=None):
    """Returns the unrolls of each environment, the driver, and the steps that `collect` returned."""
    learner = InfoLearner(FrozenPolicy(envs[0], counts_steps=True))
    observer = RecordingObserver()
    kwargs = dict(unroll_length=unroll_length, sticky=sticky, observers=[observer], metrics=metrics)
    if driver_class is AsyncOffPolicyDriver:  # Without lockstep the log has unrolls that nobody took.
        kwargs |= dict(learn_queue_cap=len(envs), mode="lockstep", num_env_threads=num_env_threads)
    driver = build_driver(driver_class, envs, learner, **kwargs)
    driver.start()
    try:
        steps = sum(collect_and_observe(driver) for _ in range(UNROLLS))
        assert observer.wait_for(lambda: len(observer.records) == UNROLLS * len(envs))
    finally:
        driver.stop()
    return learner.unrolls(len(envs)), driver, steps


ALONE, TOGETHER = (3,), (2, 4, 3)  # lengths of the episodes


@pytest.mark.parametrize(
    "driver_class, lengths, num_workers, num_env_threads",
    [
        (SyncOffPolicyDriver, ALONE, 0, None),
        (SyncOffPolicyDriver, TOGETHER, 0, None),
        (AsyncOffPolicyDriver, TOGETHER, 2, None),
        (AsyncOffPolicyDriver, TOGETHER, 2, 1),
    ],
)
def test_each_unroll_holds_one_whole_episode(driver_class, lengths, num_workers, num_env_threads):
    envs = [make_env(lengths, num_workers), make_env(lengths)]
    unroll_length = max(lengths) + 1
    for unrolls in collect(driver_class, envs, unroll_length, num_env_threads=num_env_threads)[0]:
        for k, unroll in enumerate(unrolls):
            for b, n in enumerate(lengths):
                held = unroll_length - n
                expected = [FIRST, *[1] * (n - 1), LAST, *[FIRST] * held]
                np.testing.assert_array_equal(unroll.step_type[:, b], expected)
                steps = [*range(n + 1), *[0] * held]
                np.testing.assert_array_equal(unroll.observation[:, b, STEP], steps)
                # One reset and n steps for each episode: the environment has waited.
                calls = [*range(k * (n + 1), (k + 1) * (n + 1)), *[(k + 1) * (n + 1)] * held]
                np.testing.assert_array_equal(unroll.observation[:, b, CALLS], calls)
                np.testing.assert_array_equal(unroll.env_info["calls"][:, b], calls)
                np.testing.assert_array_equal(unroll.reward[:, b], steps)
                discount = [*[1] * n, 0, *[1] * held]
                np.testing.assert_array_equal(unroll.discount[:, b], discount)
                # The recurrent state begins anew with each FIRST row.
                np.testing.assert_array_equal(unroll.info["state"][:-1, b], steps[:-1])
                assert not np.any(unroll.prev_action[unroll.step_type == FIRST])


@pytest.mark.parametrize(
    "driver_class, lengths, num_workers, unroll_length",
    [
        (SyncOffPolicyDriver, TOGETHER, 0, 1),
        (SyncOffPolicyDriver, TOGETHER, 0, 2),
        (AsyncOffPolicyDriver, TOGETHER, 2, 3),
    ],
)
def test_nothing_is_lost_and_no_unroll_goes_on_with_a_second_episode(
    driver_class, lengths, num_workers, unroll_length
):
    envs = [make_env(lengths, num_workers)]
    (unrolls,), driver, steps = collect(driver_class, envs, unroll_length)
    rows = in_a_row(unrolls)
    total, episodes, returns = 0, 0, []
    for b, n in enumerate(lengths):
        step_type, calls = rows.step_type[:, b], rows.observation[:, b, CALLS]
        waits = (step_type[:-1] == FIRST) & (step_type[1:] == FIRST)
        np.testing.assert_array_equal(np.diff(calls), ~waits)
        np.testing.assert_array_equal(rows.observation[:, b, STEP], calls % (n + 1))
        for unroll in unrolls:
            # An episode that began at row 1, after one that ended in the unroll before, goes on.
            if unroll_length > 1 and unroll.step_type[0, b] == LAST:
                assert unroll.step_type[1, b] == FIRST != unroll.step_type[2, b]
            (begins,) = np.nonzero(unroll.step_type[2:, b] == FIRST)
            assert len(begins) == 0 or np.all(unroll.step_type[2 + begins[0] :, b] == FIRST)
        total += np.sum(step_type[1:] != FIRST)
        episodes += np.sum(step_type[:-1] == LAST)
        returns += [n * (n + 1) / 2] * np.sum(step_type[:-1] == LAST)
    assert steps == total
    metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    assert metrics["EnvironmentSteps"] == np.sum(rows.step_type[:-1] != FIRST)
    assert metrics["NumberOfEpisodes"] == episodes > 0
    assert metrics["AverageReturn"] == pytest.approx(np.mean(returns))


def test_metrics_of_tf_agents_count_what_ours_count():
    metrics = [py_metrics.AverageEpisodeLengthMetric(), py_metrics.EnvironmentSteps()]
    _, driver, _ = collect(SyncOffPolicyDriver, [make_env(TOGETHER)], 5, metrics=metrics)
    results = {metric.name: metric.result() for metric in driver.get_metrics()}
    assert results["tf_agents/EnvironmentSteps"] == results["EnvironmentSteps"] > 0
    lengths = {metric.name: metric for metric in driver.get_metrics()}["AverageEpisodeLength"].get_state()
    assert results["tf_agents/AverageEpisodeLength"] == pytest.approx(np.mean(lengths[-10:]))


def test_without_it_the_next_episode_goes_on():
    ((unroll, *_),), *_ = collect(SyncOffPolicyDriver, [make_env((2, 4))], 5, sticky=False)
    np.testing.assert_array_equal(unroll.observation[:, 0, STEP], [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_environments_that_cannot_hold_a_part_of_them(driver_class):
    envs = make_counting_envs(2, batch_size=2)
    with pytest.raises(ConfigError, match=r"sticky is True: envs\[0\] \(CountingEnvironment\) has no"):
        build_driver(driver_class, envs, RecordingLearner(FrozenPolicy(envs[0])), sticky=True)
    with pytest.raises(ConfigError, match="sticky is 1"):
        build_driver(driver_class, envs, RecordingLearner(FrozenPolicy(envs[0])), sticky=1)
    envs = make_counting_envs(2, batch_size=1)
    build_driver(driver_class, envs, RecordingLearner(FrozenPolicy(envs[0])), sticky=True).stop()


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("num_policies", [0, 2])
def test_games_are_refused_with_what_helps(driver_class, num_policies):
    pytest.importorskip("pettingzoo")
    env = load_pettingzoo("tests.workers.counting_games:ParallelGame", 2, num_workers=0, same=True)
    if num_policies:
        env = MappedEnvironment(env, ["a", "b"], ["a", "b"])
    message = "^sticky is True: the agents of a game .*: set DriverSettings.sticky to False"
    with contextlib.closing(env), pytest.raises(ConfigError, match=message):
        build_driver(driver_class, [env], RecordingLearner(FrozenPolicy(env)), sticky=True)
