# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs to draw: where they are, their settings, and their curves from `progress.csv`."""

import os
from typing import NamedTuple

import numpy as np

from alf.config.comparison import parse_settings
from alf.config.gin_files import CONFIG_FILE
from alf.errors import ConfigError
from alf.runs.progress_file import ENV_STEPS, PROGRESS_FILE, SECONDS, read_rows


class Curve(NamedTuple):
    """How a metric of one run went, arrays [N]."""

    env_steps: np.ndarray  # learned from, over all runs in the root_dir; they do not decrease
    seconds: np.ndarray  # since the first train step, without pauses between runs
    values: np.ndarray


class Run(NamedTuple):
    """What the files of a run say."""

    path: str
    settings: dict  # the operative configuration: texts by the names of bindings
    columns: dict  # of `progress.csv`: arrays [N] by name, NaN where a row has no value

    def curve(self, metric):
        """The `Curve` of a column's name, which may lack "metrics/"; None if the run has no value of it."""
        name = metric if metric in self.columns else f"metrics/{metric}"
        values = self.columns.get(name, np.empty(0))
        shown = np.flatnonzero(~np.isnan(values))
        if not len(shown):
            return None
        return Curve(*(column[shown] for column in (self.columns[ENV_STEPS], self.columns[SECONDS], values)))


def find_runs(path):
    """Lists the runs in a folder.

    Returns:
        the paths of the runs, sorted: `path` itself if it is a run, else the runs in it, at any depth; and
        the paths of those that have no `progress.csv`.
    """
    runs, without = [], []
    for folder, names, files in os.walk(path):
        names.sort()
        if PROGRESS_FILE in files or CONFIG_FILE in files:
            (runs if PROGRESS_FILE in files else without).append(folder)
            names.clear()  # a run's own folders hold no other runs
    return runs, without


def read_run(path):
    """Reads the `Run` in a folder; raises ConfigError if one of its files cannot be read."""
    try:
        columns, rows = read_rows(os.path.join(path, PROGRESS_FILE))
        numbers = [[float(field) if field else np.nan for field in row] for row in rows]
        settings = {}
        if os.path.exists(os.path.join(path, CONFIG_FILE)):
            with open(os.path.join(path, CONFIG_FILE), encoding="utf-8") as file:
                settings = parse_settings(file.read())
    except (OSError, ValueError) as error:
        raise ConfigError(f"the run {path!r} cannot be read: {error}") from None
    table = np.array(numbers).reshape(len(rows), len(columns))
    return Run(path, settings, dict(zip(columns, table.T, strict=True)))
