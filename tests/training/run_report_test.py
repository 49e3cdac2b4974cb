# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a run shows to people, with a clock of the test's own."""

import math

import pytest

from alf.drivers.stage_clock import HAND_OVER, INFERENCE, STEP, TRAIN, WAIT, StageClock, StageClocks
from alf.training.run_report import EpisodeFigures, RunReport, format_number


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Metric:
    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


def make_metrics(average_return=12.34, num_episodes=0, length=200.0, balanced_return=math.nan):
    values = {"AverageReturn": average_return, "NumberOfEpisodes": num_episodes}
    values |= {"BalancedReturn": balanced_return, "AverageEpisodeLength": length}
    return {name: Metric(value) for name, value in values.items()}


@pytest.mark.parametrize(
    "x, text",
    [
        (0.7434, "0.743"),
        (0.74, "0.74"),
        (-0.0123, "-0.0123"),
        (0.000456, "0.000456"),
        (0.0, "0"),
        (1.0, "1"),
        (9.996, "10"),
        (12.34, "12.3"),
        (-21.0, "-21"),
        (475.04, "475"),
        (999.4, "999"),
        (999.6, "1,000"),
        (-1234.5, "-1,234"),
        (123456789.0, "123,456,789"),
        (2e9, "2e+09"),
        (math.nan, "-"),
        (math.inf, "inf"),
    ],
)
def test_numbers_have_the_digits_that_matter(x, text):
    assert format_number(x) == text


def test_a_return_is_old_when_no_episode_has_ended_for_a_minute():
    clock, metrics = Clock(), make_metrics(num_episodes=7)
    figures = EpisodeFigures(metrics, clock)
    clock.now += 60
    assert figures.describe_return() == ("AverageReturn 12.3", "")  # of the run before this one
    clock.now += 1
    assert figures.describe_return() == ("AverageReturn 12.3", "over 1 min old")
    metrics["NumberOfEpisodes"].value += 61
    assert figures.describe_return() == ("AverageReturn 12.3", "")
    clock.now += 60
    assert figures.describe_return() == ("AverageReturn 12.3", "")
    clock.now += 119
    assert figures.describe_return() == ("AverageReturn 12.3", "over 2 min old")
    clock.now += 7200
    assert figures.describe_return() == ("AverageReturn 12.3", "over 2 h old")


def test_a_return_of_long_episodes_is_not_old_so_soon():
    clock, metrics = Clock(), make_metrics()
    figures = EpisodeFigures(metrics, clock)
    for _ in range(4):  # one ends every 100 s
        clock.now += 100
        metrics["NumberOfEpisodes"].value += 1
        assert figures.describe_return() == ("AverageReturn 12.3", "")
    clock.now += 500
    assert figures.describe_return() == ("AverageReturn 12.3", "")
    clock.now += 1
    assert figures.describe_return() == ("AverageReturn 12.3", "over 8 min old")


def test_no_return_is_not_old():
    clock = Clock()
    figures = EpisodeFigures(make_metrics(average_return=math.nan), clock)
    clock.now += 1000
    assert figures.describe_return() == ("AverageReturn -", "")


def test_the_table_says_what_was_done_and_where_the_time_went():
    clock, metrics = Clock(), make_metrics(num_episodes=10, average_return=0.7434, balanced_return=0.744)
    counts = {"updates": 5, "env steps": 1000}
    environments, actors = [StageClock(clock)], [StageClock(clock)]
    clocks = StageClocks(environments, actors, learner=StageClock(clock))
    clock.now += 1000.0  # before the run
    report = RunReport(lambda: dict(counts), EpisodeFigures(metrics, clock), clocks)
    for name, seconds in [(WAIT, 5.0), (TRAIN, 15.0)]:
        clock.now += seconds
        assert clocks.learner.lap(name) == clock.now
    counts["env steps"] += 100
    report.note_first_train_step()
    for name, seconds in [(WAIT, 28.0), (TRAIN, 42.0), (WAIT, 10.0)]:
        clock.now += seconds
        clocks.learner.lap(name)
    environments[0].lap(STEP, [(HAND_OVER, 60.0, 1)])
    actors[0].lap(INFERENCE)
    report.note_last_train_step(collects=True)
    clock.now += 20.0
    clocks.learner.lap("checkpoints")
    counts.update({"updates": 12, "env steps": 11100})
    rows = [line.split() for line in report.format().splitlines()]
    assert rows == [
        ["this", "run", "all", "runs"],
        ["updates", "7", "12"],
        ["env", "steps", "10,100", "11,100"],
        ["seconds", "120.0"],
        ["training", "42.0", "35.0%"],
        ["waiting", "for", "experience", "38.0", "31.7%"],
        ["until", "the", "first", "train", "step", "20.0", "16.7%"],
        ["checkpoints", "20.0", "16.7%"],
        ["env", "steps/s", "since", "first", "train", "step", "100"],
        ["bottleneck", "learner"],
        ["environments:", "waiting", "for", "learner", "75.0%"],
        ["environments:", "step", "25.0%"],
        ["actors:", "inference", "100.0%"],
        ["BalancedReturn", "0.744", "over", "2", "min", "old"],
        ["AverageReturn", "0.743", "over", "2", "min", "old"],
        ["AverageEpisodeLength", "200", "over", "2", "min", "old"],
    ]


def test_the_table_has_the_return_of_each_of_several_policies():
    clock, metrics = Clock(), make_metrics()
    returns = {"main": 20.0, "other": math.nan}
    metrics |= {f"policies/{name}/AverageReturn": Metric(value) for name, value in returns.items()}
    metrics |= {f"policies/{name}/BalancedReturn": Metric(math.nan) for name in returns}
    figures = EpisodeFigures(metrics, clock, tuple(returns))
    rows = RunReport(lambda: {"env steps": 0, "updates": 0}, figures, StageClocks()).format().splitlines()
    assert [row.split() for row in rows[-6:-1]] == [
        ["AverageReturn", "12.3"],
        ["policies/main/BalancedReturn", "-"],
        ["policies/main/AverageReturn", "20"],
        ["policies/other/BalancedReturn", "-"],
        ["policies/other/AverageReturn", "-"],
    ]


def test_the_table_of_a_run_without_a_train_step():
    clock = Clock()
    figures = EpisodeFigures(make_metrics(average_return=math.nan, length=math.nan), clock)
    report = RunReport(lambda: {"env steps": 0, "updates": 0}, figures, StageClocks())
    report.note_last_train_step(collects=True)
    text = report.format()
    assert "steps/s" not in text and "bottleneck" not in text
    assert text.splitlines()[-1].split() == ["AverageEpisodeLength", "-"]


def test_a_return_has_the_name_of_its_metric():
    """AverageReturn, which short episodes bias, stands in until BalancedReturn has a value."""
    figures = EpisodeFigures(make_metrics(), Clock())
    assert figures.describe_return() == ("AverageReturn 12.3", "")
    figures = EpisodeFigures(make_metrics(balanced_return=-98.4), Clock())
    assert figures.describe_return() == ("BalancedReturn -98.4", "")
