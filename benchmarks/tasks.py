# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains ALF's tasks: `python -m benchmarks.tasks --file=FILE.jsonl --machine=NAME [--write]`.

Adds a line to the file for each run that it does not have yet, so that it may be stopped and called again.
--write puts the tables of all runs in the file into docs/measured.md.
"""

import datetime
import pathlib
import time

from absl import app, flags

from alf.config.gin_files import list_tasks
from benchmarks.series import add_row, read_rows, train_once
from benchmarks.task_table import format_tables, replace_tables

_FILE = flags.DEFINE_string("file", None, "File of the runs, JSON lines.", required=True)
_TASKS = flags.DEFINE_multi_string("task", [], "Name of a task, such as CartPole-v1; without it all of them.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each task, with the seeds 0, 1, ...", lower_bound=0)
_WRITE = flags.DEFINE_bool("write", False, "Writes the tables into docs/measured.md.")
_MACHINE = flags.DEFINE_string("machine", None, "Its name in docs/measured.md.", required=True)
_PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "measured.md"


def train_all(path, tasks, seeds, machine):
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
                "machine": machine,
            }
            add_row(path, row)
            print(f"{task} seed {seed}: {score:.1f} in {seconds:.0f} s", flush=True)


def main(argv):
    del argv
    path = pathlib.Path(_FILE.value)
    train_all(path, _TASKS.value or list_tasks(), _SEEDS.value, _MACHINE.value)
    tables = format_tables(read_rows(path))
    print(tables)
    if _WRITE.value:
        _PAGE.write_text(replace_tables(_PAGE.read_text(), tables))


if __name__ == "__main__":
    app.run(main)
