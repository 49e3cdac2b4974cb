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


def bootstrap_interval(strata, statistic=lambda sample: sample.mean(1), num_resamples=10_000, seed=0):
    """Computes a 95 % confidence interval by the percentiles of a (stratified) bootstrap (Efron 1979).

    Args:
        strata: list of float arrays [N, ...] without NaN, whose N may differ. A sample draws N values of each
            of them with replacement.
        statistic: callable (a float array [S, N, ...] for each stratum) -> float array [S, ...], the values
            of S samples. By default the mean over the N values of one stratum.
        num_resamples: int, how many samples are drawn. With the default, the ends of the interval hardly
            depend on the seed.
        seed: int, the seed of the draws.

    Returns:
        low, high: float64 arrays [...].
    """
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // sum(values.size for values in strata))
    figures = []
    for first in range(0, num_resamples, step):
        size = min(step, num_resamples - first)
        figures.append(statistic(*(x[rng.integers(len(x), size=(size, len(x)))] for x in strata)))
    return np.quantile(np.concatenate(figures), [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0)
