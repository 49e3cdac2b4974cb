# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The environment's actions as critics see them: the inverse of what distributions do."""

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import action_from_unit_box, action_to_index, action_to_unit_box
from alf.core.nest_utils import BoundedTensorSpec
from alf.policies.action_distributions import CategoricalActions, TanhGaussianActions

BOXES = {
    "scalar": BoundedTensorSpec((), tf.float32, -2.0, 2.0),
    "vector": BoundedTensorSpec((3,), tf.float32, [-1.0, 0.0, -5.0], [1.0, 10.0, -4.0]),
    "matrix": BoundedTensorSpec((2, 3), tf.float64, -0.5, [1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("leading", [(7,), (4, 7)])
def test_unit_action_is_tanh_of_what_was_drawn(name, leading):
    spec = BOXES[name]
    actions = TanhGaussianActions(spec)
    raw = tf.random.normal((*leading, spec.shape.num_elements()))
    unit = tf.function(lambda raw: action_to_unit_box(actions.action(raw), spec), autograph=False)(raw)
    assert unit.dtype == tf.float32
    np.testing.assert_allclose(unit, tf.tanh(raw), atol=2e-6)


@pytest.mark.parametrize("name", BOXES)
def test_an_action_from_the_unit_box_and_back(name):
    spec = BOXES[name]
    unit = np.linspace(-1, 1, 5 * spec.shape.num_elements(), dtype=np.float32).reshape(5, -1)
    action = action_from_unit_box(unit, spec)
    assert action.dtype == spec.dtype and action.shape == (5, *spec.shape)
    np.testing.assert_allclose(action_to_unit_box(action, spec), unit, atol=1e-6)
    np.testing.assert_array_equal(
        action_from_unit_box(unit + 9, spec)[0], np.broadcast_to(spec.maximum, spec.shape)
    )


def test_bounds_become_one():
    spec = BOXES["vector"]
    np.testing.assert_array_equal(action_to_unit_box(tf.constant([spec.minimum]), spec), [[-1.0] * 3])
    np.testing.assert_array_equal(action_to_unit_box(tf.constant([spec.maximum]), spec), [[1.0] * 3])


def test_a_number_without_a_choice_becomes_zero():
    spec = BoundedTensorSpec((2,), tf.float32, [-1.0, 3.0], [1.0, 3.0])
    np.testing.assert_array_equal(action_to_unit_box(tf.constant([[0.5, 3.0]]), spec), [[0.5, 0.0]])


@pytest.mark.parametrize("dtype", [tf.int64, tf.int32, tf.uint8])
def test_action_to_index(dtype):
    spec = BoundedTensorSpec((), dtype, 2, 5)
    index = action_to_index(tf.constant([[2, 5, 3]], dtype), spec)
    np.testing.assert_array_equal(index, [[0, 3, 1]])
    np.testing.assert_array_equal(CategoricalActions(spec).action(tf.cast(index, tf.int32)), [[2, 5, 3]])
