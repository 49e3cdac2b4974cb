# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Schedules against literal numbers, in a graph, far beyond int32, and bound by gin."""

import copy

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.config.settings import check_value
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.schedules import (
    LinearSchedule,
    PiecewiseSchedule,
    Progress,
    Schedule,
    ScheduledFloat,
    ScheduledFraction,
    ScheduledWeight,
    Tunable,
    as_schedule,
    find_tunables,
)


def progress(env_steps=0, updates=0):
    return Progress(tf.constant(env_steps, tf.int64), tf.constant(updates, tf.int64))


def values_at(schedule, counts):
    values = [schedule(progress(env_steps=count)) for count in counts]
    assert all(value.dtype == tf.float32 and value.shape == () for value in values)
    return [float(value) for value in values]


def test_linear():
    schedule = LinearSchedule(start=1.0, end=0.0, over=100)
    assert values_at(schedule, [0, 25, 50, 100, 101, 10**12]) == [1.0, 0.75, 0.5, 0.0, 0.0, 0.0]
    assert values_at(LinearSchedule(-1, 3, over=4.0), [0, 1, 3, 4, 5]) == [-1.0, 0.0, 2.0, 3.0, 3.0]
    assert values_at(LinearSchedule(2.0, 1.0, over=1), [0, 1]) == [2.0, 1.0]


def test_end_values_are_exact():
    assert values_at(LinearSchedule(3e-4, 1e-5, over=7), [0, 7, 8]) == [
        np.float32(3e-4),
        *[np.float32(1e-5)] * 2,
    ]


def test_steps():
    schedule = PiecewiseSchedule([10, 20, 40], [1.0, 0.5, 0.25])
    counts = [0, 9, 10, 19, 20, 39, 40, 10**12]
    assert values_at(schedule, counts) == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25]


def test_interpolation():
    schedule = PiecewiseSchedule([10, 20, 40], [1.0, 0.5, 2.5], interpolate=True)
    counts = [0, 10, 15, 20, 30, 40, 41, 10**12]
    assert values_at(schedule, counts) == [1.0, 1.0, 0.75, 0.5, 1.5, 2.5, 2.5, 2.5]


def test_interpolation_agrees_with_numpy():
    rng = np.random.default_rng(0)
    boundaries, values = np.cumsum(rng.integers(1, 50, size=8)).tolist(), rng.normal(size=8).tolist()
    schedule = PiecewiseSchedule(boundaries, values, interpolate=True)
    counts = range(boundaries[-1] + 50)
    np.testing.assert_allclose(values_at(schedule, counts), np.interp(counts, boundaries, values), rtol=1e-6)


@pytest.mark.parametrize("interpolate", [False, True])
def test_one_boundary_is_a_constant(interpolate):
    schedule = PiecewiseSchedule([10], [0.5], interpolate=interpolate)
    assert values_at(schedule, [0, 10, 20]) == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    "make",
    [
        lambda by: LinearSchedule(0.0, 1.0, over=10, by=by),
        lambda by: PiecewiseSchedule([0, 10], [0.0, 1.0], interpolate=True, by=by),
    ],
)
def test_by_env_steps_or_updates(make):
    assert make("env_steps")(progress(env_steps=5, updates=10)) == 0.5
    assert make("updates")(progress(env_steps=5, updates=10)) == 1.0
    with pytest.raises(
        ConfigError, match=r"(?m)Schedule.by is 'steps': it must be one of 'env_steps', 'updates'$"
    ):
        make("steps")


def test_counts_beyond_int32_and_float32():
    """One step in 1e9 counts: float32 counts are 64 apart there."""
    last = 10**9
    schedule = LinearSchedule(float(last), 0.0, over=last)
    assert values_at(schedule, [last - 1, last - 3, last - 100]) == [1.0, 3.0, 100.0]
    huge = 5 * 2**31
    assert values_at(LinearSchedule(0.0, 1.0, over=2 * huge), [huge]) == [0.5]
    assert values_at(PiecewiseSchedule([0, huge], [1.0, 2.0]), [huge - 1, huge]) == [1.0, 2.0]
    assert values_at(PiecewiseSchedule([0, 2 * huge], [0.0, 1.0], interpolate=True), [huge]) == [0.5]


@pytest.mark.parametrize(
    "schedule, expected",
    [
        (LinearSchedule(1.0, 0.0, over=4), [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
        (PiecewiseSchedule([0, 2], [1.0, 0.0]), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        (PiecewiseSchedule([1, 3], [1.0, 0.0], interpolate=True), [1.0, 1.0, 0.5, 0.0, 0.0, 0.0]),
        (0.25, [0.25] * 6),
    ],
)
def test_changes_inside_one_graph(schedule, expected):
    env_steps = tf.Variable(0, dtype=tf.int64)
    schedule = as_schedule(schedule)
    traces = []

    @tf.function(autograph=False)
    def step():
        traces.append(1)
        value = schedule(Progress(env_steps, tf.constant(0, tf.int64)))
        env_steps.assign_add(1)
        return value

    assert [float(step()) for _ in expected] == expected
    assert len(traces) == 1


def test_learning_rate_of_an_optimizer():
    """It is computed anew at each update, in the graph."""
    updates = tf.Variable(0, dtype=tf.int64)
    schedule = LinearSchedule(1.0, 0.0, over=4, by="updates")
    optimizer, weight = optimizers.SGD(schedule), tf.Variable(0.0)
    optimizer.build([weight], Progress(tf.constant(0, tf.int64), updates))

    @tf.function(autograph=False)
    def update():
        optimizer.apply([tf.constant(-1.0)])
        updates.assign_add(1)
        return tf.identity(weight)

    assert [float(update()) for _ in range(6)] == [1.0, 1.75, 2.25, 2.5, 2.5, 2.5]


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.float64(0.1), np.int64(2)])
def test_a_number_is_constant(value):
    schedule = as_schedule(value)
    assert values_at(schedule, [0, 10**12]) == [np.float32(value)] * 2


def test_a_schedule_is_left_as_it_is():
    schedule = LinearSchedule(1.0, 0.0, over=4)
    assert as_schedule(schedule) is schedule


NEITHER = r"^weight is .*: it must be a number or a Schedule \(@NAME\(\)\)$"
TOO_LOW = "it must be a number at least 0 or a Schedule"
NEGATIVE = [  # somewhere
    (-1, "-1"),
    (float("nan"), "nan"),
    (LinearSchedule(1.0, -0.1, over=2), "LinearSchedule with the values 1.0, -0.1"),
    (PiecewiseSchedule([0, 1, 2], [1, -3, 2]), "PiecewiseSchedule with the values 1, -3, 2"),
]
WRONG = [
    (lambda: LinearSchedule("1", 0.0, 10), "LinearSchedule.start is '1': it must be a number$"),
    (lambda: LinearSchedule(1.0, None, 10), "LinearSchedule.end is None: it must be a number$"),
    (lambda: LinearSchedule(1.0, 0.0, 0), "LinearSchedule.over is 0: it must be a number at least 1$"),
    (
        lambda: LinearSchedule(1.0, 0.0, 1, by=0),
        "LinearSchedule.by is 0: it must be one of 'env_steps', 'updates'$",
    ),
    (
        lambda: PiecewiseSchedule([], []),
        "PiecewiseSchedule.boundaries is empty",
    ),
    (
        lambda: PiecewiseSchedule(5, [1]),
        "PiecewiseSchedule.boundaries is 5: it must be a tuple or list",
    ),
    (lambda: PiecewiseSchedule([1], 5), "PiecewiseSchedule.values is 5: it must be a tuple or list"),
    (
        lambda: PiecewiseSchedule([0, "1"], [1, 2]),
        r"boundaries\[1\] is '1': it must be a number$",
    ),
    (lambda: PiecewiseSchedule([0, 1], [1, None]), r"values\[1\] is None: it must be a number$"),
    (
        lambda: PiecewiseSchedule([0, 2, 2], [1, 2, 3]),
        r"boundaries is \[0, 2, 2\]: each must be larger than",
    ),
    (lambda: PiecewiseSchedule([2, 1], [1, 2]), r"boundaries is \[2, 1\]: each must be larger than"),
    (
        lambda: PiecewiseSchedule([0, 1], [1, 2, 3]),
        r"values is \[1, 2, 3\]: .*one for each of 2 boundaries$",
    ),
    (lambda: PiecewiseSchedule([0, 1], [1]), r"values is \[1\]: .*one for each of 2 boundaries$"),
    (
        lambda: PiecewiseSchedule([0], [1], interpolate="no"),
        "interpolate is 'no': it must be True or False$",
    ),
    (lambda: PiecewiseSchedule([0], [1], by="time"), "PiecewiseSchedule.by is 'time': it must be one of"),
    *(
        (lambda value=value: check_value("weight", value, ScheduledFloat), NEITHER)
        for value in ("0.5", None, True, (1.0, 2.0), [[0, 1.0]], LinearSchedule, lambda progress: 1.0)
    ),
    *(
        (lambda value=value: check_value("weight", value, ScheduledWeight), f"^weight is {shown}: {TOO_LOW}")
        for value, shown in NEGATIVE
    ),
    *(
        (lambda limits=limits: Tunable(0.5, limits=limits), r"^Tunable.limits(\[1\])? is .*: it must be ")
        for limits in (1.0, (1.0,), (0.0, "1"), (0.0, 1.0, 2.0))
    ),
    (
        lambda: check_value("epsilon", Tunable(0.5, limits=(0.0, 2.0)), ScheduledFraction),
        "^epsilon is Tunable with the values 0.5, 0.0, 2.0: .* at most 1",
    ),
]


def test_what_is_wrong_is_named(subtests):
    for call, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=f"(?m){message}"):  # gin adds lines
            call()


def test_gin_binds_a_schedule_where_a_number_is_expected():
    configurable = gin.external_configurable(dict, "Settings", module="tests.schedules")
    gin.parse_config(
        """
        Settings.weight = @weight/LinearSchedule()
        weight/LinearSchedule.start = 1.0
        weight/LinearSchedule.end = 0.0
        weight/LinearSchedule.over = 10_000_000
        Settings.rate = @alf.PiecewiseSchedule()
        PiecewiseSchedule.boundaries = [0, 1e6]
        PiecewiseSchedule.values = [2.0, 1.0]
        PiecewiseSchedule.interpolate = True
        PiecewiseSchedule.by = "updates"
        """
    )
    settings = configurable()
    assert all(isinstance(schedule, Schedule) for schedule in settings.values())
    now = progress(env_steps=2_500_000, updates=500_000)
    assert {name: float(schedule(now)) for name, schedule in settings.items()} == {
        "weight": 0.75,
        "rate": 1.5,
    }


def test_a_tunable_changes_a_graph_without_another_trace():
    tunable = Tunable(0.1, limits=(0.0, 1.0), setting="weight")
    schedule, traces = as_schedule(tunable), []

    @tf.function(autograph=False)
    def step():
        traces.append(1)
        return schedule(progress())

    assert step() == np.float32(0.1) and tunable.value == 0.1
    tunable.assign(0.7)
    assert step() == np.float32(0.7) and tunable.value == 0.7
    assert len(traces) == 1


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "0.5", True])
def test_a_tunable_stays_within_its_limits(value):
    message = "(?m)^weight is .*: it must be a number at least 0(.0)? and at most 1(.0)?"
    with pytest.raises(ConfigError, match=f"{message}|Tunable.value is .*: it must be a number"):
        Tunable(value, limits=(0.0, 1.0), setting="weight")
    tunable = Tunable(0.5, limits=(0.0, 1.0), setting="weight")
    with pytest.raises(ConfigError, match=message):
        tunable.assign(value)
    assert tunable.value == 0.5


def test_tunables_are_found_in_lists_and_dicts_and_their_copies_apart():
    module = tf.Module()
    module.one = Tunable(1.0, setting="a")
    module.more = {"x": [Tunable(2.0, setting="a")], "y": 3.0}
    module.inner = tf.Module()
    module.inner.other = Tunable(4.0, setting="b")
    copied = copy.deepcopy(module)
    module.one.assign(5.0)
    values = {name: sorted(t.value for t in found) for name, found in find_tunables(module).items()}
    assert values == {"a": [2.0, 5.0], "b": [4.0]}
    copies = {name: sorted(t.value for t in found) for name, found in find_tunables(copied).items()}
    assert copies == {"a": [1.0, 2.0], "b": [4.0]}
