# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws learning curves: `alf plot DIR... -o FILE.png [--metric=NAME] [--target=NUMBER]`.

A DIR is the folder of a run, or a folder of runs. Runs that differ only in their seeds are one curve:
their mean, with its 95 % bootstrap interval as a band. Curves are named by the bindings that differ between
them, or by their folders if that is too long; LABEL=DIR in place of DIR names the runs of that DIR. Each
environment has axes of its own. A file that is there is replaced.

--scores=last, with -o or without, prints a table of the runs' last values: mean, median and
interquartile mean of each curve's runs, and the probability that a run of one is better than a run of
another. The exit status is 0, 1 after an error, 2 if an argument is wrong.
"""

from absl import flags

from alf.bin.arguments import refuse_settings
from alf.bin.flags import make_flags
from alf.bin.show import show
from alf.plots.plot import plot

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


_OF_PLOT = ("output", "metric", "smoothing", "target", "title", "scores", "score_range")


def run(arguments):
    """Draws and prints as the flags say; returns the exit status."""
    refuse_settings(arguments, FLAGS)
    values = {name: FLAGS[name].value for name in _OF_PLOT}
    plotted = plot(*arguments.names, **values)
    if plotted.scores is not None:
        show(plotted.scores)
    if FLAGS.output is not None:
        show(f"{FLAGS.output}, runs: {plotted.num_runs}, curves: {plotted.num_curves}")
    return 0
