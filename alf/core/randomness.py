# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Random numbers with NumPy: independent seeds, and the bootstrap."""

import numpy as np

_CONFIDENCE = 0.95
_CHUNK = 2**20  # how many numbers are drawn at once: 8 MiB


def spawn_seeds(entropy, count):
    """Makes independent seeds with NumPy's SeedSequence.

    Args:
        entropy: int or list of ints; None takes entropy from the operating system.
        count: int, the number of seeds.

    Returns:
        list of ints in [0, 2^31).
    """
    children = np.random.SeedSequence(entropy).spawn(count)
    # 31 of 32 bits, because some environments take a seed as a signed integer of 32 bits.
    return [int(child.generate_state(1)[0] >> 1) for child in children]


def bootstrap_interval(values, num_resamples, seed=0):
    """Computes the 95 % confidence interval of the mean by bootstrap percentiles (Efron 1979).

    Args:
        values: float array [N, ...] without NaN; the mean is taken over N.
        num_resamples: int, how many samples of N values are drawn with replacement.
        seed: int, the seed of the draws.

    Returns:
        low, high: float64 arrays [...].
    """
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // values.size)
    sizes = [min(step, num_resamples - first) for first in range(0, num_resamples, step)]
    means = [values[rng.integers(len(values), size=(size, len(values)))].mean(1) for size in sizes]
    return np.quantile(np.concatenate(means), [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0)
