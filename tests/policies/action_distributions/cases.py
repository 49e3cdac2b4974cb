# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action specs, distributions and checks that the tests share."""

import collections
import math

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec
from alf.policies.action_distributions import (
    make_action_distribution,
)

Pair = collections.namedtuple("Pair", "first second")


def integers(low, high, shape=(), dtype=tf.int64):
    return BoundedTensorSpec(shape, dtype, low, high)


def box(shape=(3,), low=-1.0, high=1.0, dtype=tf.float32):
    return BoundedTensorSpec(shape, dtype, low, high)


UNBOUNDED = tf.TensorSpec((3,), tf.float32)
UNEVEN = integers([0, 5, -1], [1, 8, 1], (3,))  # 2, 4 and 3 choices
BITS = integers(0, 1, (2, 2), tf.int8)
NEST = {
    "hand": box((2,), -3.0, 1.0, tf.float64),
    "keys": Pair(integers(3, 5, (), tf.int32), (UNEVEN, [integers(0, 1)])),
}
CASES = {
    "categorical": (integers(2, 5), {}),
    "int8": (integers(-1, 1, (), tf.int8), {}),
    "uneven": (UNEVEN, {}),
    "bits": (BITS, {}),
    "gaussian": (UNBOUNDED, {}),
    "shared": (UNBOUNDED, {"std": "shared", "init_log_std": -0.5}),
    "scaled": (box((3,), -3.0, 1.0), {"scale_to_bounds": True}),
    "softplus": (UNBOUNDED, {"std_transform": "softplus", "init_log_std": -1.0}),
    "shared softplus": (UNBOUNDED, {"std": "shared", "std_transform": "softplus"}),
    "fixed": (UNBOUNDED, {"std": "fixed", "init_log_std": -0.5}),
    "tanh softplus": (box(), {"continuous": "tanh_gaussian", "std_transform": "softplus"}),
    "tanh": (box((2, 2), [[0.0, 1.0]], 7.0, tf.float64), {"continuous": "tanh_gaussian"}),
    "beta": (box((), 2.0, 3.0), {"continuous": "beta"}),
    "nest": (NEST, {}),
    "tanh nest": (NEST, {"continuous": "tanh_gaussian", "std": "shared"}),
}


def make(case):
    spec, options = CASES[case]
    return make_action_distribution(spec, **options)


def normal(*shape, seed=0, scale=1.0):
    return tf.constant(scale * np.random.default_rng(seed).normal(size=shape), tf.float32)


def rows_of_params(actions, outputs=None):
    """The same parameters in 100,000 rows."""
    outputs = normal(1, actions.num_outputs) if outputs is None else outputs
    return actions.params(tf.tile(outputs, (100_000, 1)))


def assert_mean_is(samples, expected):
    """Within 5 standard errors."""
    samples = np.asarray(samples, np.float64)
    error = samples.std() / math.sqrt(len(samples))
    assert abs(samples.mean() - expected) <= 5 * error + 1e-5, (samples.mean(), expected, error)


def assert_frequencies_are(index, p):
    """How often each index was drawn, within 5 standard deviations; what has no probability never."""
    frequencies = np.bincount(index, minlength=len(p)) / len(index)
    assert np.all(np.abs(frequencies - p) <= 5 * np.sqrt(p * (1 - p) / len(index)) + 1e-6), (frequencies, p)
    assert np.all(frequencies[p == 0] == 0)


def log_softmax(x):
    x = np.asarray(x, np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def everything(actions, outputs, other):
    """All that a distribution does, a dict."""
    p, q = actions.params(outputs), actions.params(other)
    raw, mode = actions.sample(p), actions.mode(p)
    return {
        "params": p,
        "raw": raw,
        "mode": mode,
        "action": (actions.action(raw), actions.action(mode)),
        "number": (actions.log_prob(p, raw), actions.entropy(p), actions.kl(p, q)),
        "choice": actions.has_choice(p),
    }
