# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The table of tasks in docs/tasks.md."""

import pathlib
import re

import numpy as np

from alf.config.gin_files import find_gin_file, list_tasks
from alf.core.randomness import bootstrap_interval

HEADER = "| task | algorithm | steps | score | minutes | seeds | date | reference |"


def describe(task):
    """Returns the algorithm, the steps and the reference that the file of a task names."""
    text = pathlib.Path(find_gin_file(f"alf:{task}")).read_text()
    algorithm = re.search(r'algorithm = ["@](\w+?)(Algorithm)?\b', text)[1].lower()
    steps = int(re.search(r"num_env_steps = ([\d_]+)", text)[1])
    return algorithm, steps, re.search(r"Reference: (.*)", text)[1].rstrip(".")


def format_table(rows):
    """Returns the table of all tasks, in Markdown. A score is the mean over seeds, and its 95 % interval."""
    lines = [HEADER, "| --- " * HEADER.count(" | ") + "| --- |"]
    for task in list_tasks():
        mine = [row for row in rows if row["task"] == task]
        algorithm, steps, reference = describe(task)
        if not mine:
            lines.append(f"| {task} | {algorithm} | {steps:,} | not run | | | | {reference} |")
            continue
        scores = np.array([row["score"] for row in mine])
        low, high = bootstrap_interval([scores])
        minutes = np.mean([row["seconds"] for row in mine]) / 60
        score = f"{scores.mean():,.4g}" + (f" ({low:,.4g} to {high:,.4g})" if len(mine) > 1 else "")
        cells = task, algorithm, f"{steps:,}", score, f"{minutes:.1f}", len(mine), mine[-1]["date"], reference
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)
