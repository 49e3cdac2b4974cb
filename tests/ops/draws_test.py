# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws that belong to owners: their distributions, and what they follow from."""

import math

import numpy as np
import pytest
import tensorflow as tf

from alf.ops import draws

N = 4000  # rows of each owner

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
        lambda rows: draws.categorical(tf.math.log([[0.25, 0.75]] * rows), tf.int64)[:, tf.newaxis],
        0.75,
        math.sqrt(0.25 * 0.75),
    ),
}


def draw(kind, owners, seed=0, times=1):
    """Draws in a graph, `times` times; returns the last draw, an array for each owner."""
    tf.random.set_seed(seed)

    @tf.function(autograph=False)
    def run(pairs):
        with draws.owned_by([tuple(tf.unstack(x)) for x in tf.unstack(pairs)]):
            for _ in range(times):
                x = KINDS[kind][0](N * len(owners))
            return x

    return np.split(run(tf.constant(owners, tf.int64)).numpy(), len(owners))


@pytest.mark.parametrize("kind", KINDS)
def test_distribution(kind):
    _, mean, std = KINDS[kind]
    for x in draw(kind, [(0, 0), (1, 0)]):
        # 6 standard deviations of the mean and, for a normal distribution, of the standard deviation; the
        # kurtosis of the others is at most 4.5.
        assert abs(x.mean() - mean) < 6 * std / math.sqrt(x.size)
        np.testing.assert_allclose(x.std(), std, rtol=6 * math.sqrt(3.5 / (4 * x.size)))


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_follow_from_seed_owner_count_and_draw(kind):
    alone, together = draw(kind, [(7, 3)])[0], draw(kind, [(2, 3), (7, 3), (7, 4)])
    np.testing.assert_array_equal(alone, together[1])
    others = {
        "owner": together[0],
        "count": together[2],
        "seed": draw(kind, [(7, 3)], seed=1)[0],
        "draw": draw(kind, [(7, 3)], times=2)[0],
    }
    for name, other in others.items():
        correlation = np.corrcoef(alone.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 6 / math.sqrt(alone.size), name


def test_without_owners_numbers_come_from_tensorflow():
    with draws.owned_by([(tf.constant(0), tf.constant(0))]):
        first = draws.normal((3,))
    tf.random.set_seed(0)
    ours = draws.normal((3,)), draws.uniform((3,))
    tf.random.set_seed(0)
    theirs = tf.random.normal((3,)), tf.random.uniform((3,))
    tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)
    assert (first.numpy() != ours[0].numpy()).any()


def test_draws_of_the_first_owner_alone_have_any_number_of_rows():
    tf.random.set_seed(0)
    owners = [(tf.constant(7), tf.constant(3)), (tf.constant(2), tf.constant(3))]

    def draw_three():
        return draws.normal((3, 2)), draws.categorical(tf.zeros((3, 100)), tf.int64)

    with draws.owned_by(owners):
        with draws.owned_by_first():
            ours = draw_three()
        after = draws.normal((4,))
    with draws.owned_by(owners[:1]):
        tf.nest.map_structure(np.testing.assert_array_equal, draw_three(), ours)
    with draws.owned_by(owners):
        draw_three_of_each = draws.normal((6, 2)), draws.categorical(tf.zeros((6, 100)), tf.int64)
        np.testing.assert_array_equal(draws.normal((4,)), after)
    tf.nest.map_structure(lambda x, y: np.testing.assert_array_equal(x[:3], y), draw_three_of_each, ours)


def test_the_learners_draws_follow_from_its_updates():
    updates = tf.Variable(5, dtype=tf.int64)

    def make():
        @tf.function(autograph=False)
        def run():
            with draws.owned_by([(draws.LEARNER, updates)]):
                return draws.shuffle(tf.range(100)), draws.normal((100,))

        return run

    tf.random.set_seed(0)
    run = make()
    order, x = run()
    assert sorted(order.numpy()) == list(range(100)) and (order.numpy() != range(100)).sum() > 80
    updates.assign_add(1)
    other_order, y = run()
    assert (order.numpy() != other_order.numpy()).sum() > 80 and (x.numpy() != y.numpy()).all()
    # Another trace, as in a process that continues the run.
    updates.assign(5)
    tf.nest.map_structure(np.testing.assert_array_equal, make()(), (order, x))


def test_a_seed_takes_the_place_of_tensorflows():
    tf.random.set_seed(1)
    assert draws.get_seed() == 1
    before = draw("normal", [(0, 0)], seed=1)
    draws.set_seed(1)
    try:
        assert draws.get_seed() == 1
        np.testing.assert_array_equal(draw("normal", [(0, 0)], seed=2), before)
    finally:
        draws.set_seed(None)
    assert (draw("normal", [(0, 0)], seed=2)[0] != before[0]).all()
