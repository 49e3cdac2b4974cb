# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PrioritizedReplayer: probabilities, weights and priorities. What it shares is in uniform_test."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from alf.errors import ConfigError
from alf.replay import PrioritizedReplayer, Sequences
from alf.schedules import LinearSchedule, Progress
from tests.replay.buffer_model import BufferModel
from tests.replay.streams import Streams, check_content, chi_square_p, without_graphs

NOW = Progress(tf.constant(0, tf.int64), tf.constant(0, tf.int64))


@pytest.fixture
def _without_graphs():
    with without_graphs():
        yield


one_by_one = pytest.mark.usefixtures("_without_graphs")


def make(num_groups=2, context=0, capacity=48, recurrent=False, **kwargs):
    streams = Streams(num_groups=num_groups, recurrent=recurrent)
    return PrioritizedReplayer(streams.unroll_spec, num_groups, context, capacity=capacity, **kwargs), streams


def as_tuples(sequences):
    return list(zip(*(x.numpy().tolist() for x in sequences)))


def as_sequences(tuples):
    return Sequences(*(tf.constant(x, tf.int64) for x in zip(*tuples)))


def probabilities(replayer):
    """Of every sequence that may be drawn, by its (env, column, start)."""
    numbers = replayer._tree.numbers().numpy()
    rows = np.flatnonzero(numbers)
    keys = as_tuples(replayer.sequences_at(tf.constant(rows, tf.int64)))
    return dict(zip(keys, numbers[rows] / numbers.sum()))


def drawn(replayer, num_samples=20_000, length=1):
    tf.random.set_seed(3)
    return replayer.sample(num_samples, length, NOW)[1]


@one_by_one
def test_draws_in_proportion_to_priorities():
    alpha, epsilon = 0.7, 0.5
    replayer, streams = make(alpha=alpha, epsilon=epsilon, context=1)
    replayer.observe(streams.next_unrolls([0, 1, 0]))
    covering = replayer.all_sequences(1)
    priorities = np.linspace(0, 5, covering.start.shape[0])
    replayer.update_priorities(covering, tf.constant(priorities, tf.float32))
    expected = (priorities.astype(np.float32) + epsilon) ** alpha
    expected /= expected.sum()
    counts = collections.Counter(as_tuples(drawn(replayer)))
    counts = [counts[key] for key in as_tuples(covering)]
    assert sum(counts) == 20_000
    assert chi_square_p(counts, 20_000 * expected) > 1e-3


@one_by_one
def test_weights():
    beta = LinearSchedule(0.4, 1.0, over=100)
    replayer, streams = make(beta=beta)
    replayer.observe(streams.next_unrolls([0, 1]))
    covering = replayer.all_sequences(1)
    replayer.update_priorities(covering, tf.range(1.0, covering.start.shape[0] + 1.0))
    p = probabilities(replayer)
    for steps, value in ((0, 0.4), (50, 0.7), (1000, 1.0)):
        progress = Progress(tf.constant(steps, tf.int64), tf.constant(0, tf.int64))
        _, sequences, weight = replayer.sample(16, 1, progress)
        weights = np.array([(len(p) * p[key]) ** -value for key in as_tuples(sequences)])
        np.testing.assert_allclose(weight, weights / weights.max(), rtol=1e-5)


@one_by_one
def test_new_sequences_get_the_largest_priority_so_far():
    replayer, streams = make(num_groups=1, alpha=1, epsilon=0.5)
    replayer.observe(streams.next_unrolls([0]))
    np.testing.assert_allclose(list(probabilities(replayer).values()), 1 / 6)
    everything = replayer.all_sequences(1)
    replayer.update_priorities(everything, [9.5, 0, 0, 0, 0, 0])
    replayer.update_priorities(everything, [1.5, 0, 0, 0, 0, 0])
    replayer.observe(streams.next_unrolls([0]))
    expected = np.array([2.0] + 5 * [0.5] + 6 * [10.0])
    np.testing.assert_allclose(list(probabilities(replayer).values()), expected / expected.sum())


@one_by_one
def test_what_was_overwritten_keeps_its_priority():
    replayer, streams = make(num_groups=1, capacity=2 * 4, alpha=1)
    replayer.observe(streams.next_unrolls([0]))
    stale = replayer.all_sequences(1)
    replayer.observe(streams.next_unrolls([0, 0]))
    replayer.update_priorities(stale, tf.fill(stale.start.shape, 100.0))
    np.testing.assert_allclose(list(probabilities(replayer).values()), 1 / 8)


def test_bad_priorities_are_refused():
    replayer, streams = make(num_groups=1)
    with without_graphs():
        replayer.observe(streams.next_unrolls([0]))
    update = tf.function(lambda p: replayer.update_priorities(replayer.all_sequences(3), p), autograph=False)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(tf.errors.InvalidArgumentError, match="a priority is negative or not finite"):
            update(tf.constant([0.0, bad]))
    np.testing.assert_allclose(list(probabilities(replayer).values()), 1 / 6)


@one_by_one
def test_another_length_keeps_priorities():
    replayer, streams = make(num_groups=1, alpha=1, epsilon=1)
    replayer.observe(streams.next_unrolls([0]))
    replayer.update_priorities(as_sequences([(0, 0, 0), (0, 1, 2)]), [3.0, 7.0])
    assert set(as_tuples(drawn(replayer, length=2))) == {
        (0, column, start) for column in (0, 1) for start in (0, 1)
    }
    replayer.observe(streams.next_unrolls([0]))
    assert len(probabilities(replayer)) == 2 * 5
    drawn(replayer, length=1)
    p = probabilities(replayer)
    assert len(p) == 2 * 6
    np.testing.assert_allclose(p[0, 0, 0] / p[0, 0, 1], 4 / 1)
    assert p[0, 1, 2] == max(p.values())  # it was no start of two steps for a while: as if new


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(0, 1), min_size=1, max_size=4),
            st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 9)), min_size=1, max_size=4),
        ),
        max_size=8,
    )
)
@pytest.mark.parametrize("recurrent", [False, True])
def test_priorities_are_those_of_the_model(recurrent, actions):
    replayer, streams, draw = make_once(recurrent)
    for positions in (replayer.steps, replayer.steps_after_write):
        positions.assign(tf.zeros_like(positions))
    replayer.clear()
    streams.steps = [0, 0]
    model = BufferModel(streams, 46, 1)
    replayer._largest.assign(2.0)
    largest, priorities = 2.0, {}
    for action in actions:
        if isinstance(action[0], tuple):
            known = sorted(priorities)
            chosen = {known[i % len(known)]: float(p) for i, p in action} if known else {}
            if chosen:
                replayer.update_priorities(as_sequences(chosen), list(chosen.values()))
                priorities.update({key: p + 1 for key, p in chosen.items()})
                largest = max(largest, *(p + 1 for p in chosen.values()))
        else:
            before = list(streams.steps)
            replayer.observe(streams.next_unrolls(action))
            for env in set(action):
                model.write(env, before[env], streams.steps[env])
            priorities = {key: priorities.get(key, largest) for key in model.starts(3)}
        total = sum(priorities.values())
        assert probabilities(replayer) == pytest.approx({k: p / total for k, p in priorities.items()})
        if priorities:
            experience, sequences = draw()
            assert set(as_tuples(sequences)) <= set(priorities)
            check_content(experience, sequences, streams, 1, 3)


ONCE = {}


def make_once(recurrent):
    if recurrent not in ONCE:
        replayer, streams = make(context=1, capacity=46, recurrent=recurrent, alpha=1, epsilon=1)
        draw = tf.function(lambda: replayer.sample(5, 3, NOW)[:2], autograph=False)
        with pytest.raises(tf.errors.InvalidArgumentError):
            draw()
        ONCE[recurrent] = replayer, streams, draw
    return ONCE[recurrent]


def test_settings():
    for setting, value in [
        ("alpha", -1),
        ("beta", -0.1),
        ("beta", 1.1),
        ("beta", LinearSchedule(0, 2, over=5)),
        ("epsilon", 0),
    ]:
        with pytest.raises(ConfigError, match=f"PrioritizedReplayer.{setting}"):
            make(**{setting: value})
