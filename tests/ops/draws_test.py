# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Streams of draws: their distributions, and what they follow from."""

import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from alf.ops import draws
from alf.ops.draws import Stream

N = 4000  # rows of each counter

# Of each kind: a draw of so many rows, its mean and its standard deviation.
KINDS = {
    "normal": (lambda rows: draws.normal((rows, 2)), 0.0, 1.0),
    "uniform": (lambda rows: draws.uniform((rows, 2)), 0.5, math.sqrt(1 / 12)),
    "uniform64": (lambda rows: draws.uniform((rows, 2), tf.float64), 0.5, math.sqrt(1 / 12)),
    "integers": (
        lambda rows: tf.cast(draws.integers((rows, 2), -3, 7), tf.float64),
        1.5,
        math.sqrt((10**2 - 1) / 12),
    ),
    "gamma": (lambda rows: draws.gamma(tf.fill((rows, 2), 4.0)), 4.0, 2.0),
    "categorical": (
        lambda rows: draws.categorical(tf.math.log(tf.tile([[0.25, 0.75]], (rows, 1))), tf.int64)[
            :, tf.newaxis
        ],
        0.75,
        math.sqrt(0.25 * 0.75),
    ),
}


def draw(kind, counters, stream=None, times=1, fork=None):
    """Draws in a graph, `times` times; returns the last draw, an array for each counter."""

    @tf.function(autograph=False)
    def run(pairs):
        with (stream or Stream(0)).at([tuple(tf.unstack(x)) for x in tf.unstack(pairs)]):
            for _ in range(times):
                x = KINDS[kind][0](N * len(counters))
            if fork is not None:
                with draws.fork()(fork):
                    x = KINDS[kind][0](N * len(counters))
            return x

    return np.split(run(tf.constant(counters, tf.int64)).numpy(), len(counters))


@pytest.mark.parametrize("kind", KINDS)
def test_distribution(kind):
    _, mean, std = KINDS[kind]
    for x in draw(kind, [(0, 0), (1, 0)]):
        # 6 standard deviations of the mean and, for a normal distribution, of the standard deviation; the
        # kurtosis of the others is at most 4.5.
        assert abs(x.mean() - mean) < 6 * std / math.sqrt(x.size)
        np.testing.assert_allclose(x.std(), std, rtol=6 * math.sqrt(3.5 / (4 * x.size)))


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_follow_from_stream_index_count_and_draw(kind):
    alone, together = draw(kind, [(7, 3)])[0], draw(kind, [(2, 3), (7, 3), (7, 4)])
    np.testing.assert_array_equal(alone, together[1])
    others = {"index": together[0], "count": together[2], "draw": draw(kind, [(7, 3)], times=2)[0]}
    others |= {f"fork {i}": draw(kind, [(7, 3)], fork=i)[0] for i in range(2)}
    # Keys that are parts of each other, and zeros, which are easily lost.
    keys = {"seed": (1,), "key": (0, 0), "longer": (0, 0, 0), "other": (0, 0, 1), "order": (0, 1, 0)}
    others |= {name: draw(kind, [(7, 3)], Stream(*key))[0] for name, key in keys.items()}
    np.testing.assert_array_equal(draw(kind, [(7, 3)], Stream(0, 0).spawn(1))[0], others.pop("other"))
    others = {"alone": alone, **others}
    for i, (name, one) in enumerate(others.items()):
        for another in list(others)[:i]:
            correlation = np.corrcoef(one.ravel(), others[another].ravel())[0, 1]
            assert abs(correlation) < 6 / math.sqrt(one.size), (name, another)


def test_without_a_stream_numbers_come_from_tensorflow():
    tf.random.set_seed(0)
    with draws.of_rows(tf.constant([0, 2], tf.int64), 4), draws.fork()(1):
        ours = draws.normal((3,)), draws.uniform((3,))
    tf.random.set_seed(0)
    theirs = tf.random.normal((3,)), tf.random.uniform((3,))
    tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_some_rows_draw_at_the_counters_that_they_have_in_the_batch(kind):
    """Also none, all rows of a counter, or several numbers for each row."""
    pairs = tf.constant([(7, 3), (2, 3), (7, 4)], tf.int64)

    def draw_rows(pairs, rows, num_rows, size):
        with Stream(0).at([tuple(tf.unstack(x)) for x in tf.unstack(pairs)]):
            with draws.of_rows(rows, num_rows):
                x = KINDS[kind][0](size)
            return x, draws.normal((6,))

    draw_some = tf.function(draw_rows, autograph=False)
    alone = [draw_rows(pairs[i : i + 1], tf.range(4, dtype=tf.int64), 4, 8)[0] for i in range(3)]
    for rows in ([0, 3, 9], [4, 5, 6, 7], [1, 4, 5, 8, 10, 11], []):
        sizes = [sum(4 * i <= row < 4 * i + 4 for row in rows) for i in range(3)]
        rows = tf.constant(rows, tf.int64)
        for times in (1, 2):
            found, after = draw_some(pairs, rows, 12, len(rows) * times)
            expected = [x[: size * times] for x, size in zip(alone, sizes, strict=True)]
            np.testing.assert_array_equal(found, tf.concat(expected, axis=0))
            np.testing.assert_array_equal(after, draw_rows(pairs, tf.range(12, dtype=tf.int64), 12, 12)[1])


def test_a_single_number():
    with Stream(0).at([(0, 0)]):
        assert draws.normal(()).shape == draws.uniform(()).shape == ()


def test_a_variable_counts():
    updates = tf.Variable(5, dtype=tf.int64)

    def make():
        @tf.function(autograph=False)
        def run():
            with Stream(0).at([(0, updates)]):
                return draws.shuffle(tf.range(100)), draws.normal((100,))

        return run

    run = make()
    order, x = run()
    assert sorted(order.numpy()) == list(range(100)) and (order.numpy() != range(100)).sum() > 80
    updates.assign_add(1)
    other_order, y = run()
    assert (order.numpy() != other_order.numpy()).sum() > 80 and (x.numpy() != y.numpy()).all()
    # Another trace, as in a process that continues the run.
    updates.assign(5)
    tf.nest.map_structure(np.testing.assert_array_equal, make()(), (order, x))


def test_seeds_without_a_seed_follow_from_tensorflows():
    def seeds(seed):
        tf.random.set_seed(seed)
        return [Stream().seed for _ in range(3)]

    first, again, other = seeds(1), seeds(1), seeds(2)
    assert first == again and len({*first, *other}) == 6
    assert all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in first)


def test_without_any_seed_each_stream_differs(monkeypatch):
    monkeypatch.setattr(context.context(), "_seed", None)  # as in a new process
    assert len({Stream().seed for _ in range(3)}) == 3
