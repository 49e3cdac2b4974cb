# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The patch of TensorFlow's conversion of arrays converts as TensorFlow does, with NumPy 1 and NumPy 2."""

import importlib.util

import numpy as np
import pytest
from tensorflow.python.util import numpy_compat

import alf.drivers  # noqa: F401  (applies the patch)

VALUES = {
    "an array that fits": (np.arange(3.0, dtype=np.float32), np.float32),
    "another dtype": (np.arange(3), np.float32),
    "numbers": ([1, 2], np.int32),
    "numbers that overflow": ([300, -1], np.uint8),
    "bools": ([True, False], np.bool_),
    "texts": (["a", b"bc"], object),
    "no dtype": ([1, 2.5], None),
    "another order": (np.arange(4.0).reshape(2, 2).T, np.float64),
}


@pytest.fixture(scope="module")
def original():
    """TensorFlow's own function, from a second copy of its module."""
    spec = importlib.util.find_spec(numpy_compat.__name__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.np_asarray


def call(function, value, dtype):
    try:
        return function(value, dtype=dtype, order="C")
    except (OverflowError, ValueError) as error:
        return type(error)


def test_arrays_are_converted_as_by_tensorflow(original, subtests):
    patched = numpy_compat.np_asarray
    assert patched.__module__ == "alf.core.tf_patches" != original.__module__
    for name, (value, dtype) in VALUES.items():
        with subtests.test(name):
            expected, found = call(original, value, dtype), call(patched, value, dtype)
            np.testing.assert_array_equal(found, expected)
            if isinstance(expected, np.ndarray):
                assert found.dtype == expected.dtype and found.flags.c_contiguous
                assert np.shares_memory(found, value) == np.shares_memory(expected, value)
