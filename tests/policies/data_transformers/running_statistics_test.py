# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunningStatistics against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from alf.policies.data_transformers import RunningStatistics


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_is_exact_whatever_the_batches(shape):
    rng = np.random.default_rng(0)
    statistics, seen = RunningStatistics(shape), []
    for size in (1, 7, 0, 30):
        # Far from zero, where a difference of sums of squares has no digits left.
        x = rng.normal(1e4, 0.1, (size, 4, *shape)).astype(np.float32)
        mask = rng.random((size, 4)) < 0.7
        statistics.update(tf.constant(x), tf.constant(mask))
        seen.append(x[mask])
    seen = np.concatenate(seen).astype(np.float64)
    np.testing.assert_allclose(statistics.mean(), seen.mean(0), rtol=1e-6)
    np.testing.assert_allclose(statistics.std(epsilon=0.0), seen.std(0), rtol=1e-6)


def test_is_neutral_before_it_knows_anything():
    statistics = RunningStatistics((2,))
    np.testing.assert_array_equal(statistics.mean(), [0, 0])
    np.testing.assert_array_equal(statistics.std(), [1, 1])
    statistics.update(tf.constant([[3.0, 4.0]]), tf.constant([True]))
    np.testing.assert_array_equal(statistics.std(), [1, 1])


def test_what_never_changes_has_a_small_but_positive_deviation():
    statistics = RunningStatistics(())
    statistics.update(tf.constant([5.0, 5.0]), tf.constant([True, True]))
    assert float(statistics.std()) == pytest.approx(1e-4)
