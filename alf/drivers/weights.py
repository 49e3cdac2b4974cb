# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reading and setting the weights of a policy as NumPy arrays, to send them to other processes."""

import numpy as np
import tensorflow as tf

from alf.errors import ConfigError


def get_weights(policy, dtype="float32"):
    """Returns the values of a policy's variables, a list of arrays, for `set_weights` of a copy.

    Args:
        policy: `Policy`.
        dtype: "float32", "float16" or "bfloat16", the type of the arrays of trainable float32 variables.
            Other variables, such as counters and the statistics of data transformers, keep their types.
    """
    # A count above 2,048 is not exact in float16, and one above 65,504 is infinite: only weights may be
    # short.
    trainable = {id(v) for v in policy.trainable_variables}
    short = tf.as_dtype(dtype).as_numpy_dtype

    def get(variable):
        # `numpy` copies a variable, so the next update does not change an array that still waits to be sent.
        value = variable.numpy()
        return value.astype(short) if id(variable) in trainable and value.dtype == np.float32 else value

    return [get(variable) for variable in policy.variables]


def set_weights(policy, weights):
    """Sets the variables of a policy to values from `get_weights`; ConfigError if their shapes do not fit."""
    ours, theirs = [v.shape for v in policy.variables], [np.shape(x) for x in weights]
    if ours != theirs:
        raise ConfigError(f"the weights are of another policy: their shapes are {theirs}, not {ours}")
    # One variable after another: an actor that reads these variables meanwhile acts with some old and some
    # new ones. So `Collector` sets the original, from which its driver copies to the actors between two
    # answers.
    for variable, value in zip(policy.variables, weights, strict=True):
        variable.assign(value.astype(variable.dtype.as_numpy_dtype, copy=False))
