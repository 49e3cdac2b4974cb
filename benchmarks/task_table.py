# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The tables of `benchmarks.tasks` in docs/measured.md."""

import numpy as np

from alf.plots.scores import estimate, mean
from benchmarks.series import format_caption
from benchmarks.task_list import list_rows

COMMAND = "python -m benchmarks.tasks --machine=NAME"
HEADER = "| `alf train` | algorithm | steps | score | in training | minutes | seeds | reference |"


def format_tables(runs):
    """Returns the tables of all runs, in Markdown: one for each machine; then what was not run.

    A row has the runs of one machine and one revision of ALF, the last ones. A score is the mean over seeds,
    and its 95 % interval; of fewer than five seeds, the lowest and the highest run. Of a game, it is the mean
    return against random play, with what each seat won and lost.
    """
    tables, shown, missing = {}, {}, []
    for task in list_rows():
        mine = select_runs(runs, task)
        if not mine:
            missing.append(f"`{task.arguments}`")
            continue
        machine = mine[-1]["machine"]
        tables.setdefault(machine, []).append(_format_line(task, mine))
        shown.setdefault(machine, []).extend(mine)
    head = [HEADER, "| --- " * HEADER.count(" | ") + "| --- |"]
    parts = [
        "\n".join([f"{format_caption(shown[machine], COMMAND)}:", "", *head, *lines])
        for machine, lines in sorted(tables.items())
    ]
    parts += [f"Not run: {', '.join(missing)}."] if missing else []
    return "\n\n".join(parts)


def select_runs(runs, task):
    """Returns the runs of a task that its row has: those of the last machine and revision."""
    mine = [run for run in runs if run["arguments"] == task.arguments]
    return [run for run in mine if all(run[key] == mine[-1][key] for key in ("machine", "revision"))]


def _format_line(task, runs):
    cells = [f"`{task.arguments}`", task.algorithm, f"{task.steps:,}"]
    cells += [_format_scores([run[key] for run in runs]) for key in ("score", "training")]
    cells[3] += "".join(f"; {x}" for x in _describe_seats(runs))
    minutes = np.mean([run["seconds"] for run in runs]) / 60
    cells += [f"{minutes:.1f}", f"{len(runs)}", task.reference]
    return f"| {' | '.join(cells)} |"


def _describe_seats(runs):
    """Describes how many games a league's policy won and lost in each seat, in the mean over the runs."""
    for seat in runs[0].get("seats", ()):
        won, lost = np.mean([run["seats"][seat] for run in runs], axis=0)
        yield f"{seat} won {won:.0%}, lost {lost:.1%}"


def _format_scores(scores):
    _, low, high = estimate(mean, [np.array(scores)])
    spread = f" ({low:,.4g} to {high:,.4g})" if len(scores) > 1 else ""
    return f"{np.mean(scores):,.4g}{spread}"
