# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How ALF's loops run inside TensorFlow: on which threads, with which executor."""

import contextlib
import ctypes
import threading

import numpy as np
import tensorflow as tf

# Not in TensorFlow's public API, and the only such uses in ALF; TensorFlow is pinned in setup.py.
from tensorflow.python.eager import context
from tensorflow.python.util import numpy_compat

from alf.errors import ConfigError

_DEFAULT_THREADS = 64


def single_threaded():
    """Context in which `tf.function`s run their operations one after another, on one pool thread each.

    TensorFlow's default executor hands every ready operation to a pool, which for the small operations
    of an actor or environment loop costs more than the work itself. Operations may be reordered unless
    data or control dependencies forbid it: say explicitly that an answer is awaited after its request.
    The context belongs to the thread that enters it. A function with a loop in it that was traced outside
    cannot run inside: enter it for every call, or for none.
    """
    return context.function_executor_type("SINGLE_THREADED_EXECUTOR")


def reserve_threads(num_threads):
    """Makes sure that TensorFlow's inter-op pool has `num_threads` threads.

    Every loop that runs in the graph occupies one of them, also while its environment steps or its
    queue is empty. Too small a pool would stop the pipeline, and delay the news that a queue is closed.

    Raises:
        ConfigError: if the pool is too small and TensorFlow has started, so that it cannot grow.
    """
    available = tf.config.threading.get_inter_op_parallelism_threads()
    if available >= num_threads:
        return
    try:
        tf.config.threading.set_inter_op_parallelism_threads(num_threads)
    except RuntimeError:
        raise ConfigError(
            f"{num_threads} inter-op threads are needed, TensorFlow has started with {available}: call "
            f"alf.drivers.reserve_threads({num_threads}) before the first TensorFlow operation."
        ) from None


def reserve_default_threads():
    """Reserves threads enough for most drivers, unless TensorFlow has started already."""
    with contextlib.suppress(ConfigError):  # the driver checks what it really needs
        reserve_threads(_DEFAULT_THREADS)


_thread = threading.local()


def keep_python_thread():
    """Lets Python remember the calling thread, one of TensorFlow's pool, until the process ends.

    A callback from such a thread makes a Python thread state and deletes it when it returns, which costs
    more than 100 us a call. An acquisition of the GIL that is never released keeps the state: one for
    each thread of the pool, so a bounded number. (PyGILState_Ensure in Python's C API.)
    """
    if not getattr(_thread, "kept", False):
        ctypes.pythonapi.PyGILState_Ensure()
        _thread.kept = True


def _asarray(values, dtype=None, order=None, copy=None):
    return np.asarray(values, dtype=dtype, order=order)


def spare_version_checks():
    """Makes arrays that leave a `numpy_function` cheaper, by 12 us of GIL time each.

    TensorFlow parses NumPy's version for every one of them, to choose between two ways of conversion.
    This is the way that it takes for NumPy 1, without the question.
    """
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        numpy_compat.np_asarray = _asarray
