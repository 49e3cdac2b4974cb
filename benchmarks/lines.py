# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Lines of learning curves: several runs as their mean, with their range as a band."""

import numpy as np


def draw_line(axes, xs, ys, label):
    """Draws one run as it is, several as `mean_and_range`.

    Args:
        axes: Matplotlib's.
        xs, ys: lists of arrays [N], one for each run.
        label: of the line.
    """
    if len(xs) == 1:
        axes.plot(xs[0], ys[0], label=label)
        return
    x, mean, low, high = mean_and_range(xs, ys)
    (line,) = axes.plot(x, mean, label=label)
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def mean_and_range(xs, ys, points=300):
    """Mean and range of several lines, from where all have begun. One that has ended keeps its last value.

    Args:
        xs, ys: lists of arrays [N], one for each line.

    Returns:
        x, mean, lowest and highest y, arrays [points].
    """
    x = np.linspace(max(x[0] for x in xs), max(x[-1] for x in xs), points)
    y = np.array([np.interp(x, *line) for line in zip(xs, ys)])
    return x, y.mean(0), y.min(0), y.max(0)
