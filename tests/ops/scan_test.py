# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`scan` against a loop in NumPy, and the size of its graphs."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from alf.core.tf_runtime import single_threaded
from alf.ops.scan import MAX_ROWS, scan

B = 3
# One chunk, chunks with a rest of one row, chunks without a rest, a prime number, many.
LENGTHS = [1, 7, MAX_ROWS, MAX_ROWS + 1, 100, 131, 512]


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def make_function(reverse):
    """A function of chunks: x = 0.9 x + a - b in each row. Its outputs are x, a tensor, and 2 x, a list."""

    def function(x, a, b):
        pairs, xs = list(zip(tf.unstack(a), b if isinstance(b, list) else tf.unstack(b), strict=True)), []
        for a_t, b_t in reversed(pairs) if reverse else pairs:
            x = 0.9 * x + a_t - b_t
            xs.append(x)
        xs = xs[::-1] if reverse else xs
        return x, [tf.stack(xs), [2 * x for x in xs]]

    return function


def there_and_back(a, b):
    """Returns states and outputs of a scan and of one in reverse, which takes an output of the first one."""
    x, (xs, doubles) = scan(make_function(False), tf.zeros_like(a[0]), (a, b), 2)
    y, (ys, _) = scan(make_function(True), x, (a, doubles), 2, reverse=True)
    return x, xs.stack(), doubles.stack(), y, ys.stack()


def expected(a, b):
    x, xs, ys = np.zeros_like(a[0]), [], []
    for a_t, b_t in zip(a, b, strict=True):
        x = np.float32(0.9) * x + a_t - b_t
        xs.append(x)
    y = x
    for a_t, x_t in zip(a[::-1], xs[::-1], strict=True):
        y = np.float32(0.9) * y + a_t - 2 * x_t
        ys.append(y)
    return x, np.stack(xs), 2 * np.stack(xs), y, np.stack(ys[::-1])


def assert_is_expected(result, a, b):
    for actual, wanted in zip(result, expected(a, b), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("num_rows", LENGTHS)
def test_is_a_loop_over_rows(num_rows):
    a, b = random(num_rows, B), random(num_rows, B, seed=1)
    assert_is_expected(tf.function(there_and_back, autograph=False)(tf.constant(a), tf.constant(b)), a, b)


@pytest.mark.parametrize("mode", ["eager", "one thread", "in a loop", "XLA"])
def test_everywhere(mode):
    a, b = random(131, B), random(131, B, seed=1)
    function = (
        there_and_back
        if mode == "eager"
        else tf.function(there_and_back, autograph=False, jit_compile=mode == "XLA")
    )
    if mode == "in a loop":
        inner, start = (
            function,
            (tf.zeros(B), tf.zeros((131, B)), tf.zeros((131, B)), tf.zeros(B), tf.zeros((131, B))),
        )

        def function(a, b):
            return tf.while_loop(lambda *_: True, lambda *_: inner(a, b), start, maximum_iterations=2)

        function = tf.function(function, autograph=False)
    with single_threaded() if mode == "one thread" else contextlib.nullcontext():
        assert_is_expected(function(tf.constant(a), tf.constant(b)), a, b)


def test_the_batch_may_be_unknown():
    spec = tf.TensorSpec((131, None), tf.float32)
    function = tf.function(there_and_back, autograph=False, input_signature=[spec, spec])
    for batch_size in (1, B):
        a, b = random(131, batch_size), random(131, batch_size, seed=1)
        assert_is_expected(function(a, b), a, b)


def count_operations(num_rows):
    spec = tf.TensorSpec((num_rows, B), tf.float32)
    graph = (
        tf.function(there_and_back, autograph=False).get_concrete_function(spec, spec).graph.as_graph_def()
    )
    return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)


def test_the_graph_does_not_grow():
    assert count_operations(512) == count_operations(128) < count_operations(MAX_ROWS)
    # Numbers of rows without a divisor leave a few over.
    assert max(map(count_operations, (67, 127, 131, 509))) < 1.1 * count_operations(MAX_ROWS)
