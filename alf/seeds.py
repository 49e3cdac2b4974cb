# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seeds that are independent of each other."""

import numpy as np


def spawn_seeds(entropy, count):
    """Makes seeds from one, or from some, by NumPy's SeedSequence.

    Args:
        entropy: int, list of ints, or None to draw one.
        count: how many seeds.

    Returns:
        list of ints in [0, 2^31).
    """
    children = np.random.SeedSequence(entropy).spawn(count)
    return [int(child.generate_state(1)[0] >> 1) for child in children]
