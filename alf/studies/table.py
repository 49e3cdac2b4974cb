# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The tables and the picture of a sweep."""

import csv
import io
import os
from typing import NamedTuple

import numpy as np

from alf.core.files import write_file
from alf.errors import ConfigError
from alf.plots.curves import mean_and_interval
from alf.plots.groups import find_algorithm, find_target
from alf.plots.picture import Line, draw, save_picture
from alf.plots.runs import read_run
from alf.studies.outcome import FAILED, FINISHED
from alf.studies.sweep_study import Run
from alf.studies.trials import describe, shorten

RUNS_FILE, TABLE_FILE, MARKDOWN_FILE, PICTURE_FILE = "runs.csv", "sweep.csv", "sweep.md", "curves.png"
_MAX_LINES = 10  # of the picture
_FIGURES = ("finished", "failed", "mean", "low", "high", "env_steps", "seconds")
_RUN_COLUMNS = ("seed", "status", "objective", "env_steps", "seconds", "folder", "error")


class Row(NamedTuple):
    """What came of a trial: figures of its runs that have finished, None where there is none."""

    settings: dict
    runs: list
    finished: int
    failed: int
    mean: float | None  # of the objective
    low: float | None  # the ends of its 95 % bootstrap interval
    high: float | None
    env_steps: float | None  # means, at the ends of the runs
    seconds: float | None
    best: Run | None  # the run with the highest objective


def make_rows(study):
    """Makes the `Row`s of a `SweepStudy`, the best mean first, those without one last."""
    rows = [_make_row(settings, runs, study.outcomes) for settings, runs in study.list_trials()]
    return sorted(rows, key=lambda row: (row.mean is None, -(row.mean or 0.0)))


def _make_row(settings, runs, outcomes):
    ended = [outcomes[run.path] for run in runs]
    finished, failed = (sum(outcome.status == status for outcome in ended) for status in (FINISHED, FAILED))
    judged = [run for run in runs if _is_judged(outcomes[run.path])]
    if not judged:
        return Row(settings, runs, finished, failed, *[None] * 6)
    objectives, *ends = (
        np.array([getattr(outcomes[run.path], name) for run in judged])
        for name in ("objective", "env_steps", "seconds")
    )
    figures = [float(x[0]) for x in mean_and_interval(objectives[:, np.newaxis])]
    figures += [float(np.mean(x)) for x in ends]
    return Row(settings, runs, finished, failed, *figures, judged[np.argmax(objectives)])


def _is_judged(outcome):
    return outcome.status == FINISHED and outcome.objective is not None


def write_tables(folder, study):
    """Writes the tables of a sweep into its folder; returns that of the trials as Markdown.

    SaveError is raised if one cannot be written.
    """
    rows = make_rows(study)
    text = format_markdown(rows, study.outcomes, study.objective)
    texts = {
        RUNS_FILE: format_runs(study, folder),
        TABLE_FILE: format_csv(rows),
        MARKDOWN_FILE: text,
    }
    for name, content in texts.items():
        write_file(os.path.join(folder, name), content)
    return text


def format_runs(study, folder):
    """Makes the text of a CSV file, a line for each run."""
    names = list(dict.fromkeys(name for settings, _ in study.list_trials() for name in settings))
    lines = [[*names, *_RUN_COLUMNS]]
    for run in study.runs:
        outcome = study.outcomes[run.path]
        figures = {**outcome._asdict(), "seed": run.seed, "folder": os.path.relpath(run.path, folder)}
        lines.append([run.settings[name] for name in names] + [figures[name] for name in _RUN_COLUMNS])
    return to_csv(lines)


def format_csv(rows):
    """Makes the text of a CSV file, a line for each trial."""
    names = list(rows[0].settings) if rows else []
    lines = [[*names, *_FIGURES]]
    lines += [[*row.settings.values(), *(getattr(row, name) for name in _FIGURES)] for row in rows]
    return to_csv(lines)


def format_markdown(rows, outcomes, objective):
    """Makes a table in Markdown, a line for each trial; below it a line for each run that has failed."""
    names = list(rows[0].settings) if rows else []
    heads = [*names, "runs", "failed", objective, "95 % interval", "env steps", "seconds"]
    lines = [heads, ["---"] * len(heads)]
    for row in rows:
        figures = [f"{row.finished} of {len(row.runs)}", str(row.failed)] + ["-"] * 4
        if row.mean is not None:
            figures[2:] = [f"{row.mean:.6g}", f"{row.low:.6g} to {row.high:.6g}"]
            figures += [f"{row.env_steps:,.0f}", f"{row.seconds:,.1f}"]
        lines.append([*map(shorten, row.settings.values()), *figures])
    failed = [run for row in rows for run in row.runs if outcomes[run.path].status == FAILED]
    text = _to_markdown(lines)
    if failed:
        errors = [[run.describe(), outcomes[run.path].error] for run in failed]
        text += "\n" + _to_markdown([["failed run", "error"], ["---"] * 2, *errors])
    return text


def draw_curves(folder, study):
    """Draws the learning curves of the best trials into the folder; returns how many, 0 without a picture.

    The seeds of a trial are one curve. SaveError is raised if the picture cannot be written.
    """
    lines, settings = [], []
    for row in make_rows(study):
        runs = [run for run in map(_read, row.runs) if run is not None]
        curves = [curve for curve in (run.curve(study.objective) for run in runs) if curve is not None]
        if curves and len(lines) < _MAX_LINES:
            algorithm = find_algorithm(runs[0].settings)
            lines.append(Line(describe(row.settings) or algorithm, algorithm, curves))
            settings += [run.settings for run in runs]
    if not lines:
        return 0
    count = len(study.list_trials())
    title = f"the best {len(lines)} of {count}" if count > len(lines) == _MAX_LINES else ""
    figure = draw(lines, study.objective, find_target(settings, study.objective), title)
    save_picture(figure, os.path.join(folder, PICTURE_FILE))
    return len(lines)


def _read(run):
    try:
        return read_run(run.path)
    except ConfigError:  # it has not begun
        return None


def to_csv(lines):
    """Makes the text of a CSV file of lists of cells."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _to_markdown(lines):
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
