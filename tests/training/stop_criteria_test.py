# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StopCriteria: each limit alone, which comes first, what is said."""

import numpy as np
import pytest

from alf.data_structures import FIRST, LAST, LogRecord
from alf.drivers.metrics import EpisodeStatistics
from alf.errors import ConfigError
from alf.training.stop_criteria import StopCriteria


def average_return(*returns, window=3):
    """The average return of episodes of one step with these returns."""
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
    return statistics.metrics[0]


NONE = average_return()


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
    assert StopCriteria().reached(10**12, 10**12, 1e12, average_return(1e9, 1e9, 1e9)) is None


def test_target_return_waits_for_a_full_buffer():
    criteria = StopCriteria(target_return=5.0)
    assert criteria.reached(0, 0, 0, NONE) is None
    assert criteria.reached(0, 0, 0, average_return(100.0, 100.0)) is None
    assert criteria.reached(0, 0, 0, average_return(5.0, 5.0, 4.0)) is None
    reason = criteria.reached(0, 0, 0, average_return(100.0, 4.0, 5.0, 6.0))
    assert reason == "target_return=5.0 reached: 5.0"


def test_target_return_may_be_zero_or_negative():
    assert StopCriteria(target_return=0.0).reached(0, 0, 0, average_return(0.0, 0.0, 0.0))
    criteria = StopCriteria(target_return=-200.0)
    assert criteria.reached(0, 0, 0, average_return(-201.0, -201.0, -201.0)) is None
    assert criteria.reached(0, 0, 0, average_return(-199.0, -199.0, -199.0))


def test_whichever_comes_first():
    criteria = StopCriteria(num_iterations=10, num_env_steps=100, max_seconds=1.5, target_return=1)
    assert criteria.reached(9, 99, 1.4, NONE) is None
    assert criteria.reached(9, 100, 1.4, NONE) == "num_env_steps=100 reached"
    assert criteria.reached(9, 99, 1.6, NONE) == "max_seconds=1.5 reached"
    assert criteria.reached(0, 0, 0, average_return(1, 1, 1)).startswith("target_return=1 reached")


@pytest.mark.parametrize("name", ["num_iterations", "num_env_steps", "max_seconds"])
@pytest.mark.parametrize("limit", [0, -1])
def test_limits_are_positive(name, limit):
    with pytest.raises(ConfigError, match=rf"StopCriteria\.{name} is {limit}"):
        StopCriteria(**{name: limit})
