# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The learning curves of `benchmarks.tasks` in docs/curves: a picture for each family of environments."""

import re

import numpy as np

from alf.plots.picture import Line, draw, save_picture
from alf.plots.runs import Curve
from benchmarks.task_list import list_rows
from benchmarks.task_table import select_runs

_FAMILIES = {  # from a picture's name to a regular expression in `Task.environment`
    "atari": "^ALE-",
    "minatar": "^MinAtar-",
    "minigrid": "^MiniGrid-",
    "mujoco": "^(Ant|HalfCheetah|Hopper|Humanoid|Walker2d)-",
}
_NAMES = {"apex": "Ape-X", "qr_dqn": "QR-DQN"}  # others are in capitals


def make_lines(runs):
    """Returns a dict of lists of `Line`s by the names of pictures. A run without a curve is left out."""
    pictures = {}
    for task in list_rows():
        curves = [_read_curve(run) for run in select_runs(runs, task) if "curve" in run]
        family = [name for name, pattern in _FAMILIES.items() if re.search(pattern, task.environment)]
        if curves and family:
            name = _NAMES.get(task.algorithm, task.algorithm.upper())
            line = Line(name, name, curves, task=task.environment)
            pictures.setdefault(family[0], []).append(line)
    return pictures


def write_pictures(runs, folder):
    """Writes the pictures of all runs into a folder, a `pathlib.Path`."""
    for name, lines in make_lines(runs).items():
        save_picture(draw(lines, "average return"), str(folder / f"{name}.png"))


def _read_curve(run):
    steps, seconds, values = np.array(run["curve"]).T
    return Curve(steps, seconds, values)
