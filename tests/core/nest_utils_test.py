# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Leading dimensions of nests and specs, and the check of a nest against a spec."""

import collections
import re

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import (
    BoundedTensorSpec,
    add_leading_dims,
    find_mismatch,
    list_leaves,
    merge_leading_dims,
    name_leaves,
    remove_leading_dims,
    split_leading_dim,
    zero_where,
)

SPEC = {"a": tf.TensorSpec((2,), tf.float32), "b": BoundedTensorSpec((), tf.int64, 0, 3)}


@pytest.mark.parametrize("keep_bounds", [False, True])
def test_dims_are_added_and_removed(keep_bounds):
    batched = add_leading_dims(SPEC, 5, 4, keep_bounds=keep_bounds)
    assert batched["a"].shape == (5, 4, 2) and batched["b"].shape == (5, 4)
    assert isinstance(batched["b"], BoundedTensorSpec) == keep_bounds
    unbatched = remove_leading_dims(batched, 2)
    assert unbatched["a"].shape == (2,) and unbatched["b"].shape == ()
    assert isinstance(unbatched["b"], BoundedTensorSpec) == keep_bounds


@pytest.mark.parametrize("dims", [(3,), (3, 4), (2, 3, 4)])
def test_merged_dims_are_split_again(dims):
    x = tf.reshape(tf.range(float(np.prod(dims) * 2)), (*dims, 2))
    merged, leading = merge_leading_dims({"a": x}, {"a": SPEC["a"]})
    assert merged["a"].shape == (np.prod(dims), 2)
    np.testing.assert_array_equal(split_leading_dim(merged["a"], leading), x)


NAMED = collections.namedtuple("NAMED", "camera, none")


def test_leaves_have_paths_and_names():
    nest = {"b/c": [NAMED(1, ()), (2,)], "a": 3}
    assert list_leaves(nest) == [("a", 3), ("b/c/0/camera", 1), ("b/c/1/0", 2)]
    assert name_leaves("x", nest) == {"x_a": 3, "x_b_c_0_camera": 1, "x_b_c_1_0": 2}
    assert list_leaves(7) == [("", 7)] and name_leaves("x", 7) == {"x": 7}
    assert list_leaves(()) == [] and name_leaves("x", {"a": 1, "a.": 2}) == {"x_a": 1, "x_a_": 2}
    assert name_leaves("x", {"a_": 1, "a.": 2}) == {"x_0": 2, "x_1": 1}


def test_rows_become_zero():
    nest = (tf.ones((3, 2)), tf.ones(3, tf.int64))
    a, b = zero_where(tf.constant([True, False, True]), nest)
    np.testing.assert_array_equal(a, [[0, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(b, [0, 1, 0])
    a = zero_where(tf.constant([[True, False, True], [False, False, True]]), tf.ones((2, 3, 1)))
    np.testing.assert_array_equal(a[..., 0], [[0, 1, 0], [1, 1, 0]])


def test_a_nest_that_fits_has_no_mismatch():
    assert find_mismatch({"a": np.zeros(2, np.float32), "b": np.int64(1)}, SPEC) is None
    assert find_mismatch(SPEC, SPEC) is None
    assert find_mismatch({"a": tf.zeros((7, 2))}, {"a": tf.TensorSpec((None, 2), tf.float32)}) is None


@pytest.mark.parametrize(
    "nest, text",
    [
        ({"a": np.zeros(2, np.float32)}, "structure"),
        ({"a": np.zeros(3, np.float32), "b": np.int64(1)}, r"float32 \(3,\) instead of float32 \(2,\)"),
        ({"a": np.zeros(2, np.float64), "b": np.int64(1)}, r"float64 \(2,\) instead of float32 \(2,\)"),
        ({"a": [0.0, 1.0], "b": np.int64(1)}, "structure"),
    ],
)
def test_a_mismatch_is_named(nest, text):
    assert re.search(text, find_mismatch(nest, SPEC))
