# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WHAT ALF CHANGES IN TENSORFLOW AND PYTHON: three patches that make callbacks from graphs cheaper.

Nothing here runs on import. `alf.drivers` applies the NumPy patch; each callback keeps its own thread, and
whoever makes a callback takes it back from TensorFlow.
"""

import ctypes
import threading

import numpy as np
import tensorflow as tf

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from tensorflow.python.util import numpy_compat

_thread = threading.local()


def keep_python_thread():
    """Lets Python remember the calling thread, one of TensorFlow's pool, until the process ends.

    A callback from such a thread makes a Python thread state and deletes it when it returns, which costs more
    than 100 us a call. An acquisition of the GIL (PyGILState_Ensure) that is never released keeps the state:
    one for each thread of the pool, so a bounded number.
    """
    if not getattr(_thread, "kept", False):
        ctypes.pythonapi.PyGILState_Ensure()
        _thread.kept = True


def spare_version_checks():
    """Makes arrays that leave a `numpy_function` cheaper, by 12 us of GIL time each.

    TensorFlow parses NumPy's version for every one of them, to choose between two ways of conversion. These
    are the same two ways; the version is parsed here, once.
    """

    def convert_by_numpy_1(values, dtype=None, order=None, copy=None):
        return np.asarray(values, dtype=dtype, order=order)

    def convert_by_numpy_2(values, dtype=None, order=None, copy=None):
        if dtype is None or not np.issubdtype(dtype, np.number):
            return np.asarray(values, dtype=dtype, order=order, copy=copy)
        # Lets numbers overflow, where NumPy 2 would raise an error.
        return np.asarray(values, order=order, copy=copy).astype(dtype, copy=copy)

    is_numpy_1 = np.lib.NumpyVersion(np.__version__) < "2.0.0"
    numpy_compat.np_asarray = convert_by_numpy_1 if is_numpy_1 else convert_by_numpy_2


def take_from_tensorflow(function):
    """Makes TensorFlow forget `function`, which the current graph calls by `tf.numpy_function`; returns it.

    TensorFlow's outermost graph keeps such a function until the process ends. Afterwards the caller must keep
    it, as long as the graph may run.
    """
    graph = tf.compat.v1.get_default_graph()
    while hasattr(graph, "outer_graph"):
        graph = graph.outer_graph
    graph._py_funcs_used_in_graph.remove(function.ag_dnc_wrapper__)  # which `function` keeps
    return function
