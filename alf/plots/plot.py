# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""plot: draws the learning curves of runs, and compares their scores."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

from alf.config.kinds import AtLeast
from alf.config.registry import import_settings
from alf.config.settings import checked
from alf.core.annotations import FilePath
from alf.core.startup import import_tensorflow
from alf.errors import ConfigError, argument, import_extra
from alf.plots.curves import smooth
from alf.plots.groups import Group, find_algorithm, find_target, find_task, group_runs, name_folders
from alf.plots.picture import FORMATS, Line, draw, format_of, save_picture
from alf.plots.runs import find_runs, read_run
from alf.plots.score_table import collect_scores, format_scores, parse_ranges


class Plotted(NamedTuple):
    """What `plot` has found.

    Attributes:
        scores: text, the table of the scores, or None.
        num_runs, num_curves: ints, of the picture; 0 without one.
    """

    scores: str | None
    num_runs: int
    num_curves: int


@checked
def plot(
    *runs: FilePath,
    output: FilePath | None = None,
    metric: str = "AverageReturn",
    smoothing: Annotated[float, AtLeast(1)] | None = None,
    target: float | None = None,
    title: str = "",
    scores: Literal["last", "best"] | None = None,
    score_range: Sequence[str] = (),
) -> Plotted:
    """Draws the learning curves of runs into a file, as `alf plot` does.

        alf.plot("runs/a", "runs/b", output="curves.png")

    Args:
        *runs: paths of runs, or of folders of runs; "LABEL=PATH" names the runs of a path.
        output: path of the picture, .png, .svg or .pdf, which is replaced. None: there must be `scores`.
        metric: column of `progress.csv`, with or without "metrics/".
        smoothing: environment steps over which each point is a mean; None: none.
        target: draws a line there. None: the target of the runs' `StopCriteria`, if all have one.
        title: text above the picture.
        scores: "last" or "best", which value of each run the table has; None makes no table.
        score_range: texts "ENVIRONMENT=LOW,HIGH": scores that become 0 and 1 in the table, whose groups then
            have runs of several environments.

    Returns:
        `Plotted`.

    Raises:
        ConfigError: if an argument is wrong, no run has the metric, or Matplotlib is missing.
    """
    # All that can be wrong without reading a run comes before TensorFlow, whose import takes seconds.
    path = None if output is None else os.path.expanduser(output)
    if path is not None:
        import_extra("matplotlib", "plot")
        if format_of(path) not in FORMATS:
            raise ConfigError(f"{argument('output')} is {output}: it must end in .{', .'.join(FORMATS)}")
    elif scores is None:
        raise ConfigError(
            f"{argument('output')} is missing: name the file of the picture, or ask for {argument('scores')}"
        )
    _check_text(argument("title"), title)
    if score_range and scores is None:
        name = argument("score_range", score_range[0])
        raise ConfigError(f"{name}: it needs {argument('scores')}, the table that it is for")
    ranges = parse_ranges(score_range)
    import_tensorflow()
    import_settings()  # The runs' bindings are compared by the roles of ALF's settings.
    found, table, lines = _read_runs(runs, metric), None, []

    def read_curve(run):
        curve = run.curve(metric)
        if curve is None or smoothing is None:
            return curve
        return curve._replace(values=smooth(curve.env_steps, curve.values, smoothing))

    if scores is not None:
        groups = _group(found, across_tasks=bool(ranges))
        table = format_scores(
            collect_scores(groups, lambda run: read_curve(run).score(scores), ranges), f"{scores} {metric}"
        )
    if path is not None:
        groups = _group(found, across_tasks=True)
        lines = _make_lines(groups, {label for label, _ in found}, read_curve)
        if target is None:
            target = _find_targets([run.settings for _, run in found], metric)
        save_picture(draw(lines, metric, target, title), path)
    return Plotted(table, sum(len(line.curves) for line in lines), len(lines))


def _make_lines(groups, own_labels, read_curve):
    """Makes the `Line`s of a picture from `Group`s; `own_labels` are those that the user has given."""
    lines = []
    folders = name_folders([[run.path for run in group.runs] for group in groups])
    for group, folder in zip(groups, folders, strict=True):
        curves: dict = {}
        for run in group.runs:
            curves.setdefault(find_task(run.settings), []).append(read_curve(run))
        folder = "" if group.label in own_labels else folder
        lines += [Line(group.label, group.algorithm, own, folder, task) for task, own in curves.items()]
    return lines


def _find_targets(all_settings, metric):
    """Returns the target of all runs, or a dict of them by environment if there are several."""
    tasks: dict = {}
    for settings in all_settings:
        tasks.setdefault(find_task(settings), []).append(settings)
    targets = {task: find_target(own, metric) for task, own in tasks.items()}
    return targets if len(targets) > 1 else next(iter(targets.values()))


def _check_text(name, text):
    """Raises ConfigError if Matplotlib cannot draw a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name} is {text!r}: it must be UTF-8") from None


def _read_runs(names, metric):
    """Reads the runs that arguments name: a list of pairs of a label or "", and a `Run` with the metric.

    If no run has it, a ConfigError lists the columns.
    """
    if not names:
        raise ConfigError("no run is named: alf plot DIR... -o FILE.png")
    runs, seen = [], set()
    for name in names:
        label, path = _split(name)
        _check_text("the label", label)
        for found in _find(path):
            # Two arguments may name the same run, which would else count as two seeds.
            if os.path.realpath(found) not in seen:
                seen.add(os.path.realpath(found))
                runs.append((label, read_run(found)))
    kept = [(label, run) for label, run in runs if run.curve(metric) is not None]
    for _, run in runs:
        if run.curve(metric) is None:
            print(f"warning: {run.path} is left out: it has no {metric}", file=sys.stderr)
    if not kept:
        columns = sorted({name for _, run in runs for name in run.columns})
        given = f"{argument('metric')} is {metric!r}"
        raise ConfigError(f"{given}: no run has it; there are {', '.join(columns)}")
    return kept


def _split(name):
    """Splits an argument into a label or "", and a path. A folder may have a "=" in its name."""
    whole = os.path.expanduser(name)
    # The folder first: a label is only what stands in front of the "=" of another path.
    if os.path.isdir(whole):
        return "", whole
    label, _, path = str(name).partition("=")
    return (label, os.path.expanduser(path)) if path else ("", whole)


def _find(path):
    if not os.path.isdir(path):
        raise ConfigError(f"there is no folder {path!r}: name the folder of a run, or a folder of runs")
    found, without = find_runs(path)
    for other in without:
        print(f"warning: {other} is left out: it has no progress.csv", file=sys.stderr)
    if not found:
        raise ConfigError(f"there is no run in {path!r}: no progress.csv there, nor in its folders")
    return found


def _group(runs, across_tasks=False):
    """Makes the `Group`s of the pairs of `_read_runs`; groups with a label of the user's come first."""
    labelled: dict = {}
    for label, run in runs:
        labelled.setdefault(label, []).append(run)
    others = group_runs(labelled.pop("", []), across_tasks)
    groups = [Group(label, find_algorithm(own[0].settings), own) for label, own in labelled.items()]
    # Without a configuration there is nothing but the folder to name a group by.
    names = [os.path.basename(os.path.normpath(group.runs[0].path)) for group in others]
    return groups + [
        group._replace(label=group.label or name) for group, name in zip(others, names, strict=True)
    ]
