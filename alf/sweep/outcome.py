# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What came of a run, from the files in its root_dir."""

import json
import os
import signal
from typing import NamedTuple

import numpy as np

from alf.errors import ConfigError
from alf.plots.runs import read_run
from alf.runs.progress_file import ENV_STEPS, PROGRESS_FILE, SECONDS
from alf.runs.run_dir import DONE_FILE
from alf.sweep.processes import LOST

FINISHED, FAILED, INTERRUPTED, WAITING = "finished", "failed", "interrupted", "waiting"
LOG_FILE = "log.txt"  # in the root_dir of a run
_TAIL = 20_000  # bytes of a log in which its last error is looked for


class Outcome(NamedTuple):
    """What came of a run."""

    status: str = WAITING
    objective: float | None = None
    env_steps: int | None = None
    seconds: float | None = None
    error: str = ""

    @property
    def is_over(self):
        """Whether nothing more comes of it."""
        return self.status in (FINISHED, FAILED)


def read_status(path):
    """FINISHED if the run says so in its `done.json`, else WAITING."""
    try:
        with open(os.path.join(path, DONE_FILE), encoding="utf-8") as file:
            return FINISHED if json.load(file)["status"] == "SUCCESS" else WAITING
    except (OSError, ValueError, KeyError, TypeError):
        return WAITING


def read_objective(path, name, value):
    """Reads the `Outcome` of a run from its `progress.csv`, without its status; steps and seconds at its end.

    Args:
        path: the root_dir of the run; nothing need be there.
        name: column of `progress.csv`, with or without "metrics/".
        value: "last" or "best".
    """
    if not os.path.exists(os.path.join(path, PROGRESS_FILE)):
        return Outcome()
    try:
        run = read_run(path)
    except ConfigError:
        return Outcome()
    env_steps, seconds, curve = run.columns[ENV_STEPS], run.columns[SECONDS], run.curve(name)
    if not len(env_steps):
        return Outcome()
    objective = None
    if curve is not None:
        objective = float(curve.values[-1] if value == "last" else np.max(curve.values))
    return Outcome(WAITING, objective, int(env_steps[-1]), float(seconds[-1]))


def find_error(status, log, start):
    """Returns why a run failed, a line.

    Args:
        status: the exit status of its process, negative after a signal.
        log: path of its log.
        start: where in the log the process began to write.
    """
    if status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    if status == LOST:
        return "its process in the cluster could not start, or was lost"
    try:
        with open(log, "rb") as file:
            file.seek(max(start, os.path.getsize(log) - _TAIL))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    except OSError:
        lines = []
    lines = [line for line in lines if line]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or [f"exit status {status}, and its log is empty"])[-1]
