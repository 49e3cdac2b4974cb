# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains ALF's tasks, and writes the table of docs/tasks.md: `python -m benchmarks.tasks --file=FILE.jsonl`.

Adds a line to the file for each run that it does not have yet, so that it may be stopped and called again.
--write puts the table of all runs in the file into docs/tasks.md.
"""

import datetime
import pathlib
import time

from absl import app, flags

from alf.config.gin_files import list_tasks
from benchmarks.series import add_row, read_rows, train_once
from benchmarks.task_table import HEADER, format_table

_FILE = flags.DEFINE_string("file", None, "File of the runs, JSON lines.", required=True)
_TASKS = flags.DEFINE_multi_string("task", [], "Name of a task, such as CartPole-v1; without it all of them.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each task, with the seeds 0, 1, ...", lower_bound=0)
_WRITE = flags.DEFINE_bool("write", False, "Writes the table into docs/tasks.md.")
_PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "tasks.md"


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


def main(argv):
    del argv
    path = pathlib.Path(_FILE.value)
    train_all(path, _TASKS.value or list_tasks(), _SEEDS.value)
    table = format_table(read_rows(path))
    print(table)
    if _WRITE.value:
        text = _PAGE.read_text()
        start = text.index(HEADER)
        end = text.index("\n\n", start) if "\n\n" in text[start:] else len(text.rstrip())
        _PAGE.write_text(text[:start] + table + text[end:])


if __name__ == "__main__":
    app.run(main)
