# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The scores of groups of runs as a table: statistics with intervals, and comparisons of two groups."""

import fnmatch
import itertools
import math
from typing import NamedTuple

import numpy as np

from alf.errors import ConfigError, argument
from alf.plots.groups import find_task
from alf.plots.scores import (
    estimate,
    has_interval,
    interquartile_mean,
    mean,
    median,
    probability_of_improvement,
)

_INTERVAL = "95 % interval"


class Scores(NamedTuple):
    """The scores of a group."""

    label: str
    tasks: dict  # from the name of a task to a float array [N], a score for each run


def parse_ranges(texts):
    """Reads texts ENVIRONMENT=LOW,HIGH: the scores of an environment that become 0 and 1.

    Returns:
        dict from ENVIRONMENT, which may have "*", to two floats.

    Raises:
        ConfigError: if a text is wrong.
    """
    ranges = {}
    for text in texts:
        name, _, ends = text.rpartition("=")
        try:
            low, high = map(float, ends.split(","))
            is_right = name and -math.inf < low < high < math.inf
        except ValueError:
            is_right = False
        if not is_right:
            raise ConfigError(
                f"{argument('score_range', text)}: it must be ENVIRONMENT=LOW,HIGH, such as "
                "CartPole-v1=0,500, and LOW must be below HIGH"
            )
        ranges[name] = low, high
    return ranges


def collect_scores(groups, score, ranges):
    """Collects the `Scores` of groups.

    Args:
        groups: list of `Group`s.
        score: callable (`Run`) -> float.
        ranges: the result of `parse_ranges`. Without any, the scores stay as they are.

    Raises:
        ConfigError: if the scores of a group are from several environments and cannot be normalized.
    """
    found = []
    for group in groups:
        tasks = {}
        for run in group.runs:
            tasks.setdefault(find_task(run.settings), []).append(score(run))
        if len(tasks) > 1 and not ranges:
            raise ConfigError(
                f"{group.label!r} has runs of {', '.join(sorted(tasks))}: give each environment the range of "
                f"its scores, {argument('score_range', 'ENVIRONMENT=LOW,HIGH')}"
            )
        scores = {name: _normalize(np.array(values), name, ranges) for name, values in sorted(tasks.items())}
        found.append(Scores(group.label, scores))
    known = {name for scores in found for name in scores.tasks}
    for name in ranges:
        if not fnmatch.filter(known, name):
            raise ConfigError(
                f"{argument('score_range', name)}: no run has this environment; there are "
                f"{', '.join(sorted(known))}"
            )
    return found


def _normalize(scores, task, ranges):
    if not ranges:
        return scores
    for name, (low, high) in ranges.items():
        if fnmatch.fnmatchcase(task, name):
            return (scores - low) / (high - low)
    name = argument("score_range")
    raise ConfigError(f"{name} is not set for {task!r}: give each environment the range of its scores")


def format_scores(groups, name):
    """Formats a list of `Scores` as Markdown; `name` is the heading of the labels.

    The second table has a line for each two groups with runs of the same tasks.
    """
    statistics = {"mean": mean, "median": median, "IQM": interquartile_mean}
    interval = f", {_INTERVAL}" * any(has_interval(group.tasks.values()) for group in groups)
    lines = [[name, "environments", "runs", *(f"{statistic}{interval}" for statistic in statistics)]]
    for group in groups:
        tasks = list(group.tasks.values())
        counts = [str(len(tasks)), str(sum(map(len, tasks)))]
        lines.append([group.label, *counts, *(_show(x, tasks, ".6g") for x in statistics.values())])
    pairs = [["X", "Y", f"probability that X is better than Y{interval}"]]
    for x, y in itertools.combinations(groups, 2):
        if x.tasks.keys() == y.tasks.keys():
            tasks = [*x.tasks.values(), *y.tasks.values()]
            pairs.append([x.label, y.label, _show(probability_of_improvement, tasks, ".2f")])
    return "\n".join(to_markdown(table) for table in (lines, pairs) if len(table) > 1)


def _show(statistic, tasks, digits):
    """Returns the text of a statistic and its interval; of few runs, of the mean and their range."""
    value, low, high = (f"{x:{digits}}" for x in estimate(statistic, tasks))
    if has_interval(tasks):
        return f"{value}, {low} to {high}"
    return f"{value}, runs from {low} to {high}" if statistic is mean and low != high else value


def to_markdown(lines):
    """Returns a Markdown table; `lines` are lists of texts, of which the first has the headings."""
    head, *rest = lines
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n"
        for line in (head, ["---"] * len(head), *rest)
    )
