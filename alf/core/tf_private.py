# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The names of TensorFlow that ALF uses although they are not public: ten, and all of them here.

Each says why the public way is not enough. tests/core/tf_private_test.py fails where a version of TensorFlow
changes one of them. Importing this module changes nothing in the process. Another one is in
`alf.core.startup`, which runs before TensorFlow is imported.
"""

import ctypes
import threading

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework.tensor_spec import BoundedTensorSpec
from tensorflow.python.util import numpy_compat

__all__ = ["BoundedTensorSpec"]  # 1: TF-Agents' specs with bounds are of this class, and must be ALF's, too

_thread = threading.local()


def use_executor(name):
    """Context manager in which functions run on an executor: "SINGLE_THREADED_EXECUTOR", or None for default.

    2: public is only the choice in a `ConfigProto` of a session.
    """
    return context.function_executor_type(name)


def use_eager_mode():
    """Context manager in which operations run at once, whatever graph the thread is building.

    10: `tf.init_scope` leaves the graphs of `tf.function`, but not a `tf.Graph` that is the default one.
    """
    return context.eager_mode()


def call_flat(concrete, tensors, captured):
    """Calls a concrete function with a list of tensors and its captured inputs.

    3: the public call describes each argument as text first, 0.2 ms for an `Experience` with Python's GIL.
    """
    return concrete._call_flat(tensors, captured)


def abort_exchanges(reason):
    """Makes current and later exchanges between learner processes fail with the text `reason`.

    Any thread may call this.

    4: without it a process waits without an end for another one that is gone; nothing public ends the wait.
    """
    context.context().abort_collective_ops(tf.errors.DEADLINE_EXCEEDED, reason)


def read_object_graph(reader):
    """Returns the graph of the saved objects of a checkpoint, from its `tf.train.load_checkpoint`.

    5: the names of variables that are public name one way to each variable, and not all ways.
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    return graph


def make_untrainable(variable):
    """Makes a variable that exists not trainable.

    6: publicly only the constructor does. Keras makes the variables of a user's model, which is then copied.
    """
    # A layer of Keras 2 that computes in bfloat16 has its variables in wrappers.
    getattr(variable, "_variable", variable)._trainable = False


def convert_by_autograph(function):
    """Returns a function whose Python branches and loops over tensors become those of the graph.

    7: `tf.autograph.to_graph` shows errors with the lines of generated code, not of the user's; a nested
    `tf.function` would need a thread of its own in each call.
    """
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())


def take_from_tensorflow(function):
    """Makes TensorFlow forget `function`, which the current graph calls by `tf.numpy_function`.

    TensorFlow's outermost graph would keep the function, and everything that it holds, until the process
    ends. The caller must keep the function as long as the graph may run.

    8: nothing public takes it back; drivers with their environments and arrays stayed in memory.

    Returns:
        `function`.
    """
    # It registers functions in the outermost graph, not in the one that is traced.
    graph = tf.compat.v1.get_default_graph()
    while hasattr(graph, "outer_graph"):
        graph = graph.outer_graph
    graph._py_funcs_used_in_graph.remove(function.ag_dnc_wrapper__)  # `function` keeps this wrapper alive
    return function


def spare_version_checks():
    """Saves 12 us of GIL time for each array that a `numpy_function` returns, in the whole process.

    TensorFlow parses NumPy's version for each array to choose between two conversions. This function parses
    it once and installs the right conversion; the two are TensorFlow's.

    9: without it, five arrays of a step hold the GIL for 60 us, which environments need.
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


def keep_python_thread():
    """Keeps the Python thread state of the calling thread of TensorFlow's pool until the process ends.

    A callback in such a thread creates a Python thread state and deletes it at its end, which costs more than
    100 us for each call. A `PyGILState_Ensure`, of Python's public C interface, that is never released keeps
    the state. There is one state for each thread of the pool, so their number is bounded.
    """
    if not getattr(_thread, "kept", False):
        ctypes.pythonapi.PyGILState_Ensure()
        _thread.kept = True
