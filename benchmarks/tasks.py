# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains the rows of `benchmarks.task_list`, and evaluates what they have learned.

    python -m benchmarks.tasks --machine=NAME [--row=REGEX] [--seeds=3]

Adds a line to the file for each run that it does not have yet, so that it may be stopped and called again. A
run that takes under two minutes is made with five seeds. Prints the tables of all runs in the file.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import numpy as np
from absl import app, flags

from alf.config.gin_files import list_tasks
from benchmarks.agents import RUNS
from benchmarks.series import RESULTS, add_row, evaluate_once, read_rows, train_once
from benchmarks.task_list import list_rows
from benchmarks.task_table import format_tables

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FILE = flags.DEFINE_string("file", str(RESULTS / "tasks.jsonl"), "File of the runs, JSON lines.")
_ROW = flags.DEFINE_string("row", "", "Regular expression in the arguments of a row; all rows without it.")
_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each row, with the seeds 0, 1, ...", lower_bound=0)
_MACHINE = flags.DEFINE_string("machine", None, "Its name in docs/measured.md.", required=True)
_SHORT, _SEEDS_OF_SHORT = 120.0, 5  # seconds of a run
_EPISODES = 100  # of an evaluation
_POINTS = 50  # of a curve


def find_revision():
    """Returns the hash of the folder alf/ in git: other commits leave a series as it is.

    Raises:
        RuntimeError: if files of alf/ are not committed.
    """
    if _call_git("status", "--porcelain", "alf"):
        raise RuntimeError("commit alf/ first: a run's line names what was run")
    return _call_git("rev-parse", "--short=10", "HEAD:alf")


def _call_git(*arguments):
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, cwd=_ROOT)
    return done.stdout.strip()


def train_all(path, rows, seeds, machine):
    """Adds the runs to the file that it lacks."""
    if not seeds:
        return
    revision = find_revision()
    for seed in range(max(seeds, _SEEDS_OF_SHORT)):
        for row in rows:
            mine = [run for run in read_rows(path) if run["arguments"] == row.arguments]
            mine = [run for run in mine if (run["machine"], run["revision"]) == (machine, revision)]
            is_short = bool(mine) and mine[0]["seconds"] < _SHORT
            if seed >= seeds and not is_short or seed in [run["seed"] for run in mine]:
                continue
            run = {"arguments": row.arguments, "seed": seed, **make_run(row, seed)}
            add_row(path, {**run, "revision": revision, "machine": machine})
            print(f"{row.arguments}, seed {seed}: {run['score']:.1f} in {run['seconds']:.0f} s", flush=True)


def make_run(row, seed):
    """Trains once and evaluates the policy; returns a dict of figures."""
    with _make_folder(row, seed) as folder:
        start = time.monotonic()
        curve = train_once(folder, *row.arguments.split(), f"--seed={seed}")
        seconds = time.monotonic() - start
        steps, _, training = curve[-1]
        return {
            "steps": int(steps),
            **(play_seats(folder) if row.is_game else {"score": evaluate_once(folder, _EPISODES)["return"]}),
            "training": training,
            "seconds": round(seconds, 1),
            "curve": thin_curve(curve),
        }


def play_seats(folder):
    """Evaluates "main" of a league against random play, once in each seat.

    Returns:
        a dict: the mean return over the seats, and for each seat the shares of games won and lost.
    """
    agents = [re.fullmatch("agents/(.*)/return", name) for name in evaluate_once(folder, 1)]
    names = [found[1] for found in agents if found]
    returns, seats = [], {}
    for seat in names:
        policies = ",".join(f"{name}={'main' if name == seat else 'random'}" for name in names)
        figures = evaluate_once(folder, _EPISODES, f"--policy={policies}")
        returns.append(figures["policies/main/return"])
        seats[seat] = [figures[f"policies/{policy}/win"] for policy in ("main", "random")]
    return {"score": float(np.mean(returns)), "seats": seats}


def thin_curve(curve):
    """Returns fifty points (steps, seconds, return) of a curve at most, from the first to the last."""
    chosen = np.unique(np.linspace(0, len(curve) - 1, _POINTS).round().astype(int))
    return [
        [int(steps), round(passed, 1), round(value, 3)] for steps, passed, value in np.array(curve)[chosen]
    ]


@contextlib.contextmanager
def _make_folder(row, seed):
    """Chooses the folder of a run: `make agents` packs the first run of a task, all others are removed."""
    name = row.arguments.removeprefix("alf:")
    if seed == 0 and name in list_tasks():
        folder = RUNS / name
        shutil.rmtree(folder, ignore_errors=True)
        yield str(folder)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"{folder}/run"


def main(argv):
    del argv
    path = pathlib.Path(_FILE.value)
    rows = [row for row in list_rows() if re.search(_ROW.value, row.arguments)]
    train_all(path, rows, _SEEDS.value, _MACHINE.value)
    print(format_tables(read_rows(path)))


if __name__ == "__main__":
    app.run(main)
