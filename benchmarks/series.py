# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Series of training runs that take hours: each run is a line of a file, so a series may be continued."""

import datetime
import json
import pathlib
import subprocess
import sys

from alf.plots.runs import read_run

RESULTS = pathlib.Path(__file__).resolve().parent / "results"  # the files of the series in docs/measured.md
TIMEOUT = 4 * 3600.0  # seconds of a run


def train_once(folder, *arguments):
    """Calls alf train for a run in `folder`.

    Returns:
        the curve, a list of (steps, seconds, average return of 100 episodes).
    """
    _call_alf("train", *arguments, f"--output={folder}")
    curve = read_run(folder).curve("AverageReturn")
    return [list(map(float, x)) for x in zip(curve.env_steps, curve.seconds, curve.values)]


def evaluate_once(folder, num_episodes, *arguments):
    """Calls alf evaluate for the run in `folder`; returns the means of its figures, a dict."""
    flags = f"--num_episodes={num_episodes}", "--parallel_envs=10", "--json", *arguments
    figures = json.loads(_call_alf("evaluate", folder, *flags))
    return {name: x["mean"] for name, x in figures.items() if isinstance(x, dict)}


def _call_alf(*arguments):
    command = [sys.executable, "-m", "alf", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout


def read_rows(path):
    """Returns the runs in a file, a list of dicts; [] if there is none."""
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def add_row(path, row):
    """Adds a run, a dict, to a file, with today's date."""
    with path.open("a") as file:
        file.write(json.dumps({**row, "date": datetime.date.today().isoformat()}) + "\n")


def split_by_machine(rows):
    """Returns the rows of each machine, a dict of lists, in the order of their names."""
    machines = sorted({row["machine"] for row in rows})
    return {x: [row for row in rows if row["machine"] == x] for x in machines}


def select_last_machine(rows):
    """Returns the rows of the machine of the last one."""
    return [row for row in rows if row["machine"] == rows[-1]["machine"]]


def format_caption(rows, command):
    """Returns the beginning of the paragraph above a table: the machine, the last day and the command."""
    return f"{rows[0]['machine']}, {max(row['date'] for row in rows)}, `{command}`"
