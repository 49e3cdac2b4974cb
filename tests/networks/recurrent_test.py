# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recurrent layers: against Keras, and unrolls against single steps."""

import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks.recurrent import GRU, LSTM

T, B, D, U = 7, 3, 4, 5
CELLS = [GRU, LSTM]


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def random_state(rnn, batch_size=B):
    return tf.nest.map_structure(lambda s: tf.constant(random(batch_size, *s.shape, seed=9)), rnn.state_spec)


def zeros(rnn, batch_size=B):
    return tf.nest.map_structure(tf.zeros_like, random_state(rnn, batch_size))


def assert_close(a, b):
    for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def unroll(rnn, x, state, is_first=None):
    """x: [T, B, D] -> outputs [T, B, U], final state."""
    is_first = tf.zeros(x.shape[:2], tf.bool) if is_first is None else tf.constant(is_first)
    outputs, state = tf.function(rnn.unroll, autograph=False)(
        tf.reshape(x, (-1, x.shape[-1])), state, is_first
    )
    return tf.reshape(outputs, (*x.shape[:2], -1)), state


@pytest.mark.parametrize("cell", CELLS)
def test_unroll_is_keras(cell):
    rnn = cell(D, U)
    x, state = random(T, B, D), random_state(rnn)
    kernel, bias = rnn._input_layer.kernel.numpy(), random(*rnn._input_layer.bias.shape, seed=3)
    rnn._input_layer.bias.assign(bias)
    make = tf.keras.layers.GRU if cell is GRU else tf.keras.layers.LSTM
    layer = make(U, return_sequences=True, return_state=True)
    layer.build((B, T, D))
    recurrent = rnn._weights[0].numpy()
    if cell is GRU:
        rnn._weights[1].assign(random(U, seed=4))
        bias = np.stack([bias, np.concatenate([np.zeros(2 * U), rnn._weights[1].numpy()])])
    layer.set_weights([kernel, recurrent, bias])
    batch_major = tf.transpose(x, (1, 0, 2))
    expected, *expected_state = layer(batch_major, initial_state=tf.nest.flatten(state))
    outputs, final = unroll(rnn, x, state)
    assert_close(outputs, tf.transpose(expected, (1, 0, 2)))
    assert_close(final, expected_state)


@pytest.mark.parametrize("cell", CELLS)
def test_initial_weights(cell):
    rnn = cell(D, U, seed=0)
    kernel, bias = (v.numpy() for v in (rnn._input_layer.kernel, rnn._input_layer.bias))
    for k in (kernel, rnn._weights[0].numpy()):
        np.testing.assert_allclose(k @ k.T, np.eye(len(k)), atol=1e-5)
    forget = np.repeat([0, 1, 0, 0], U) if cell is LSTM else np.zeros(3 * U)
    np.testing.assert_array_equal(bias, forget)
    assert len(rnn.trainable_variables) == (4 if cell is GRU else 3)


@pytest.mark.parametrize("cell", CELLS)
def test_unroll_equals_single_steps_and_resets(cell):
    rnn = cell(D, U)
    x, state = random(T, B, D), random_state(rnn)
    is_first = np.random.default_rng(0).random((T, B)) < 0.3
    is_first[0] = True, False, False
    assert is_first[1:].any(axis=1).sum() > 1
    outputs, final = unroll(rnn, x, state, is_first)
    for t in range(T):
        state = tf.nest.map_structure(lambda s, t=t: np.where(is_first[t][:, None], 0, s), state)
        output, state = rnn.step(x[t], state)
        assert_close(outputs[t], output)
    assert_close(final, state)


@pytest.mark.parametrize("cell", CELLS)
def test_rows_after_a_reset_are_a_fresh_unroll(cell):
    rnn = cell(D, U)
    x = random(T, B, D)
    is_first = np.zeros((T, B), bool)
    is_first[3, 1] = True
    outputs, final = unroll(rnn, x, random_state(rnn), is_first)
    fresh, fresh_final = unroll(rnn, x[3:, 1:2], zeros(rnn, 1))
    assert_close(outputs[3:, 1:2], fresh)
    assert_close(tf.nest.map_structure(lambda s: s[1:2], final), fresh_final)
    assert not np.allclose(outputs[3:, :1], unroll(rnn, x[3:, :1], zeros(rnn, 1))[0], atol=1e-3)


@pytest.mark.parametrize("cell", CELLS)
def test_a_reset_forgets_even_what_is_not_finite(cell):
    rnn = cell(D, U)
    state = tf.nest.map_structure(lambda s: s * np.nan, random_state(rnn))
    outputs, _ = unroll(rnn, random(T, B, D), state, np.arange(T)[:, None].repeat(B, 1) == 0)
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize("cell", CELLS)
def test_two_segments_equal_the_whole(cell):
    rnn = cell(D, U)
    x, state = random(T, B, D), random_state(rnn)
    whole, final = unroll(rnn, x, state)
    first, middle = unroll(rnn, x[:4], state)
    second, end = unroll(rnn, x[4:], middle)
    assert_close(whole, np.concatenate([first, second]))
    assert_close(final, end)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_flow_through_time_but_not_across_a_reset(cell):
    rnn = cell(D, U)
    x, state = tf.constant(random(T, B, D)), random_state(rnn)
    is_first = np.zeros((T, B), bool)
    is_first[3, 1] = True
    with tf.GradientTape() as tape:
        tape.watch((x, state))
        outputs, _ = unroll(rnn, x, state, is_first)
        last = tf.reduce_sum(outputs[5])
    d_x, d_state = tape.gradient(last, (x, state))
    d_x = np.abs(d_x).max(axis=-1)
    reaches = np.ones((T, B), bool)
    reaches[6] = False
    reaches[:3, 1] = False
    np.testing.assert_array_equal(d_x > 0, reaches)
    for d in tf.nest.flatten(d_state):
        np.testing.assert_array_equal(np.abs(d).max(axis=-1) > 0, [True, False, True])


@pytest.mark.parametrize("cell, units, name", [(GRU, 0, "GRU.units is 0"), (LSTM, 8.0, "LSTM.units is 8.0")])
def test_settings_are_checked(cell, units, name):
    with pytest.raises(ConfigError, match=name):
        cell(D, units)


def test_is_first_of_another_rank_is_an_error():
    rnn = GRU(D, U)
    with pytest.raises(ValueError, match="rank 2"):
        rnn.unroll(random(T * B, D), random_state(rnn), tf.zeros(B, tf.bool))
