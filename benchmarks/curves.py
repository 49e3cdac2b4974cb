# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws learning curves: `python -m benchmarks.curves --png=FILE [--target=RETURN] LABEL=DIR ...`.

DIR is the root_dir of a run. The average return of the last 100 episodes is drawn against environment steps
and against wall time. Runs with one label are seeds of one line: their mean, and their range as a band.
Prints one JSON object: where each run ended, and where it first reached the target.
"""

import glob
import json
import os
import sys
from typing import NamedTuple

import matplotlib
import numpy as np
from absl import app, flags
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

from benchmarks.lines import draw_line

_PNG = flags.DEFINE_string("png", None, "File to write the picture to.", required=True)
_TITLE = flags.DEFINE_string("title", "", "Above the picture.")
_TARGET = flags.DEFINE_float("target", None, "A return to draw a line at, and to look for.")

_EPISODES = 100  # that a return is the average of, once there are so many


class Curve(NamedTuple):
    """What one run wrote, arrays [N].

    Attributes:
        env_steps: environment steps learned from, over all runs in the root_dir.
        seconds: wall time since the run began, without pauses between runs.
        returns: average return of the last 100 episodes.
        episodes: episodes so far.
    """

    env_steps: np.ndarray
    seconds: np.ndarray
    returns: np.ndarray
    episodes: np.ndarray


def read_curve(root_dir):
    """Reads the event files in `root_dir`/train; exits with an error if they hold no return."""
    files = [list(EventFileLoader(path).Load()) for path in glob.glob(f"{root_dir}/train/*tfevents*")]
    rows = []
    seconds = 0.0
    for events in sorted(filter(None, files), key=lambda events: events[0].wall_time):
        episodes = {}
        for event in events:
            for value in event.summary.value:
                elapsed = seconds + event.wall_time - events[0].wall_time
                if value.tag == "metrics/AverageReturn":
                    rows.append([event.step, elapsed, _number(value), 0])
                elif value.tag == "metrics/NumberOfEpisodes":
                    episodes[event.step] = _number(value)
        for row in rows[-len(episodes) :] if episodes else ():
            row[3] = episodes.get(row[0], row[3])
        seconds += events[-1].wall_time - events[0].wall_time
    if not rows:
        sys.exit(f"error: there is no average return in {root_dir}/train: name the root_dir of a run")
    return Curve(*np.array(rows, float).T)


def reached(curve, target):
    """Index of the first point at `target` or above, of 100 episodes; None if there is none."""
    target = np.float32(target)  # as event files hold returns
    there = np.flatnonzero((curve.returns >= target) & (curve.episodes >= _EPISODES))
    return int(there[0]) if len(there) else None


def draw(groups, path, title="", target=None):
    """Writes a PNG. `groups` is a dict: label -> list of `Curve`s."""
    matplotlib.use("Agg")  # no display
    from matplotlib import pyplot
    from matplotlib.ticker import EngFormatter

    longest = max(curve.seconds[-1] for curves in groups.values() for curve in curves)
    per_second, unit = (1, "seconds") if longest < 300 else (1 / 60, "minutes")
    figure, (by_steps, by_time) = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for label, curves in groups.items():
        if len(curves) > 1:
            label = f"{label}, {len(curves)} seeds"
        returns = [curve.returns for curve in curves]
        draw_line(by_steps, [curve.env_steps for curve in curves], returns, label)
        draw_line(by_time, [curve.seconds * per_second for curve in curves], returns, label)
    for axes in (by_steps, by_time):
        if target is not None:
            axes.axhline(target, color="grey", linestyle="--", linewidth=1)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
    by_steps.set(xlabel="environment steps", ylabel=f"average return of {_EPISODES} episodes")
    by_steps.xaxis.set_major_formatter(EngFormatter(sep=""))
    by_time.set(xlabel=f"wall time, {unit}")
    by_time.legend(loc="best", fontsize="small")
    figure.suptitle(title)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _figures(root_dir, curve, target):
    """A run's figures for the JSON object."""

    def point(i):
        return {
            "env_steps": int(curve.env_steps[i]),
            "seconds": round(float(curve.seconds[i]), 1),
            "return": round(float(curve.returns[i]), 2),
        }

    figures = {"run": os.path.basename(os.path.normpath(root_dir)), "end": point(-1)}
    if target is not None:
        index = reached(curve, target)
        figures["target"] = None if index is None else point(index)
    return figures


def _number(value):
    return float(tensor_util.make_ndarray(value.tensor))


def main(argv):
    if len(argv) < 2:
        sys.exit("error: name the runs to draw, LABEL=DIR")
    groups, figures = {}, {}
    for argument in argv[1:]:
        label, _, root_dir = argument.rpartition("=")
        label = label or os.path.basename(os.path.normpath(root_dir))
        curve = read_curve(root_dir)
        groups.setdefault(label, []).append(curve)
        figures.setdefault(label, []).append(_figures(root_dir, curve, _TARGET.value))
    draw(groups, _PNG.value, _TITLE.value, _TARGET.value)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    app.run(main)
