# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seeds are NumPy's SeedSequence's; the bootstrap is a literal one."""

import numpy as np

from alf.core import randomness
from alf.core.randomness import bootstrap_interval, spawn_seeds


def test_seeds_come_from_the_seed_sequence():
    children = np.random.SeedSequence(7).spawn(3)
    assert spawn_seeds(7, 3) == [int(child.generate_state(1)[0] >> 1) for child in children]


def test_seeds_differ_and_more_of_them_begin_alike():
    many = spawn_seeds(0, 1000)
    assert len(set(many)) == 1000 and all(0 <= seed < 2**31 for seed in many)
    assert spawn_seeds(0, 10) == many[:10] != spawn_seeds(1, 10)
    assert spawn_seeds(None, 2) != spawn_seeds(None, 2)


def test_a_sample_of_the_bootstrap_draws_each_stratum_anew(monkeypatch):
    """Also if the samples do not fit into memory together."""
    strata = [np.array([1.0, 5.0, 2.0]), np.array([10.0, 30.0])]
    monkeypatch.setattr(randomness, "_CHUNK", 50)
    for seed in (0, 3):
        rng, sums = np.random.default_rng(seed), []
        for size in (10, 10, 5):
            picks = [rng.integers(len(x), size=(size, len(x))) for x in strata]
            for i in range(size):
                samples = [[x[k] for k in pick[i]] for x, pick in zip(strata, picks, strict=True)]
                sums.append(max(samples[0]) + max(samples[1]))
        expected = np.quantile(sums, [0.025, 0.975])
        found = bootstrap_interval(strata, lambda x, y: x.max(1) + y.max(1), num_resamples=25, seed=seed)
        np.testing.assert_array_equal(found, expected)
