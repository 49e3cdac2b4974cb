# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The records, and the functions that make and read them."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import ArraySpec, BoundedArraySpec
from tf_agents.trajectories.time_step import StepType

from alf.core.nest_utils import BoundedTensorSpec, add_leading_dims, to_tensor_spec, zeros_from_spec
from alf.data_structures import (
    FIRST,
    LAST,
    MID,
    Experience,
    LogRecord,
    LossInfo,
    PolicyState,
    PolicyStep,
    TimeStep,
    count_transitions,
)
from alf.testing.toy_environments import CountingEnvironment


def test_step_types_are_those_of_tf_agents():
    assert (FIRST, MID, LAST) == (StepType.FIRST, StepType.MID, StepType.LAST) == (0, 1, 2)
    assert all(type(x) is int for x in (FIRST, MID, LAST))


def test_is_first():
    step_type = tf.constant([FIRST, MID, LAST, FIRST])
    time_step = TimeStep(step_type, *[()] * 5)
    np.testing.assert_array_equal(time_step.is_first(), [True, False, False, True])


@pytest.mark.parametrize("record", [TimeStep, PolicyStep, Experience, LossInfo, LogRecord])
def test_records_are_nests_that_keep_their_type(record):
    nest = record(*range(len(record._fields)))
    doubled = tf.nest.map_structure(lambda x: 2 * x, nest)
    assert type(doubled) is record
    assert list(doubled) == [2 * x for x in range(len(record._fields))]


def test_what_is_optional_is_empty():
    assert PolicyStep(action=1) == (1, PolicyState((), (), ()), ())
    assert LossInfo(loss=1).extra == ()
    assert Experience(*range(9)).state == PolicyState((), ())


def test_an_experience_begins_with_the_fields_of_a_time_step():
    assert Experience._fields[: len(TimeStep._fields)] == TimeStep._fields


def test_to_tensor_spec_keeps_bounds():
    spec = to_tensor_spec({"a": BoundedArraySpec((2,), np.int32, 0, 5, "a"), "b": (ArraySpec((), np.uint8),)})
    assert isinstance(spec["a"], BoundedTensorSpec)
    assert (spec["a"].shape, spec["a"].dtype, spec["a"].name) == ((2,), tf.int32, "a")
    assert (spec["a"].minimum, spec["a"].maximum) == (0, 5)
    assert spec["b"][0] == tf.TensorSpec((), tf.uint8)


def test_batch_spec():
    spec = {"a": BoundedTensorSpec((2,), tf.int32, 0, 5), "b": (tf.TensorSpec((), tf.bool), ())}
    batched = add_leading_dims(spec, 3, 4)
    assert batched["a"] == tf.TensorSpec((3, 4, 2), tf.int32)
    assert type(batched["a"]) is tf.TensorSpec
    assert batched["b"] == (tf.TensorSpec((3, 4), tf.bool), ())
    assert add_leading_dims(tf.TensorSpec((2,), tf.int64)) == tf.TensorSpec((2,), tf.int64)
    assert add_leading_dims((), 3) == ()


def test_zeros_like_spec():
    spec = {"a": tf.TensorSpec((2,), tf.int32), "b": tf.TensorSpec((), tf.bool)}
    zeros = zeros_from_spec(spec, 3)
    np.testing.assert_array_equal(zeros["a"], np.zeros((3, 2)))
    assert zeros["a"].dtype == tf.int32
    np.testing.assert_array_equal(zeros["b"], [False, False, False])
    assert zeros_from_spec((), 3) == ()


@pytest.mark.parametrize(
    "column, transitions",
    [
        ([FIRST, MID, MID], 2),
        ([MID, LAST, FIRST], 1),
        ([LAST, FIRST, MID], 1),
        ([MID, MID, LAST], 2),
        ([LAST, FIRST, LAST, FIRST], 1),
        ([LAST, FIRST], 0),
        ([MID, FIRST, FIRST, MID], 1),
        ([FIRST, LAST], 1),
    ],
)
def test_count_transitions_by_hand(column, transitions):
    count = count_transitions(tf.constant(column)[:, tf.newaxis])
    assert count == transitions
    assert count.dtype == tf.int64 and count.shape == ()
    of_array = count_transitions(np.array(column)[:, np.newaxis])
    assert type(of_array) is int, "checkpoints hold it as JSON"
    assert of_array == transitions


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_count_transitions_with_more_dimensions(leading):
    step_type = np.random.default_rng(0).integers(0, 3, (*leading, 5, 4))
    expected = 0
    for column in np.moveaxis(step_type, -2, -1).reshape(-1, 5):
        for row in column[1:]:
            expected += row != FIRST
    assert tf.function(count_transitions)(tf.constant(step_type, tf.int32)) == expected


def test_count_transitions_of_an_environment_are_its_steps():
    """Each reset is one row, and no step."""
    env = CountingEnvironment(3, episode_length=2)
    rows = [env.reset()] + [env.step(np.zeros(3, np.int64)) for _ in range(30)]
    step_type = np.stack([row.step_type for row in rows])
    resets = np.sum(step_type[1:] == FIRST)
    assert count_transitions(tf.constant(step_type)) == 3 * 30 - resets
