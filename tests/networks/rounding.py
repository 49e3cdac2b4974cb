# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How far a network in bfloat16 may be from the same network in float32.

bfloat16 has 8 significant bits: rounding changes a number by at most u = 2**-8 of it, and by at most u /
sqrt(3) in the root mean square. A layer rounds five times: its input, its kernel, their product, the sum
with the bias, the activation. These errors are independent of each other, so n of them add up to sqrt(n
/ 3) * u. This holds as long as no layer enlarges relative errors: kernels are orthogonal, and inputs are
of order 1, so that tanh and sigmoid are not saturated. The gates of recurrent layers make errors
smaller. Machines add up products in different orders and precisions: a factor of 2 is left for this.

The gradient of a kernel has the errors of three passes: forward, backward, and the product of the two.
"""

import numpy as np
import tensorflow as tf


def distance(a, b):
    """|a - b| / |b| of all numbers of two nests together."""
    a, b = (np.concatenate([np.ravel(x) for x in tf.nest.flatten(nest)]) for nest in (a, b))
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def max_distance(num_layers, passes=1):
    """The bound of `distance` for so many layers in bfloat16, one after another."""
    return 2 * np.sqrt(5 * num_layers * passes / 3) * 2**-8
