# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seeds that are independent of each other."""

import numpy as np


def spawn_seeds(entropy, count):
    """Makes a list of `count` independent seeds, ints in [0, 2^31), by NumPy's SeedSequence.

    `entropy` is an int or a list of ints; None lets the operating system choose.
    """
    children = np.random.SeedSequence(entropy).spawn(count)
    return [int(child.generate_state(1)[0] >> 1) for child in children]
