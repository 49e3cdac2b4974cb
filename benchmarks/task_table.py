# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The tables of tasks in docs/measured.md."""

import pathlib
import re

import numpy as np

from alf.config.gin_files import find_gin_file, list_tasks
from alf.plots.scores import estimate, mean

COMMAND = "python -m benchmarks.tasks --file=tasks.jsonl"
_BEGIN, _END = "<!-- tasks -->\n", "\n<!-- end of tasks -->"
HEADER = "| task | algorithm | steps | score | minutes | seeds | reference |"


def describe(task):
    """Returns the algorithm, the steps and the reference that the file of a task names."""
    text = pathlib.Path(find_gin_file(f"alf:{task}")).read_text()
    algorithm = re.search(r'algorithm = ["@](\w+?)(Algorithm)?\b', text)[1].lower()
    steps = int(re.search(r"num_env_steps = ([\d_]+)", text)[1])
    return algorithm, steps, re.search(r"Reference: (.*)", text)[1].rstrip(".")


def format_tables(rows):
    """Returns the tables of all tasks, in Markdown: one for each machine and day; then what was not run.

    A task is in the table of its last run; its runs on other machines do not count. A score is the mean over
    seeds, and its 95 % interval; of fewer than five seeds, the lowest and the highest run.
    """
    tables, missing = {}, []
    for task in list_tasks():
        mine = [row for row in rows if row["task"] == task]
        if mine:
            machine, date = mine[-1]["machine"], mine[-1]["date"]
            line = _format_line(task, [row for row in mine if row["machine"] == machine])
            tables.setdefault((date, machine), []).append(line)
        else:
            missing.append(task)
    head = [HEADER, "| --- " * HEADER.count(" | ") + "| --- |"]
    parts = [
        "\n".join([f"{machine}, {date}, `{COMMAND}`:", "", *head, *lines])
        for (date, machine), lines in sorted(tables.items())
    ]
    parts += [f"Not run: {', '.join(missing)}."] if missing else []
    return "\n\n".join(parts)


def replace_tables(page, tables):
    """Returns the text of a page with other tables of tasks."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return "".join([before, begin, tables, end, after])


def _format_line(task, rows):
    algorithm, steps, reference = describe(task)
    scores = np.array([row["score"] for row in rows])
    _, low, high = estimate(mean, [scores])
    minutes = np.mean([row["seconds"] for row in rows]) / 60
    score = f"{scores.mean():,.4g}" + (f" ({low:,.4g} to {high:,.4g})" if len(rows) > 1 else "")
    return f"| {task} | {algorithm} | {steps:,} | {score} | {minutes:.1f} | {len(rows)} | {reference} |"
