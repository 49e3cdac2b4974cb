# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Scores of groups: their tasks, their ranges, the table."""

import numpy as np
import pytest

from alf.config import registry
from alf.errors import ConfigError
from alf.plots.groups import Group
from alf.plots.runs import Run
from alf.plots.score_table import Scores, collect_scores, format_scores, parse_ranges

registry.import_settings()


def make_group(label, *runs):
    """A group of runs, which are pairs of an environment and a score."""
    return Group(
        label, "PPO", [Run("", {"alf.environments.load.name": f"'{name}'"}, value) for name, value in runs]
    )


def collect(groups, *ranges):
    found = collect_scores(groups, lambda run: run.columns, parse_ranges(ranges))
    return {label: {name: list(scores) for name, scores in tasks.items()} for label, tasks in found}


def test_the_scores_of_a_task_stay_as_they_are():
    groups = [make_group("a", ("A-v1", 3.0), ("A-v1", 5.0)), make_group("b", ("B-v1", 7.0))]
    assert collect(groups) == {"a": {"A-v1": [3.0, 5.0]}, "b": {"B-v1": [7.0]}}


def test_ranges_make_the_scores_of_tasks_comparable():
    group = make_group("a", ("B-v1", 30.0), ("A-v1", 3.0), ("A-v1", -1.0), ("ALE/C=1", 0.5))
    expected = {"a": {"A-v1": [2.0, 0.0], "ALE/C=1": [0.5], "B-v1": [0.25]}}
    assert collect([group], "A-v1=-1,1", "B*=20,60", "ALE/C=1=0,1") == expected
    assert collect([group], "A-v1=-1,1", "B*=20,60", "*=0,1") == expected  # the first that fits
    assert collect([group], "*=0,1", "A-v1=-1,1")["a"]["A-v1"] == [3.0, -1.0]


WRONG_RANGES = {
    ("A-v1",): "score_range=A-v1: it must be ENVIRONMENT=LOW,HIGH, such as CartPole-v1=0,500",
    ("0,1",): "score_range=0,1: it must be",
    ("=0,1",): "score_range==0,1: it must be",
    ("A-v1=0",): "score_range=A-v1=0: it must be",
    ("A-v1=0,1,2",): "score_range=A-v1=0,1,2: it must be",
    ("A-v1=1,1",): "score_range=A-v1=1,1: it must be .*LOW must be below HIGH",
    ("A-v1=0,nan",): "score_range=A-v1=0,nan: it must be",
    ("A-v1=0,inf",): "score_range=A-v1=0,inf: it must be",
    ("A-v1=0,x",): "score_range=A-v1=0,x: it must be",
    (): "'a' has runs of A-v1, B-v1: give each environment the range of its scores, score_range=ENVIR",
    ("A-v1=0,1",): "score_range is not set for 'B-v1': give each environment the range of its scores",
    ("*=0,1", "C*=0,1"): r"score_range=C\*: no run has this environment; there are A-v1, B-v1",
}


@pytest.mark.parametrize("ranges", WRONG_RANGES, ids=str)
def test_wrong_ranges_are_one_line(ranges):
    with pytest.raises(ConfigError, match=f"^{WRONG_RANGES[ranges]}"):
        collect([make_group("a", ("A-v1", 1.0), ("B-v1", 1.0))], *ranges)


def test_the_table_of_few_runs_has_their_range():
    groups = [
        Scores("a | b", {"A": np.array([1.0, 3.0]), "B": np.array([0.5, 0.5])}),
        Scores("c", {"A": np.array([2.0, 0.0]), "B": np.array([0.25, 0.25])}),
        Scores("other", {"C": np.array([9.0])}),
    ]
    assert format_scores(groups, "last x").splitlines() == [
        "| last x | environments | runs | mean | median | IQM |",
        "| --- | --- | --- | --- | --- | --- |",
        "| a \\| b | 2 | 4 | 1.25, runs from 0.5 to 3 | 1.25 | 0.75 |",
        "| c | 2 | 4 | 0.625, runs from 0 to 2 | 0.625 | 0.25 |",
        "| other | 1 | 1 | 9 | 9 | 9 |",
        "",
        "| X | Y | probability that X is better than Y |",
        "| --- | --- | --- |",
        # In A three of four pairs, in B all of them.
        "| a \\| b | c | 0.88 |",
    ]


def test_the_table_of_five_runs_has_intervals():
    groups = [Scores("a", {"A": np.arange(5.0)}), Scores("b", {"A": np.arange(4.0)})]
    head, _, a, b, _, pairs, _, pair = format_scores(groups, "x").splitlines()
    assert head == (
        "| x | environments | runs | mean, 95 % interval | median, 95 % interval | IQM, 95 % interval |"
    )
    assert a == "| a | 1 | 5 | 2, 0.8 to 3.2 | 2, 0 to 4 | 2, 0.333333 to 3.66667 |"
    assert b == "| b | 1 | 4 | 1.5, runs from 0 to 3 | 1.5 | 1.5 |"
    assert pairs.endswith("better than Y, 95 % interval |") and pair.endswith("| 0.60 |")


def test_one_group_is_compared_with_nobody():
    assert len(format_scores([Scores("a", {"": np.array([1.0, 2.0])})], "x").splitlines()) == 3
