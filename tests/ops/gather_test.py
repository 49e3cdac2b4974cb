# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""gather against NumPy, in the form for GPUs, too, where bytes travel as other numbers."""

import numpy as np
import pytest
import tensorflow as tf

from alf.ops.gather import gather


@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_, np.float32, np.int32, np.int64])
@pytest.mark.parametrize(
    "shape, axis, indices",
    [
        ((5, 3, 8), 0, [4, 4, 0]),
        ((5, 6, 2, 6), 1, [[1, 5], [0, 1]]),
        ((7, 3), 0, [[6]]),  # no four bytes in a row
        ((7,), 0, [3, 1]),
        ((4, 5), 1, 2),
    ],
)
def test_it_is_that_of_tensorflow(shape, axis, indices, dtype, has_gpu, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["a GPU"] * has_gpu)
    # All bytes, of which some are NaN as parts of floats.
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(dtype)
    expected = np.take(x, indices, axis)
    result = gather(tf.constant(x), tf.constant(indices), axis)
    assert result.dtype == dtype and result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


def test_an_unknown_number_of_rows(monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["a GPU"])
    specs = tf.TensorSpec((None, 3, 4), tf.uint8), tf.TensorSpec((None,), tf.int32)
    run = tf.function(gather, autograph=False, input_signature=specs)
    x = np.arange(60, dtype=np.uint8).reshape(5, 3, 4)
    np.testing.assert_array_equal(run(x, [4, 0]), x[[4, 0]])
    assert run.get_concrete_function().structured_outputs.shape.as_list() == [None, 3, 4]
