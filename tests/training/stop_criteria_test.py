# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StopCriteria: each limit alone, which comes first, what is said."""

import numpy as np
import pytest

from alf.data_structures import FIRST, LAST, LogRecord
from alf.drivers.episode_statistics import EpisodeStatistics
from alf.errors import ConfigError
from alf.training.stop_criteria import Position, StopCriteria


def balanced_return(*returns, window=3):
    """The `BalancedReturn` of episodes of one step with these returns, in one environment."""
    statistics = EpisodeStatistics(window=window)
    for value in returns:
        statistics(
            LogRecord(
                step_type=np.array([[FIRST], [LAST]]),
                reward=np.array([[0.0], [value]]),
                discount=np.ones((2, 1)),
                env_id=np.zeros(1, np.int32),
            )
        )
    return next(metric for metric in statistics.metrics if metric.name == "BalancedReturn")


NONE = balanced_return()


@pytest.mark.parametrize("name, position", [("num_iterations", 0), ("num_env_steps", 1), ("max_seconds", 2)])
def test_each_limit_is_reached_at_its_value(name, position):
    criteria = StopCriteria(**{name: 10})
    values = [10**9] * 3
    values[position] = 9
    assert criteria.reached(*values, NONE) is None
    values[position] = 10
    assert criteria.reached(*values, NONE) == f"{name}=10 reached"
    values[position] = 11
    assert criteria.reached(*values, NONE) == f"{name}=10 reached"


def test_none_never_comes():
    assert StopCriteria().reached(10**12, 10**12, 1e12, balanced_return(1e9, 1e9, 1e9)) is None


def test_target_return_waits_for_a_full_buffer():
    criteria = StopCriteria(target_return=5.0)
    assert criteria.reached(0, 0, 0, NONE) is None
    assert criteria.reached(0, 0, 0, balanced_return(100.0, 100.0)) is None
    assert criteria.reached(0, 0, 0, balanced_return(5.0, 5.0, 4.0)) is None
    reason = criteria.reached(0, 0, 0, balanced_return(100.0, 4.0, 5.0, 6.0))
    assert reason == "target_return=5.0 reached: BalancedReturn 5"


def test_target_return_may_be_zero_or_negative():
    assert StopCriteria(target_return=0.0).reached(0, 0, 0, balanced_return(0.0, 0.0, 0.0))
    criteria = StopCriteria(target_return=-200.0)
    assert criteria.reached(0, 0, 0, balanced_return(-201.0, -201.0, -201.0)) is None
    assert criteria.reached(0, 0, 0, balanced_return(-199.0, -199.0, -199.0))


def test_whichever_comes_first():
    criteria = StopCriteria(num_iterations=10, num_env_steps=100, max_seconds=1.5, target_return=1)
    assert criteria.reached(9, 99, 1.4, NONE) is None
    assert criteria.reached(9, 100, 1.4, NONE) == "num_env_steps=100 reached"
    assert criteria.reached(9, 99, 1.6, NONE) == "max_seconds=1.5 reached"
    assert criteria.reached(0, 0, 0, balanced_return(1, 1, 1)).startswith("target_return=1 reached")


def test_a_short_run_says_that_it_ends_after_a_whole_batch():
    criteria = StopCriteria(num_env_steps=100)
    assert criteria.reached(1, 110, 1.0, NONE) == "num_env_steps=100 reached"
    assert criteria.reached(1, 2048, 1.0, NONE) == "num_env_steps=100 reached: 2,048, a whole batch"


def test_the_steps_of_the_policy_with_the_fewest_count():
    criteria = StopCriteria(num_env_steps_of_each=50)
    assert criteria.reached(9, 1000, 1.4, NONE, least_env_steps=49) is None
    assert criteria.reached(9, 100, 1.4, NONE, least_env_steps=50) == "num_env_steps_of_each=50 reached"


COUNTS = ["num_iterations", "num_env_steps", "num_env_steps_of_each"]


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_whole(name):
    with pytest.raises(ConfigError, match=rf"StopCriteria\.{name} is 2.5: it must be a whole number above 0"):
        StopCriteria(**{name: 2.5})
    assert StopCriteria(**{name: 1e6}) == StopCriteria(**{name: 1_000_000})


@pytest.mark.parametrize("name", [*COUNTS, "max_seconds"])
@pytest.mark.parametrize("limit", [0, -1])
def test_limits_are_positive(name, limit):
    with pytest.raises(ConfigError, match=rf"StopCriteria\.{name} is {limit}"):
        StopCriteria(**{name: limit})


def test_the_number_that_reached_a_small_target_is_shown():
    reason = StopCriteria(target_return=0.95).reached(0, 0, 0, balanced_return(0.94, 0.96, 0.962))
    assert reason == "target_return=0.95 reached: BalancedReturn 0.954"


@pytest.mark.parametrize(
    "criteria, expected",
    [
        ({}, None),
        ({"target_return": 1.0}, None),
        ({"num_iterations": 40}, (0.5, 20.0)),  # 10 in 10 s
        ({"num_env_steps": 1000}, (0.4, 30.0)),  # 200 in 10 s
        ({"max_seconds": 26.0}, (0.5, 13.0)),
        ({"num_iterations": 40, "num_env_steps": 1000, "max_seconds": 26.0}, (0.5, 13.0)),
        ({"num_iterations": 40, "num_env_steps": 1000, "max_seconds": 60.0}, (0.5, 20.0)),
        ({"num_iterations": 15}, (1.0, 0.0)),
    ],
)
def test_the_end_is_estimated_from_the_progress_of_this_run(criteria, expected):
    first, now = Position(10, 200, 3.0), Position(20, 400, 13.0)
    assert StopCriteria(**criteria).estimate_end(first, now) == expected


def test_without_progress_there_is_no_estimate():
    position = Position(10, 200, 3.0)
    assert StopCriteria(num_iterations=40, max_seconds=9.0).estimate_end(position, position) is None
    later = position._replace(max_seconds=5.0)
    assert StopCriteria(num_iterations=40).estimate_end(position, later) is None
    assert StopCriteria(num_iterations=40, max_seconds=9.0).estimate_end(position, later) == (5 / 9, 4.0)
