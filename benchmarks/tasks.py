# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains ALF's tasks, and writes the table of docs/tasks.md: `python -m benchmarks.tasks --file=FILE.jsonl`.

Adds a line to the file for each run that it does not have yet, so that it may be stopped and called again.
--write puts the table of all runs in the file into docs/tasks.md.
"""

import datetime
import pathlib
import re
import time

import numpy as np
from absl import app, flags

from alf.config.gin_files import find_gin_file, list_tasks
from alf.core.randomness import bootstrap_interval
from benchmarks.series import add_row, read_rows, train_once

_FILE = flags.DEFINE_string("file", None, "File of the runs, JSON lines.", required=True)
_TASKS = flags.DEFINE_multi_string("task", [], "Name of a task, such as CartPole-v1; without it all of them.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each task, with the seeds 0, 1, ...", lower_bound=0)
_WRITE = flags.DEFINE_bool("write", False, "Writes the table into docs/tasks.md.")
_PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "tasks.md"
_HEADER = "| task | algorithm | steps | score | minutes | seeds | date | reference |"


def train_all(path, tasks, seeds):
    """Adds the runs to the file that it lacks."""
    done = {(row["task"], row["seed"]) for row in read_rows(path)}
    for seed in range(seeds):
        for task in tasks:
            if (task, seed) in done:
                continue
            start = time.monotonic()
            curve = train_once(f"alf:{task}", f"--seed={seed}")
            seconds, date = time.monotonic() - start, datetime.date.today().isoformat()
            steps, _, score = curve[-1]
            row = {
                "task": task,
                "seed": seed,
                "steps": steps,
                "score": score,
                "seconds": seconds,
                "date": date,
            }
            add_row(path, row)
            print(f"{task} seed {seed}: {score:.1f} in {seconds:.0f} s", flush=True)


def describe(task):
    """Returns the algorithm, the steps and the reference that the file of a task names."""
    text = pathlib.Path(find_gin_file(f"alf:{task}")).read_text()
    algorithm = re.search(r'algorithm = ["@](\w+?)(Algorithm)?\b', text)[1].lower()
    steps = int(re.search(r"num_env_steps = ([\d_]+)", text)[1])
    return algorithm, steps, re.search(r"Reference: (.*)", text)[1].rstrip(".")


def format_table(rows):
    """Returns the table of all tasks, in Markdown. A score is the mean over seeds, and its 95 % interval."""
    lines = [_HEADER, "| --- " * _HEADER.count(" | ") + "| --- |"]
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


def main(argv):
    del argv
    path = pathlib.Path(_FILE.value)
    train_all(path, _TASKS.value or list_tasks(), _SEEDS.value)
    table = format_table(read_rows(path))
    print(table)
    if _WRITE.value:
        text = _PAGE.read_text()
        start = text.index(_HEADER)
        end = text.index("\n\n", start) if "\n\n" in text[start:] else len(text.rstrip())
        _PAGE.write_text(text[:start] + table + text[end:])


if __name__ == "__main__":
    app.run(main)
