# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Smoothing, common x values, and bootstrap intervals against literal computations."""

import numpy as np
import pytest

from alf.plots.curves import join, mean_and_interval, smooth


@pytest.mark.parametrize("window", [0.5, 3.0, 10.0, 1e9], ids=str)
def test_smoothing_is_the_mean_of_the_points_in_the_window(window):
    rng = np.random.default_rng(0)
    x, y = np.cumsum(rng.integers(0, 4, 50)).astype(float), rng.normal(size=50)
    expected = [np.mean([y[j] for j in range(i + 1) if x[j] > x[i] - window]) for i in range(50)]
    np.testing.assert_allclose(smooth(x, y, window), expected, atol=1e-12)


def test_runs_with_different_x_are_interpolated_at_common_ones():
    xs = [np.array([0.0, 10.0]), np.array([2.0, 3.0, 5.0])]
    ys = [np.array([0.0, 10.0]), np.array([6.0, 7.0, 3.0])]
    x, y = join(xs, ys, points=11)
    np.testing.assert_allclose(x, range(11))
    np.testing.assert_allclose(y[0], range(11))
    nan = np.nan  # the second run has not begun; at its end it keeps its last value
    np.testing.assert_allclose(y[1], [nan, nan, 6, 7, 5, 3, 3, 3, 3, 3, 3])


def test_mean_and_interval_are_those_of_a_literal_bootstrap():
    y = np.random.default_rng(1).normal(size=(7, 7))
    y[0, :3] = y[3, :1] = np.nan  # runs that begin later
    result = mean_and_interval(y, seed=3)
    for column in range(7):
        values = y[:, column][~np.isnan(y[:, column])]
        rng = np.random.default_rng(3)
        means = []
        for picks in rng.integers(len(values), size=(1000, len(values))):
            means.append(sum(values[i] for i in picks) / len(values))
        expected = [sum(values) / len(values), np.quantile(means, 0.025), np.quantile(means, 0.975)]
        np.testing.assert_allclose(np.array(result)[:, column], expected, atol=1e-12)


def test_few_runs_have_a_mean_and_no_interval():
    y = np.array([[1.0, 1.0], [5.0, 1.0], [3.0, 1.0], [4.0, 1.0], [2.0, np.nan]])
    mean, low, high = mean_and_interval(y)
    np.testing.assert_array_equal(mean, [3.0, 1.0])
    np.testing.assert_array_equal(np.isnan([low, high]), [[False, True]] * 2)
