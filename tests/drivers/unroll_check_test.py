# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The check of unrolls names the first leaf that is wrong, also of steps that Python has not seen."""

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience
from alf.drivers.unroll_check import check_values, find_wrong_value

NAN = float("nan")


def find(**wrong):
    """Checks an unroll of [3, 2] with some values that are wrong; returns the text that tells of them."""
    values = {
        "step_type": np.ones((3, 2), np.int32),
        "reward": np.zeros((3, 2), np.float32),
        "discount": np.ones((3, 2), np.float32),
        "observation": {"a": np.zeros((3, 2, 4), np.float32), "b": np.zeros((3, 2), np.uint8)},
        "action": np.zeros((3, 2), np.float32),
    }
    values |= wrong
    unroll = Experience(**values, prev_action=(), env_id=(), info=(), policy_version=(), state=())
    check = tf.function(check_values, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        check(tf.nest.map_structure(tf.constant, unroll))
    return find_wrong_value(info.value.message, [], (), [])


def full(value, dtype=np.float32, shape=(3, 2)):
    return np.full(shape, value, dtype)


@pytest.mark.parametrize(
    "wrong, text",
    [
        ({"step_type": full(3, np.int32)}, "step_type that is outside of 0 to 2"),
        ({"discount": full(NAN)}, "discount that is outside of 0 to 1"),
        ({"reward": full(NAN)}, "reward that is not finite"),
        ({"observation": {"a": full(NAN), "b": full(0, np.uint8)}}, "observation a that is not finite"),
        ({"reward": full(NAN), "action": full(NAN)}, "reward that is not finite"),
        ({"reward": full(NAN), "step_type": full(-1, np.int32)}, "step_type that is outside of 0 to 2"),
    ],
)
def test_the_first_wrong_leaf_is_named(wrong, text):
    assert find(**wrong) == f"a number in {text}"


def test_an_action_is_not_the_environments():
    assert find(action=full(NAN)) is None
