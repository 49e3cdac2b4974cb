# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seeds that are independent of each other."""

import numpy as np


def spawn_seeds(entropy, count):
    """Makes independent seeds from one or several numbers, by NumPy's SeedSequence.

    Args:
        entropy: int or list of ints; None lets the operating system choose.
        count: number of seeds.

    Returns:
        list of ints in [0, 2^31).
    """
    children = np.random.SeedSequence(entropy).spawn(count)
    return [int(child.generate_state(1)[0] >> 1) for child in children]
