# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Prints where runs reached a target: `python -m benchmarks.curves [--target=RETURN] LABEL=DIR ...`.

DIR is the root_dir of a run, or a folder of runs. Prints one JSON object: for each label and each of its
runs, where it ended, and where the average return of 100 episodes first was at the target. `alf plot` draws.
"""

import json
import os
import sys

import numpy as np
from absl import app, flags

from alf.plots.runs import find_runs, read_run

_TARGET = flags.DEFINE_float("target", None, "A return to look for.")

_METRIC = "AverageReturn"
_EPISODES = 100  # that a return is the average of, once there are so many


def reached(run, target):
    """Index of the first point of a run's curve at `target` or above, of 100 episodes; or None."""
    curve, episodes = run.curve(_METRIC), run.curve("NumberOfEpisodes")
    counts = np.interp(curve.env_steps, episodes.env_steps, episodes.values)
    target = np.float32(target)  # as the file holds returns
    there = np.flatnonzero((curve.values.astype(np.float32) >= target) & (counts >= _EPISODES))
    return int(there[0]) if len(there) else None


def _figures(run, target):
    """A run's figures for the JSON object."""
    curve = run.curve(_METRIC)

    def point(i):
        return {
            "env_steps": int(curve.env_steps[i]),
            "seconds": round(float(curve.seconds[i]), 1),
            "return": round(float(curve.values[i]), 2),
        }

    figures = {"run": os.path.basename(os.path.normpath(run.path)), "end": point(-1)}
    if target is not None:
        index = reached(run, target)
        figures["target"] = None if index is None else point(index)
    return figures


def read_runs(path):
    """Reads the runs in a folder; exits with an error if there is none with a return."""
    runs = [read_run(found) for found in find_runs(path)[0]]
    runs = [run for run in runs if run.curve(_METRIC) is not None]
    if not runs:
        sys.exit(f"error: there is no average return in {path}: name the root_dir of a run")
    return runs


def main(argv):
    if len(argv) < 2:
        sys.exit("error: name the runs, LABEL=DIR")
    groups = {}
    for argument in argv[1:]:
        label, _, path = argument.rpartition("=")
        groups.setdefault(label or os.path.basename(os.path.normpath(path)), []).extend(read_runs(path))
    figures = {label: [_figures(run, _TARGET.value) for run in runs] for label, runs in groups.items()}
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    app.run(main)
