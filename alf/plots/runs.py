# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Finds runs and reads their settings and their curves."""

import os
from typing import NamedTuple

import numpy as np

from alf.config.comparison import parse_settings
from alf.config.gin_files import CONFIG_FILE
from alf.core.files import open_regular
from alf.errors import ConfigError
from alf.runs.progress_file import ENV_STEPS, PROGRESS_FILE, SECONDS, read_rows


class Curve(NamedTuple):
    """A metric of one run over time, arrays [N]."""

    env_steps: np.ndarray  # environment steps learned from; they do not decrease
    seconds: np.ndarray  # since the first train step, without the time between an end and a continuation
    values: np.ndarray

    def score(self, which):
        """Returns the "last" or the "best", which is the highest, of the values, a float."""
        return float(self.values[-1] if which == "last" else self.values.max())


class Run(NamedTuple):
    """The content of the files of a run."""

    path: str
    settings: dict  # the operative configuration, from the names of bindings to texts
    columns: dict  # from the columns of `progress.csv` to arrays [N], NaN where a row has no value

    def curve(self, metric):
        """Returns the `Curve` of a column, with or without "metrics/"; None if it has no values."""
        name = metric if metric in self.columns else f"metrics/{metric}"
        values = self.columns.get(name, np.empty(0))
        shown = np.flatnonzero(~np.isnan(values))
        if not len(shown):
            return None
        return Curve(*(column[shown] for column in (self.columns[ENV_STEPS], self.columns[SECONDS], values)))


def find_runs(path):
    """Lists the runs in a folder, at any depth.

    Returns:
        the sorted paths of the runs, which is `path` itself if it is a run; and the paths of runs without
        `progress.csv`.
    """
    runs, without = [], []
    for folder, names, files in os.walk(path):
        # `os.walk` goes on with this very list: sorted it gives the same order everywhere, empty it ends the
        # descent.
        names.sort()
        if PROGRESS_FILE in files or CONFIG_FILE in files:
            (runs if PROGRESS_FILE in files else without).append(folder)
            names.clear()  # do not look for runs inside a run
    return runs, without


def read_run(path):
    """Reads the `Run` in a folder. Raises ConfigError if one of its files cannot be read."""
    try:
        columns, rows = read_rows(os.path.join(path, PROGRESS_FILE))
        numbers = [[float(field) if field else np.nan for field in row] for row in rows]
        settings = {}
        if os.path.exists(os.path.join(path, CONFIG_FILE)):
            with open_regular(os.path.join(path, CONFIG_FILE), encoding="utf-8") as file:
                settings = parse_settings(file.read())
    except (OSError, ValueError) as error:
        raise ConfigError(f"the run {path!r} cannot be read: {error}") from None
    table = np.array(numbers).reshape(len(rows), len(columns))
    return Run(path, settings, dict(zip(columns, table.T, strict=True)))
