# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Unrolls and their gradients against TensorFlow's of the literal formulas, in float64."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from alf.core.tf_runtime import single_threaded
from alf.ops import recurrence, scan
from alf.ops.recurrence import GruCell, LstmCell
from tests.networks.rounding import distance

B, D, U = 3, 4, 5
CELLS = [GruCell, LstmCell]
# Of a chunk, so that tests of loops are quick.
MAX_ROWS = 6
# A step, a chunk, a loop over chunks without and with a row that is left over.
LENGTHS = [1, MAX_ROWS, 12, 13]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(scan, "MAX_ROWS", MAX_ROWS)


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def dot(x, kernel, dtype):
    return tf.cast(tf.matmul(tf.cast(x, dtype), tf.cast(kernel, dtype)), x.dtype)


def literal_gru(x, state, dtype, kernel, bias):
    (h,) = state
    (x_z, x_r, x_c), (w_z, w_r, w_c) = tf.split(x, 3, axis=1), tf.split(kernel, 3, axis=1)
    z, r = tf.sigmoid(x_z + dot(h, w_z, dtype)), tf.sigmoid(x_r + dot(h, w_r, dtype))
    return (z * h + (1 - z) * tf.tanh(x_c + r * (dot(h, w_c, dtype) + bias)),)


def literal_lstm(x, state, dtype, kernel):
    h, c = state
    i, f, g, o = tf.split(x + dot(h, kernel, dtype), 4, axis=1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def literal_unroll(cell, x, state, is_first, weights, dtype):
    """One step after the other, with matrix products in `dtype`."""
    step = literal_gru if cell is GruCell else literal_lstm
    x_kernel, x_bias, *others = weights
    outputs = []
    for is_first_t, x_t in zip(tf.unstack(is_first), tf.split(x, is_first.shape[0]), strict=True):
        state = [tf.where(is_first_t[:, tf.newaxis], tf.zeros_like(s), s) for s in state]
        state = step(dot(x_t, x_kernel, dtype) + x_bias, state, dtype, *others)
        outputs.append(state[0])
    return tf.concat(outputs, axis=0), state


def make_arguments(cell, num_rows, batch_size=B):
    """Makes x, state, is_first and weights."""
    k, num_states = cell.num_gates, 1 if cell is GruCell else 2
    is_first = np.random.default_rng(5).random((num_rows, batch_size)) < 0.2
    is_first[0, 0] = True
    arguments = (
        random(num_rows * batch_size, D),
        [random(batch_size, U, seed=1 + i) for i in range(num_states)],
        is_first,
        [random(D, k * U, seed=6), random(k * U, seed=7), random(U, k * U, seed=8)]
        + [random(U, seed=9)] * (cell is GruCell),
    )
    return tf.nest.map_structure(tf.constant, arguments)


def differentiate(unroll, cell, x, state, is_first, weights, dtype):
    """Returns outputs and final state; and the gradients of a weighted sum of them to all arguments."""
    with tf.GradientTape() as tape:
        tape.watch((x, state, weights))
        outputs, final = unroll(cell, x, state, is_first, weights, dtype)
        results = [outputs, *final]
        loss = sum(tf.reduce_sum(y * random(*y.shape, seed=20 + i)) for i, y in enumerate(results))
    return results, tape.gradient(loss, [x, *state, *weights])


def in_graph(cell, arguments, dtype=tf.float32, unroll=recurrence.unroll, **kwargs):
    function = tf.function(lambda *args: differentiate(unroll, cell, *args, dtype), autograph=False, **kwargs)
    return function(*arguments)


def literal(cell, arguments):
    x, state, is_first, weights = arguments
    x, state, weights = tf.nest.map_structure(lambda v: tf.cast(v, tf.float64), (x, state, weights))
    return differentiate(literal_unroll, cell, x, state, is_first, weights, tf.float64)


def assert_close(actual, wanted):
    for x, y in zip(tf.nest.flatten(actual), tf.nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5 * np.abs(y).max())


@pytest.mark.parametrize("num_rows", LENGTHS)
@pytest.mark.parametrize("cell", CELLS)
def test_is_the_formula(cell, num_rows):
    arguments = make_arguments(cell, num_rows)
    assert num_rows < 10 or tf.reduce_sum(tf.cast(arguments[2], tf.int32)) > 5
    assert_close(in_graph(cell, arguments), literal(cell, arguments))


@pytest.mark.parametrize("cell", CELLS)
def test_a_step_is_the_formula(cell):
    x, state, is_first, weights = make_arguments(cell, 1)
    _, expected = literal_unroll(cell, x, state, tf.zeros_like(is_first), weights, tf.float32)
    assert_close(recurrence.step(cell, x, state, weights, tf.float32), expected)


@pytest.mark.parametrize("mode", ["eager", "one thread", "in a loop", "XLA"])
@pytest.mark.parametrize("cell", CELLS)
def test_everywhere(cell, mode):
    arguments = make_arguments(cell, LENGTHS[-1])
    expected = literal(cell, arguments)
    if mode == "eager":
        actual = differentiate(recurrence.unroll, cell, *arguments, tf.float32)
    elif mode == "in a loop":  # as the updates for minibatches
        start = tf.nest.map_structure(lambda y: tf.zeros(y.shape), expected)
        body = lambda *_: in_graph(cell, arguments)  # noqa: E731
        loop = lambda: tf.while_loop(lambda *_: True, body, start, maximum_iterations=2)  # noqa: E731
        actual = tf.function(loop, autograph=False)()
    else:
        with single_threaded() if mode == "one thread" else contextlib.nullcontext():
            actual = in_graph(cell, arguments, jit_compile=mode == "XLA")
    assert_close(actual, expected)


@pytest.mark.parametrize("num_rows", LENGTHS[1:])
@pytest.mark.parametrize("cell", CELLS)
def test_bfloat16_rounds_no_more_than_the_gradient_of_tensorflow(cell, num_rows):
    arguments = make_arguments(cell, num_rows)
    exact = literal(cell, arguments)
    rounded = in_graph(cell, arguments, tf.bfloat16, literal_unroll)
    actual = in_graph(cell, arguments, tf.bfloat16)
    assert 1e-4 < distance(actual[0], exact[0]) < 2 * distance(rounded[0], exact[0])
    assert 1e-4 < distance(actual[1], exact[1]) < 2 * distance(rounded[1], exact[1])
    assert {g.dtype for g in tf.nest.flatten(actual)} == {tf.float32}


@pytest.mark.parametrize("cell", CELLS)
def test_the_tape_may_be_outside_of_the_graph_and_the_batch_unknown(cell):
    x, state, is_first, weights = arguments = make_arguments(cell, LENGTHS[-1])
    graph = tf.function(lambda *args: recurrence.unroll(cell, *args, tf.float32), autograph=False)
    spec = lambda v: tf.TensorSpec((None, *v.shape[1:]), v.dtype)  # noqa: E731
    graph = graph.get_concrete_function(
        *tf.nest.map_structure(spec, (x, state)),
        tf.TensorSpec((LENGTHS[-1], None), tf.bool),
        tf.nest.map_structure(lambda v: tf.TensorSpec(v.shape, v.dtype), weights),
    )
    actual = differentiate(lambda _, x, s, f, w, dtype: graph(x, s, f, w), cell, *arguments, tf.float32)
    assert_close(actual, literal(cell, arguments))


@pytest.mark.parametrize("num_rows", LENGTHS[1:])
@pytest.mark.parametrize("cell", CELLS)
def test_a_reset_stops_what_is_not_finite(cell, num_rows):
    x, state, is_first, weights = make_arguments(cell, num_rows)
    reset = num_rows - 2
    is_first = tf.constant(np.arange(num_rows)[:, None].repeat(B, 1) == reset)
    after = tf.range(num_rows * B)[:, tf.newaxis] >= reset * B
    x = tf.where(after, x, np.nan)
    results, gradients = in_graph(cell, (x, state, is_first, weights))
    outputs = results[0][reset * B :]
    assert np.isfinite(outputs).all() and np.isnan(results[0][: reset * B]).all()

    @tf.function(autograph=False)
    def of_the_last_rows(x, state):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs, _ = recurrence.unroll(cell, x, state, is_first, weights, tf.float32)
            loss = tf.reduce_sum(outputs[reset * B :])
        return tape.gradient(loss, x)

    assert np.isfinite(of_the_last_rows(x, state)[reset * B :]).all()


def count_operations(cell, num_rows):
    function = tf.function(
        lambda *args: differentiate(recurrence.unroll, cell, *args, tf.float32), autograph=False
    )
    graph = function.get_concrete_function(*make_arguments(cell, num_rows)).graph.as_graph_def()
    return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)


@pytest.mark.parametrize("cell", CELLS)
def test_the_graph_does_not_grow(cell):
    assert count_operations(cell, 8 * MAX_ROWS) == count_operations(cell, 2 * MAX_ROWS)
    assert count_operations(cell, 2 * MAX_ROWS) < 1.5 * count_operations(cell, MAX_ROWS)


def test_one_thread_runs_unrolls_of_many_units(monkeypatch):
    """TensorFlow adds up many large gradients in place, which its executor of one thread cannot."""
    units, num_rows = 600, 64
    x, state, is_first, _ = make_arguments(GruCell, num_rows, 1)
    monkeypatch.setattr(scan, "MAX_ROWS", num_rows)
    weights = [tf.zeros((D, 3 * units)), tf.zeros(3 * units), tf.zeros((units, 3 * units)), tf.zeros(units)]
    with single_threaded():
        in_graph(GruCell, (x, [tf.zeros((1, units))], is_first, weights))
