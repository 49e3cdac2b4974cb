# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Statistics of runs and episodes that need NumPy alone."""

import numpy as np

_CONFIDENCE = 0.95
_CHUNK = 2**20  # numbers that are drawn at once: 8 MiB


def bootstrap_interval(values, num_resamples, seed=0):
    """Returns the ends of the 95 % interval of the mean, by bootstrap percentiles (Efron 1979).

    Args:
        values: float array [N, ...] without NaN; the mean is taken over N.
        num_resamples: number of samples of N values, drawn with replacement, whose means are compared.
        seed: int; seed of the draws.

    Returns:
        low, high: float64 arrays [...].
    """
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // values.size)
    sizes = [min(step, num_resamples - first) for first in range(0, num_resamples, step)]
    means = [values[rng.integers(len(values), size=(size, len(values)))].mean(1) for size in sizes]
    return np.quantile(np.concatenate(means), [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0)
