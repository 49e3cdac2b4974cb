# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The check of unrolls names the first leaf that is wrong, also of steps that Python has not seen."""

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience
from alf.drivers import unroll_check
from alf.drivers.unroll_check import check_values, describe_wrong_value

NAN = float("nan")


def find(**wrong):
    """Checks an unroll of [3, 2] with some values that are wrong; returns what names the first."""
    values = {
        "step_type": np.ones((3, 2), np.int32),
        "reward": np.zeros((3, 2), np.float32),
        "discount": np.ones((3, 2), np.float32),
        "observation": {"a": np.zeros((3, 2, 4), np.float32), "b": np.zeros((3, 2), np.uint8)},
        "action": np.zeros((3, 2), np.float32),
    }
    values |= wrong
    unroll = Experience(**values, prev_action=(), env_id=(), info=(), policy_version=(), state=())
    check = tf.function(lambda unroll: check_values(unroll, has_owner=False), autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        check(tf.nest.map_structure(tf.constant, unroll))
    return describe_wrong_value(info.value.message)


def full(value, dtype=np.float32, shape=(3, 2)):
    return np.full(shape, value, dtype)


IMAGE = np.zeros((3, 2, 4), np.float32)
IMAGE[1, 1, 2], IMAGE[2, 0, 0] = -np.inf, NAN


@pytest.mark.parametrize(
    "wrong, leaf, text",
    [
        ({"step_type": full(3, np.int32)}, "step_type", "3 in step_type of sub-environment 0, in row 0"),
        ({"discount": full(-NAN)}, "discount", "nan in discount of sub-environment 0, in row 0"),
        ({"discount": full(1.25)}, "discount", "1.25 in discount of sub-environment 0, in row 0"),
        ({"reward": full(np.inf)}, "reward", "inf in reward of sub-environment 0, in row 0"),
        (
            {"observation": {"a": IMAGE, "b": full(0, np.uint8)}},
            "observation a",
            "-inf in observation a[2] of sub-environment 1, in row 1",
        ),
        (
            {"reward": full(NAN), "action": full(NAN)},
            "reward",
            "nan in reward of sub-environment 0, in row 0",
        ),
        (
            {"reward": full(NAN), "step_type": full(-1, np.int32)},
            "step_type",
            "-1 in step_type of sub-environment 0, in row 0",
        ),
        ({"action": full(NAN)}, "action", "nan in action of sub-environment 0, in row 0"),
    ],
)
def test_the_first_wrong_leaf_is_named(wrong, leaf, text):
    assert find(**wrong) == (leaf, f"{text} of an unroll of rows 0 to 2")


def test_of_a_very_large_leaf_only_the_name_is_known(monkeypatch):
    monkeypatch.setattr(unroll_check, "_MAX_SHOWN", 23)
    observation = {"a": IMAGE, "b": full(0, np.uint8)}
    assert find(observation=observation) == ("observation a", "a wrong value in observation a")


def test_another_error_is_none_of_these():
    assert describe_wrong_value("No such file: 3 of shape (3, 2)") == (None, "")
