# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws learning curves: `alf-plot DIR... --output=FILE.png [--metric=NAME] [--target=NUMBER]`.

A DIR is the root_dir of a run, or a folder of runs. Runs that differ only in their seeds are one curve:
their mean, with its 95 % bootstrap interval as a band. Curves are named by the bindings that differ between
them; LABEL=DIR in place of DIR names the runs of that DIR. A file that is there is replaced. The exit status
is 0, 1 after an error, 2 if an argument is wrong.
"""

import os
import sys
from typing import Annotated

from absl import flags

from alf.bin.command import make_main, start, start_work
from alf.config.kinds import AtLeast
from alf.config.registry import import_settings
from alf.config.settings import check_value
from alf.errors import ConfigError, import_extra
from alf.plots.curves import smooth
from alf.plots.groups import Group, find_algorithm, find_target, group_runs
from alf.plots.picture import FORMATS, Line, draw, format_of, save_picture
from alf.plots.runs import find_runs, read_run

_OUTPUT = flags.DEFINE_string("output", None, "File of the picture: .png, .svg or .pdf.")
_METRIC = flags.DEFINE_string("metric", "AverageReturn", "Column of progress.csv, with or without metrics/.")
_SMOOTHING = flags.DEFINE_float("smoothing", None, "Environment steps over which each point is a mean.")
_TARGET = flags.DEFINE_float(
    "target", None, "Draws a line there. By default the target of the runs' StopCriteria, if all have one."
)
_TITLE = flags.DEFINE_string("title", "", "Text above the picture.")


def run(arguments):
    """Draws as the flags say; returns the exit status."""
    # All that can be wrong without reading a run comes before TensorFlow, whose import takes seconds.
    import_extra("matplotlib", "plot")
    output = _check_flags()
    start_work()
    import_settings()  # The runs' bindings are compared by the roles of ALF's settings.
    groups = _read_groups(arguments)
    lines = _make_lines(groups)
    target = _TARGET.value
    if target is None:
        target = find_target([run.settings for group in groups for run in group.runs], _METRIC.value)
    figure = draw(lines, _METRIC.value, target, _TITLE.value)
    save_picture(figure, output)
    print(f"{output}, runs: {sum(len(line.curves) for line in lines)}, curves: {len(lines)}")
    return 0


def _check_flags():
    """Raises ConfigError if a flag is wrong; returns the path of the picture."""
    if not _OUTPUT.value:
        raise ConfigError("--output is not set: name the file of the picture")
    check_value("--smoothing", _SMOOTHING.value, Annotated[float, AtLeast(1)] | None)
    check_value("--target", _TARGET.value, float | None)
    _check_text("--title", _TITLE.value)
    if format_of(_OUTPUT.value) not in FORMATS:
        raise ConfigError(f"--output={_OUTPUT.value}: it must end in .{', .'.join(FORMATS)}")
    return os.path.expanduser(_OUTPUT.value)


def _check_text(name, text):
    """Raises ConfigError if Matplotlib cannot draw a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name} is {text!r}: it must be UTF-8") from None


def _read_groups(arguments):
    """Reads the `Group`s of the runs that the arguments name; groups with a label come first."""
    if not arguments:
        raise ConfigError("no run is named: alf-plot DIR... --output=FILE.png")
    labelled, others, seen = {}, [], set()
    for argument in arguments:
        label, path = _split(argument)
        _check_text("the label", label)
        for found in _find(path):
            # Two arguments may name the same run, which would else count as two seeds.
            if os.path.realpath(found) not in seen:
                seen.add(os.path.realpath(found))
                (labelled.setdefault(label, []) if label else others).append(read_run(found))
    groups = [Group(label, find_algorithm(runs[0].settings), runs) for label, runs in labelled.items()]
    return groups + group_runs(others)


def _split(argument):
    """Splits an argument into a label or "", and a path. A folder may have a "=" in its name."""
    whole = os.path.expanduser(argument)
    # The folder first: a label is only what stands in front of the "=" of another path.
    if os.path.isdir(whole):
        return "", whole
    label, _, path = argument.partition("=")
    return (label, os.path.expanduser(path)) if path else ("", whole)


def _find(path):
    if not os.path.isdir(path):
        raise ConfigError(f"there is no folder {path!r}: name the root_dir of a run, or a folder of runs")
    found, without = find_runs(path)
    for other in without:
        print(f"warning: {other} is left out: it has no progress.csv", file=sys.stderr)
    if not found:
        raise ConfigError(f"there is no run in {path!r}: no progress.csv there, nor in its folders")
    return found


def _make_lines(groups):
    """Makes the `Line`s of the groups. If no run has the metric, a ConfigError lists the columns."""
    lines = []
    for group in groups:
        curves = [run.curve(_METRIC.value) for run in group.runs]
        for run, curve in zip(group.runs, curves, strict=True):
            if curve is None:
                print(f"warning: {run.path} is left out: it has no {_METRIC.value}", file=sys.stderr)
        curves = [_smooth(curve) for curve in curves if curve is not None]
        if curves:
            label = group.label or os.path.basename(os.path.normpath(group.runs[0].path))
            lines.append(Line(label, group.algorithm, curves))
    if not lines:
        names = sorted({name for group in groups for run in group.runs for name in run.columns})
        raise ConfigError(f"--metric={_METRIC.value}: no run has it; there are {', '.join(names)}")
    return lines


def _smooth(curve):
    if _SMOOTHING.value is None:
        return curve
    return curve._replace(values=smooth(curve.env_steps, curve.values, _SMOOTHING.value))


main = make_main(run, takes_arguments=True)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
