# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws learning curves: `alf plot DIR... -o FILE.png [--metric=NAME] [--target=NUMBER]`.

A DIR is the folder of a run, or a folder of runs. Runs that differ only in their seeds are one curve:
their mean, with its 95 % bootstrap interval as a band. Curves are named by the bindings that differ between
them; LABEL=DIR in place of DIR names the runs of that DIR. A file that is there is replaced.

--scores=last, with -o or without, prints a table of the runs' last values: mean, median and
interquartile mean of each curve's runs, and the probability that a run of one is better than a run of
another. The exit status is 0, 1 after an error, 2 if an argument is wrong.
"""

import os
import sys
from typing import Annotated

from absl import flags

from alf.bin.arguments import refuse_settings
from alf.bin.command import start_work
from alf.bin.flags import make_flags
from alf.config.kinds import AtLeast
from alf.config.registry import import_settings
from alf.config.settings import check_value
from alf.errors import ConfigError, import_extra
from alf.plots.curves import smooth
from alf.plots.groups import Group, find_algorithm, find_target, group_runs
from alf.plots.picture import FORMATS, Line, draw, format_of, save_picture
from alf.plots.runs import find_runs, read_run
from alf.plots.score_table import collect_scores, format_scores, parse_ranges

FLAGS = make_flags(output="File of the picture: .png, .svg or .pdf.")
flags.DEFINE_string(
    "metric", "AverageReturn", "Column of progress.csv, with or without metrics/.", flag_values=FLAGS
)
flags.DEFINE_float("smoothing", None, "Environment steps over which each point is a mean.", flag_values=FLAGS)
flags.DEFINE_float(
    "target",
    None,
    "Draws a line there. By default the target of the runs' StopCriteria, if all have one.",
    flag_values=FLAGS,
)
flags.DEFINE_string("title", "", "Text above the picture.", flag_values=FLAGS)
flags.DEFINE_enum(
    "scores",
    None,
    ["last", "best"],
    "Prints a table of the last or the highest value of each run.",
    flag_values=FLAGS,
)
flags.DEFINE_multi_string(
    "score_range",
    [],
    "ENVIRONMENT=LOW,HIGH: scores that become 0 and 1 in the table, whose groups then have runs of several "
    "environments. ENVIRONMENT may have *; may be repeated.",
    flag_values=FLAGS,
)


def run(arguments):
    """Draws and prints as the flags say; returns the exit status."""
    refuse_settings(arguments, FLAGS)
    # All that can be wrong without reading a run comes before TensorFlow, whose import takes seconds.
    output, ranges = _check_flags()
    start_work()
    import_settings()  # The runs' bindings are compared by the roles of ALF's settings.
    runs = _read_runs(arguments.names)
    if FLAGS.scores:
        groups = _group(runs, across_tasks=bool(ranges))
        scores = collect_scores(groups, lambda run: _read_curve(run).score(FLAGS.scores), ranges)
        print(format_scores(scores, f"{FLAGS.scores} {FLAGS.metric}"))
    if output:
        _draw(_group(runs), output)
    return 0


def _check_flags():
    """Raises ConfigError if a flag is wrong; returns the path of the picture or None, and the ranges."""
    if FLAGS.output:
        import_extra("matplotlib", "plot")
        if format_of(FLAGS.output) not in FORMATS:
            raise ConfigError(f"-o {FLAGS.output}: it must end in .{', .'.join(FORMATS)}")
    elif not FLAGS.scores:
        raise ConfigError("-o is missing: name the file of the picture; --scores=last prints a table")
    check_value("--smoothing", FLAGS.smoothing, Annotated[float, AtLeast(1)] | None)
    check_value("--target", FLAGS.target, float | None)
    _check_text("--title", FLAGS.title)
    if FLAGS.score_range and not FLAGS.scores:
        raise ConfigError(
            f"--score_range={FLAGS.score_range[0]}: it needs --scores, the table that it is for"
        )
    return FLAGS.output, parse_ranges(FLAGS.score_range)


def _check_text(name, text):
    """Raises ConfigError if Matplotlib cannot draw a text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name} is {text!r}: it must be UTF-8") from None


def _read_runs(arguments):
    """Reads the runs that the arguments name: a list of pairs of a label or "", and a `Run` with the metric.

    If no run has it, a ConfigError lists the columns.
    """
    if not arguments:
        raise ConfigError("no run is named: alf plot DIR... -o FILE.png")
    runs, seen = [], set()
    for argument in arguments:
        label, path = _split(argument)
        _check_text("the label", label)
        for found in _find(path):
            # Two arguments may name the same run, which would else count as two seeds.
            if os.path.realpath(found) not in seen:
                seen.add(os.path.realpath(found))
                runs.append((label, read_run(found)))
    kept = [(label, run) for label, run in runs if run.curve(FLAGS.metric) is not None]
    for _, run in runs:
        if run.curve(FLAGS.metric) is None:
            print(f"warning: {run.path} is left out: it has no {FLAGS.metric}", file=sys.stderr)
    if not kept:
        names = sorted({name for _, run in runs for name in run.columns})
        raise ConfigError(f"--metric={FLAGS.metric}: no run has it; there are {', '.join(names)}")
    return kept


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
        raise ConfigError(f"there is no folder {path!r}: name the folder of a run, or a folder of runs")
    found, without = find_runs(path)
    for other in without:
        print(f"warning: {other} is left out: it has no progress.csv", file=sys.stderr)
    if not found:
        raise ConfigError(f"there is no run in {path!r}: no progress.csv there, nor in its folders")
    return found


def _read_curve(run):
    """Returns the `Curve` of a run, smoothed; None if it has no value of the metric."""
    curve = run.curve(FLAGS.metric)
    if curve is None or FLAGS.smoothing is None:
        return curve
    return curve._replace(values=smooth(curve.env_steps, curve.values, FLAGS.smoothing))


def _group(runs, across_tasks=False):
    """Makes the `Group`s of the pairs of `_read_runs`; groups with a label of the user's come first."""
    labelled = {}
    for label, run in runs:
        labelled.setdefault(label, []).append(run)
    others = group_runs(labelled.pop("", []), across_tasks)
    groups = [Group(label, find_algorithm(own[0].settings), own) for label, own in labelled.items()]
    # Without a configuration there is nothing but the folder to name a group by.
    names = [os.path.basename(os.path.normpath(group.runs[0].path)) for group in others]
    return groups + [
        group._replace(label=group.label or name) for group, name in zip(others, names, strict=True)
    ]


def _draw(groups, output):
    """Draws the picture of the groups, and prints its path."""
    lines = [Line(*group[:2], [_read_curve(run) for run in group.runs]) for group in groups]
    target = FLAGS.target
    if target is None:
        target = find_target([run.settings for group in groups for run in group.runs], FLAGS.metric)
    save_picture(draw(lines, FLAGS.metric, target, FLAGS.title), output)
    print(f"{output}, runs: {sum(len(line.curves) for line in lines)}, curves: {len(lines)}")
