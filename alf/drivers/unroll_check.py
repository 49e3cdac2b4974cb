# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The check of each unroll in the graph, and the search for the wrong value when it fails."""

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import list_leaves
from alf.data_structures import LIMITS

WRONG_VALUE = "ALF: a value of an unroll is wrong"  # in the message of TensorFlow's error
_ACTION = "action"  # a field of an `Experience`


def check_values(unroll):
    """Returns the reward of an unroll; fails in the graph unless all values can be learned from.

    Rewards, observations and actions must be finite, discounts in [0, 1], step types 0, 1 or 2. The error of
    TensorFlow has the text `WRONG_VALUE`, and names the first leaf that is wrong.
    """
    are_fine = {}
    for name, limits in LIMITS.items():
        x = getattr(unroll, name)
        are_fine[name] = tf.equal(x, tf.clip_by_value(x, *limits))  # NaN is never equal
    for name in ("reward", "observation", _ACTION):
        for path, x in list_leaves(getattr(unroll, name)):
            if x.dtype.is_floating:
                are_fine[f"{name} {path}".strip()] = tf.math.is_finite(x)
    # The executor runs operations that do not depend on each other in any order. Each check waits for the one
    # before, so that the first wrong leaf is named: a policy may answer NaN with NaN.
    # Not `tf.Assert`, which wraps this in a `tf.cond` that costs 40 us. So would a branch into Python.
    checks = []
    for name, is_fine in are_fine.items():
        condition, text = tf.reduce_all(is_fine), tf.constant(f"{WRONG_VALUE}: {name}")
        with tf.control_dependencies(checks):
            checks = [tf.raw_ops.Assert(condition=condition, data=[text])]
    with tf.control_dependencies(checks):
        return tf.identity(unroll.reward)


def find_wrong_value(message, steps, reward_shape, names):
    """Finds the value of an environment for which `check_values` has failed.

    Args:
        message: text of TensorFlow's error.
        steps, reward_shape, names: as `StepPacker.read_recent` returns them.

    Returns:
        text, the value and its place, or only the leaf; None if the environment has returned none that is
        wrong.
    """
    for row, ((step_type, discount, *rewards), *floats) in enumerate(steps):
        reward = np.reshape(np.stack(rewards, axis=-1), (-1, *reward_shape))
        named = [("step_type", step_type), ("discount", discount), ("reward", reward)]
        for name, x in [*named, *zip(names, floats, strict=True)]:
            low, high = LIMITS.get(name, (-np.inf, np.inf))
            for place in np.argwhere(~(np.isfinite(x) & (x >= low) & (x <= high))):
                column, *inner = place.tolist()
                return (
                    f"{x[tuple(place)]:g} in {name}{inner or ''} of sub-environment {column}, in row {row} "
                    f"of an unroll of rows 0 to {len(steps) - 1}"
                )
    leaf = message.partition(f"{WRONG_VALUE}: ")[2].partition("]")[0]
    if leaf.partition(" ")[0] == _ACTION:
        return None
    low, high = LIMITS.get(leaf, (None, None))
    return f"a number in {leaf} that is {'not finite' if low is None else f'outside of {low} to {high}'}"
