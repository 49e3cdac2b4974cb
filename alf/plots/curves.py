# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Computations on learning curves: smoothing, common x values, mean and bootstrap interval over runs."""

import numpy as np

from alf.core.randomness import bootstrap_interval
from alf.plots.scores import MIN_RUNS

_POINTS = 400  # x values of the mean of several runs
_RESAMPLES = 1000  # for each of the x values


def smooth(x, y, window):
    """Averages y over the last `window` of x: y_i becomes the mean of all y_j with x_i - window < x_j <= x_i.

    Args:
        x: array [N] that does not decrease.
        y: array [N].
        window: number above 0.

    Returns:
        array [N].
    """
    # The sum over a window is the difference of two sums: one pass for windows of any length.
    sums = np.concatenate([[0.0], np.cumsum(y)])
    first = np.searchsorted(x, x - window, side="right")
    ends = np.arange(1, len(x) + 1)
    return (sums[ends] - sums[first]) / (ends - first)


def join(xs, ys, points=_POINTS):
    """Interpolates several runs linearly at common x values, from the smallest x of all runs to the largest.

    A run has no value before its first point, and keeps its last value after its last point.

    Args:
        xs, ys: lists of arrays [N], one for each run; N may differ. x does not decrease.
        points: int, M.

    Returns:
        x: array [M].
        y: array [R, M], NaN where a run has not begun.
    """
    x = np.linspace(min(x[0] for x in xs), max(x[-1] for x in xs), points)
    return x, np.array([np.interp(x, *line, left=np.nan) for line in zip(xs, ys, strict=True)])


def mean_and_interval(y, seed=0):
    """Computes the mean over runs and its 95 % interval by bootstrap percentiles (Efron 1979).

    An interval needs the values of `MIN_RUNS` runs.

    Args:
        y: array [R, M], NaN where a run has no value; each column has at least one value.
        seed: int, the seed of the resampling.

    Returns:
        mean, low, high: arrays [M]; low and high are NaN where fewer runs have a value.
    """
    result = np.empty([3, y.shape[1]])
    there = ~np.isnan(y)
    # All columns in which the same runs have values are computed together.
    for runs in np.unique(there, axis=1).T:
        columns = (there == runs[:, None]).all(0)
        values = y[runs][:, columns]
        ends = np.full([2, values.shape[1]], np.nan)
        if len(values) >= MIN_RUNS:
            ends = bootstrap_interval([values], num_resamples=_RESAMPLES, seed=seed)
        result[:, columns] = [values.mean(0), *ends]
    return result
