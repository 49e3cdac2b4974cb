# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""merge_unrolls: its order. Segments: rows, states. Minibatches: each column once an epoch."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience, PolicyState
from alf.learner.minibatches import merge_unrolls, select_columns, shuffle_in_parts, split_in_segments
from alf.ops.draws import Stream

T, B = 3, 6


def make_batch():
    """A pair whose numbers say their row and environment: 10 * t + b; the state says b."""
    x = tf.range(T + 1)[:, tf.newaxis] * 10 + tf.range(B)[tf.newaxis]
    fields = dict.fromkeys(Experience._fields, x)
    fields |= {"observation": {"a": x[..., tf.newaxis], "b": x}, "state": PolicyState(train=(tf.range(B),))}
    return Experience(**fields), {"prepared": x}


@functools.cache
def split(num_epochs, num_minibatches):
    """Returns the minibatches of all epochs, one for each update."""
    shuffle = tf.function(lambda: shuffle_in_parts(B, num_epochs, num_minibatches, Stream(0), tf.constant(5)))
    return [select_columns(make_batch(), columns) for columns in shuffle()]


@pytest.mark.parametrize("num_epochs, num_minibatches", [(1, 3), (5, 2)])
def test_every_environment_comes_once_in_each_epoch(num_epochs, num_minibatches):
    batches = split(num_epochs, num_minibatches)
    assert len(batches) == num_epochs * num_minibatches
    for experience, prepared in batches:
        rows = experience.step_type
        assert rows.shape == (T + 1, B // num_minibatches)
        np.testing.assert_array_equal(rows - rows[:1], 10 * np.arange(T + 1)[:, None] + 0 * rows)
        for x in (experience.observation["a"][..., 0], experience.reward, prepared["prepared"]):
            np.testing.assert_array_equal(x, rows)
        np.testing.assert_array_equal(experience.state.train[0], rows[0])
    epochs = np.reshape([experience.step_type[0] for experience, _ in batches], (num_epochs, B))
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(B), (num_epochs, 1)))


def test_every_epoch_is_shuffled_anew():
    epochs = np.reshape([experience.step_type[0] for experience, _ in split(5, 2)], (5, B))
    assert len({tuple(epoch) for epoch in epochs}) > 2 and list(range(B)) not in epochs.tolist()


def test_one_update_takes_the_batch_as_it_is():
    assert shuffle_in_parts(B, 1, 1, Stream(0), tf.constant(5)) is None


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_segments_are_shorter_unrolls_side_by_side(length):
    num_steps, num_segments = 6, 6 // length
    code = tf.range(num_steps + 1)[:, tf.newaxis] * 10 + tf.range(B)
    fields = dict.fromkeys(Experience._fields, code)
    fields.update(observation={"a": code[..., tf.newaxis], "b": code}, weight=1 + code)
    fields.update(state=PolicyState(train=(code[0],)))
    # The state that enters row t says t and the environment, as the rows do.
    segments, prepared = split_in_segments(
        (Experience(**fields), (code,)),
        length,
        lambda rows: (tf.ensure_shape(rows.state.train[0], (B,)) + 10 * length,),
    )
    starts = np.repeat(np.arange(num_segments) * length * 10, B) + np.tile(np.arange(B), num_segments)
    expected = starts + 10 * np.arange(length + 1)[:, np.newaxis]
    np.testing.assert_array_equal(segments.reward, expected)
    np.testing.assert_array_equal(prepared[0], expected)
    np.testing.assert_array_equal(segments.observation["a"][..., 0], expected)
    np.testing.assert_array_equal(segments.state.train[0], starts)
    weight = segments.weight.numpy()
    np.testing.assert_array_equal(weight[:-1], 1 + expected[:-1])
    assert not weight[-1].any(), "a segment's last row is the next one's first"
    np.testing.assert_array_equal(np.sort(weight[:-1].ravel()), np.sort(1 + code[:-1].numpy().ravel()))


@pytest.mark.parametrize("q", [1, 3])
def test_merge_unrolls_is_time_major_and_keeps_the_order(q):
    t_plus_1, b = 4, 2
    unroll, time, env = np.meshgrid(range(q), range(t_plus_1), range(b), indexing="ij")
    code = 100 * unroll + 10 * time + env
    state = tf.constant(code[:, 0, :, np.newaxis])
    experience = Experience(*[tf.constant(code)] * 9)._replace(
        observation={"x": tf.constant(np.stack([code, -code], axis=-1))}, info=(), state=(state,)
    )
    merged = merge_unrolls(experience)
    expected = np.array([[100 * i + 10 * t + e for i in range(q) for e in range(b)] for t in range(t_plus_1)])
    for name in ("step_type", "reward", "discount", "prev_action", "env_id", "action"):
        np.testing.assert_array_equal(getattr(merged, name), expected, err_msg=name)
    np.testing.assert_array_equal(merged.policy_version, expected)
    np.testing.assert_array_equal(merged.observation["x"][..., 0], expected)
    np.testing.assert_array_equal(merged.observation["x"][..., 1], -expected)
    assert merged.info == ()
    # The state that entered row 0 of the same columns.
    np.testing.assert_array_equal(merged.state[0][:, 0], expected[0])
    assert merged.state[0].shape == (q * b, 1)
