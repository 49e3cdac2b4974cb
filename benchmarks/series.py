# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Series of training runs that take hours: each run is a line of a file, so a series may be continued."""

import json
import subprocess
import sys
import tempfile

from alf.plots.runs import read_run

TIMEOUT = 7200.0  # seconds of a run


def train_once(*arguments):
    """Calls alf train; returns the curve, a list of (steps, seconds, average return of 100 episodes)."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "alf", "train", *arguments, f"--output={folder}/run"]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT)
        curve = read_run(f"{folder}/run").curve("AverageReturn")
        return [list(map(float, x)) for x in zip(curve.env_steps, curve.seconds, curve.values)]


def read_rows(path):
    """Returns the runs in a file, a list of dicts; [] if there is none."""
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def add_row(path, row):
    """Adds a run, a dict, to a file."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
