# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Patches of TensorFlow and Python that make calls of Python from graphs cheaper.

Importing this module changes nothing. `alf.drivers` applies the NumPy patch, callbacks keep their threads,
and code that makes a callback takes it back from TensorFlow.
"""

import ctypes
import threading

import numpy as np
import tensorflow as tf

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from tensorflow.python.util import numpy_compat

_thread = threading.local()


def keep_python_thread():
    """Keeps the Python thread state of the calling thread of TensorFlow's pool until the process ends.

    A callback in such a thread creates a Python thread state and deletes it at its end, which costs more than
    100 us for each call. A `PyGILState_Ensure` that is never released keeps the state. There is one state for
    each thread of the pool, so their number is bounded.
    """
    if not getattr(_thread, "kept", False):
        ctypes.pythonapi.PyGILState_Ensure()
        _thread.kept = True


def spare_version_checks():
    """Saves 12 us of GIL time for each array that a `numpy_function` returns.

    TensorFlow parses NumPy's version for each array to choose between two conversions. This function parses
    it once and installs the right conversion; the two are TensorFlow's.
    """

    def convert_by_numpy_1(values, dtype=None, order=None, copy=None):
        return np.asarray(values, dtype=dtype, order=order)

    def convert_by_numpy_2(values, dtype=None, order=None, copy=None):
        if dtype is None or not np.issubdtype(dtype, np.number):
            return np.asarray(values, dtype=dtype, order=order, copy=copy)
        # `astype` lets numbers overflow; `asarray` of NumPy 2 would raise an error.
        return np.asarray(values, order=order, copy=copy).astype(dtype, copy=copy)

    is_numpy_1 = np.lib.NumpyVersion(np.__version__) < "2.0.0"
    # TensorFlow looks the function up in this module at each call, so graphs that exist already use it, too.
    numpy_compat.np_asarray = convert_by_numpy_1 if is_numpy_1 else convert_by_numpy_2


def take_from_tensorflow(function):
    """Makes TensorFlow forget `function`, which the current graph calls by `tf.numpy_function`.

    TensorFlow's outermost graph would keep the function, and everything that it holds, until the process
    ends. The caller must keep the function as long as the graph may run.

    Returns:
        `function`.
    """
    # It registers functions in the outermost graph, not in the one that is traced.
    graph = tf.compat.v1.get_default_graph()
    while hasattr(graph, "outer_graph"):
        graph = graph.outer_graph
    graph._py_funcs_used_in_graph.remove(function.ag_dnc_wrapper__)  # `function` keeps this wrapper alive
    return function
