# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The check of each unroll in the graph, and the text about the value for which it fails."""

import ast
import re

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import list_leaves
from alf.data_structures import LIMITS, OBSERVATION

_MARK = "ALF: wrong value in"  # in the message of TensorFlow's error
ACTION = "action"  # a field of an `Experience`
_MAX_SHOWN = 1_000_000  # numbers of a leaf that the message shows: 10 MB


def check_values(unroll, has_owner):
    """Returns the reward of an unroll; fails in the graph unless all values can be learned from.

    Rewards, observations and actions must be finite, discounts in [0, 1], step types 0, 1 or 2. The message
    of TensorFlow's error has the first leaf that is wrong, for `describe_wrong_value`.

    Args:
        unroll: `Experience` of [T+1, B, ...].
        has_owner: bool, whether its observation is a dict of `OBSERVATION` and `OWNER`.
    """
    observation = unroll.observation[OBSERVATION] if has_owner else unroll.observation
    leaves = [(name, getattr(unroll, name)) for name in (*LIMITS, "reward")]
    for name, nest in (("observation", observation), (ACTION, unroll.action)):
        leaves += [(f"{name} {path}".strip(), x) for path, x in list_leaves(nest) if x.dtype.is_floating]
    # The executor runs operations that do not depend on each other in any order. Each check waits for the one
    # before, so that the first wrong leaf is named: a policy may answer NaN with NaN.
    checks = []
    for name, x in leaves:
        # NaN is never equal.
        fine = tf.equal(x, tf.clip_by_value(x, *LIMITS[name])) if name in LIMITS else tf.math.is_finite(x)
        text = tf.constant(f"{_MARK} {name} of shape {tuple(x.shape)}:")
        with tf.control_dependencies(checks):
            # Not `tf.Assert`, which wraps this in a `tf.cond` that costs 40 us. So would a branch into
            # Python. TensorFlow writes the numbers only when the check fails.
            check = tf.raw_ops.Assert(condition=tf.reduce_all(fine), data=[text, x], summarize=_MAX_SHOWN)
        checks = [check]
    with tf.control_dependencies(checks):
        return tf.identity(unroll.reward)


def describe_wrong_value(message):
    """Describes the value for which `check_values` has failed, from the message of TensorFlow's error.

    Returns:
        leaf: text, such as "reward" or "observation camera/0"; None if the error is another one.
        text: the value, the leaf and the place in it; only the leaf if it is very large.
    """
    found = re.search(rf"{_MARK} (.*?) of shape (\(.*?\)):\] ([-+.\d \[\]einfa]*)", message)
    if found is None:
        return None, ""
    leaf, shape = found[1], ast.literal_eval(found[2])
    low, high = LIMITS.get(leaf, (-np.inf, np.inf))
    # If TensorFlow has left numbers out, dots stand at the end.
    x = np.array([float(number) for number in re.sub(r"[\[\]]|\.\.\.", " ", found[3]).split()])
    if x.size < np.prod(shape):
        return leaf, f"a wrong value in {leaf}"
    x = x.reshape(shape)
    place = np.argwhere(~(np.isfinite(x) & (x >= low) & (x <= high)))[0]
    row, column, *inner = place.tolist()
    return leaf, (
        f"{x[tuple(place)]:g} in {leaf}{inner or ''} of sub-environment {column}, in row {row} of "
        f"an unroll of rows 0 to {len(x) - 1}"
    )
