# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SumTree against NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from alf.replay.prioritized import SumTree


def check(tree, numbers):
    np.testing.assert_array_equal(tree.numbers(), numbers)
    np.testing.assert_allclose(tree.total(), numbers.sum(), rtol=1e-12, atol=0)
    if not numbers.any():
        return
    ends = np.cumsum(numbers)
    middles = ends - numbers / 2
    held = np.flatnonzero(numbers)
    np.testing.assert_array_equal(tree.find(middles[held]), held)


@pytest.mark.parametrize("size", [1, 32, 33, 2000])
def test_finds_every_number(size):
    rng = np.random.default_rng(size)
    tree, numbers = SumTree(size), np.zeros(size)
    check(tree, numbers)
    for _ in range(10):
        indices = rng.integers(0, size, 40)
        values = rng.choice([0.0, 0.5, 3.0, 100.0], size)
        numbers[indices] = values[indices]
        tree.update(indices, values[indices])
        check(tree, numbers)
        np.testing.assert_array_equal(tree.get(indices), numbers[indices])
    numbers = rng.random(size)
    tree.assign(numbers)
    check(tree, numbers)


TREE = SumTree(1500)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1499), st.floats(1e-20, 1e20)), min_size=1, unique_by=lambda x: x[0]),
    st.lists(st.floats(0, 1), min_size=1),
)
def test_never_finds_a_zero(numbers, targets):
    """Not even where rounding errors are as large as the numbers."""
    TREE.assign(np.zeros(1500))
    indices, values = map(np.array, zip(*numbers))
    TREE.update(tf.constant(indices, tf.int64), tf.constant(values, tf.float64))
    total = TREE.total().numpy()
    found = TREE.find(tf.constant(targets, tf.float64) * total).numpy()
    assert np.all(TREE.get(found).numpy() > 0)


def test_sums_do_not_drift():
    rng = np.random.default_rng(0)
    tree, numbers = SumTree(1024), np.zeros(1024)
    for exponent in (15, 0):
        for _ in range(200):
            indices = rng.integers(0, 1024, 32)
            values = 10.0**exponent * rng.random(1024)
            numbers[indices] = values[indices]
            tree.update(indices, values[indices])
    tree.update(np.arange(1024), np.full(1024, 0.1))
    np.testing.assert_allclose(tree.total(), 102.4, rtol=1e-13)
