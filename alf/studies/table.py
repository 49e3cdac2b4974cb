# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Writes the tables and the picture of a sweep."""

import os
from typing import Any, NamedTuple

import numpy as np

from alf.core.files import write_file
from alf.plots.groups import find_algorithm, find_target, name_folders
from alf.plots.picture import Line, draw, save_picture
from alf.plots.score_table import to_markdown
from alf.plots.scores import MIN_RUNS, estimate, interquartile_mean, mean
from alf.studies.outcome import FAILED, FINISHED, PRUNED, read_progress
from alf.studies.state import write_csv
from alf.studies.trials import describe, shorten

RUNS_FILE, TABLE_FILE, MARKDOWN_FILE, PICTURE_FILE = "runs.csv", "sweep.csv", "sweep.md", "curves.png"
_MAX_LINES = 10  # of the picture
_RUN_COLUMNS = ("seed", "status", "objective", "env_steps", "seconds", "folder", "error")


class Row(NamedTuple):
    """A line of the table: figures of the finished runs of a trial; None without finished runs."""

    settings: dict
    runs: list
    finished: int
    failed: int
    pruned: int
    mean: float | None = None  # of the objective
    low: float | None = None  # the ends of its 95 % interval; of few runs, the lowest and the highest
    high: float | None = None
    iqm: float | None = None  # the interquartile mean of the objective, and its interval
    iqm_low: float | None = None
    iqm_high: float | None = None
    env_steps: float | None = None  # means, at the ends of the runs
    seconds: float | None = None
    judged: int = 0  # the finished runs that have the objective
    best: Any = None  # the `SweepRun` with the highest objective


_FIGURES = Row._fields[2:-2]
_ESTIMATES = ("mean", "low", "high", "iqm", "iqm_low", "iqm_high")


def make_rows(study):
    """Makes the `Row`s of a `SweepStudy`: the best mean first, then rows without a mean, then pruned ones."""
    rows = [_make_row(settings, runs, study.outcomes) for settings, runs in study.list_trials()]
    return sorted(rows, key=lambda row: (row.pruned > 0, row.mean is None, -(row.mean or 0.0)))


def _make_row(settings, runs, outcomes):
    statuses = [outcomes[run.path].status for run in runs]
    row = Row(settings, runs, *map(statuses.count, (FINISHED, FAILED, PRUNED)))
    finished = [(run, outcomes[run.path]) for run in runs if outcomes[run.path].status == FINISHED]
    # A run may finish without a value, for example if no episode has ended: it counts, but not in the mean.
    judged = [(run, outcome) for run, outcome in finished if outcome.objective is not None]
    if not judged:
        return row
    objectives = np.array([outcome.objective for _, outcome in judged])
    figures = (*estimate(mean, [objectives]), *estimate(interquartile_mean, [objectives]))
    return row._replace(
        **dict(zip(_ESTIMATES, figures, strict=True)),
        env_steps=float(np.mean([outcome.env_steps for _, outcome in judged])),
        seconds=float(np.mean([outcome.seconds for _, outcome in judged])),
        judged=len(judged),
        best=judged[np.argmax(objectives)][0],
    )


def write_tables(study):
    """Writes the tables of a `SweepStudy` into its folder; returns the table of the trials as Markdown.

    SaveError is raised if a table cannot be written.
    """
    rows = make_rows(study)
    names = list(rows[0].settings) if rows else []
    trials = [[*names, *_FIGURES], *([*row.settings.values(), *row[2:-2]] for row in rows)]
    runs = [list(run.values()) for run in list_runs(study)]
    # Everything is made before the first file is written, so that the files belong together.
    text = _format_markdown(rows, study.outcomes, study.objective)
    write_csv(os.path.join(study.folder, RUNS_FILE), [[*names, *_RUN_COLUMNS], *runs])
    write_csv(os.path.join(study.folder, TABLE_FILE), trials)
    write_file(os.path.join(study.folder, MARKDOWN_FILE), text)
    return text


def list_runs(study):
    """Returns a list with a dict for each run of a `SweepStudy`: its settings, and what came of it."""
    runs = []
    for run in study.runs:
        figures = {"seed": run.seed, "folder": os.path.relpath(run.path, study.folder)}
        figures |= study.outcomes[run.path]._asdict()
        runs.append(run.settings | {name: figures[name] for name in _RUN_COLUMNS})
    return runs


def _format_markdown(rows, outcomes, objective):
    """Returns a Markdown table with a line for each trial, and below it a line for each failed run."""
    names = list(rows[0].settings) if rows else []
    # Of fewer runs it is the mean.
    has_iqm = any(row.finished >= 4 for row in rows)
    lines = [[*names, "runs", "failed", objective, "interval"]]
    lines[0] += [*["IQM", "interval"] * has_iqm, "env steps", "seconds"]
    for row in rows:
        figures = ["-"] * (len(lines[0]) - len(names) - 2)
        if row.mean is not None:
            what = "95 %" if row.judged >= MIN_RUNS else "runs"
            figures = [f"{row.mean:.6g}", f"{what}: {row.low:.6g} to {row.high:.6g}"]
            figures += [f"{row.iqm:.6g}", f"{what}: {row.iqm_low:.6g} to {row.iqm_high:.6g}"] * has_iqm
            figures += [f"{row.env_steps:,.0f}", f"{row.seconds:,.1f}"]
        runs = f"{row.finished} of {len(row.runs)}{', pruned' * (row.pruned > 0)}"
        lines.append([*map(shorten, row.settings.values()), runs, str(row.failed), *figures])
    failed = [run for row in rows for run in row.runs if outcomes[run.path].status == FAILED]
    text = to_markdown(lines)
    if failed:
        text += "\n" + to_markdown(
            [["failed run", "error"], *([run.describe(), outcomes[run.path].error] for run in failed)]
        )
    return text


def draw_curves(study):
    """Draws the learning curves of the best trials into the study's folder; returns their number.

    The seeds of a trial are one curve. If the number is 0, there is no picture. SaveError is raised if the
    picture cannot be written.
    """
    lines, settings, paths = [], [], []
    for row in make_rows(study):
        runs = [run for run in (read_progress(run.path) for run in row.runs) if run is not None]
        curves = [curve for curve in (run.curve(study.objective) for run in runs) if curve is not None]
        if curves and len(lines) < _MAX_LINES:
            algorithm = find_algorithm(runs[0].settings)
            lines.append(Line(describe(row.settings) or algorithm, algorithm, curves))
            settings += [run.settings for run in runs]
            paths.append([run.path for run in runs])
    if not lines:
        return 0
    count = len(study.list_trials())
    title = f"the best {len(lines)} of {count}" if count > len(lines) == _MAX_LINES else ""
    lines = [x._replace(folder=name) for x, name in zip(lines, name_folders(paths), strict=True)]
    figure = draw(lines, study.objective, find_target(settings, study.objective), title)
    save_picture(figure, os.path.join(study.folder, PICTURE_FILE))
    return len(lines)
