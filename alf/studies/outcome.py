# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The outcome of a run, read from the files in its root_dir."""

import os
from typing import NamedTuple

from alf.errors import ConfigError
from alf.plots.runs import read_run
from alf.runs.progress_file import ENV_STEPS, PROGRESS_FILE, SECONDS
from alf.runs.run_dir import has_succeeded

FINISHED, FAILED, PRUNED = "finished", "failed", "pruned"
INTERRUPTED, WAITING = "interrupted", "waiting"


class Outcome(NamedTuple):
    """How a run has ended, with its figures.

    Attributes:
        status: FINISHED, FAILED, PRUNED, INTERRUPTED or WAITING.
        objective: float, or None if the run has no value of it.
        env_steps, seconds: numbers of the last row of its progress; None without any row.
        error: text, a line, if it has failed.
    """

    status: str = WAITING
    objective: float | None = None
    env_steps: int | None = None
    seconds: float | None = None
    error: str = ""

    @property
    def is_over(self):
        """Whether the run is not to be trained any more."""
        return self.status in (FINISHED, FAILED, PRUNED)


def read_status(path):
    """FINISHED if the run says so in its `done.json`, else WAITING."""
    # A run that failed or was interrupted is tried again. Its exit status tells `SweepStudy` that it failed.
    return FINISHED if has_succeeded(path) else WAITING


def read_outcome(path, name, value):
    """Reads the `Outcome` of a run from its files, which do not say whether it has FAILED.

    Args:
        path: the root_dir of the run, which need not exist.
        name: column of `progress.csv`, with or without "metrics/".
        value: "last" or "best".
    """
    run, status = read_progress(path), read_status(path)
    # A finished run may have no row: a full disk, for example, costs only the summaries.
    if run is None or not len(run.columns[ENV_STEPS]):
        return Outcome(status)
    curve = run.curve(name)
    objective = None if curve is None else curve.score(value)
    return Outcome(status, objective, int(run.columns[ENV_STEPS][-1]), float(run.columns[SECONDS][-1]))


def read_progress(path):
    """Returns the `alf.plots.runs.Run` in a folder; None if it has not begun, or cannot be read."""
    if not os.path.exists(os.path.join(path, PROGRESS_FILE)):
        return None
    try:
        return read_run(path)
    except ConfigError:
        return None
