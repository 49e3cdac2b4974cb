# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seeds are NumPy's SeedSequence's."""

import numpy as np

from alf.core.randomness import spawn_seeds


def test_seeds_come_from_the_seed_sequence():
    children = np.random.SeedSequence(7).spawn(3)
    assert spawn_seeds(7, 3) == [int(child.generate_state(1)[0] >> 1) for child in children]


def test_seeds_differ_and_more_of_them_begin_alike():
    many = spawn_seeds(0, 1000)
    assert len(set(many)) == 1000 and all(0 <= seed < 2**31 for seed in many)
    assert spawn_seeds(0, 10) == many[:10] != spawn_seeds(1, 10)
    assert spawn_seeds(None, 2) != spawn_seeds(None, 2)
