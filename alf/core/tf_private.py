# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The names of TensorFlow that ALF uses although they are not public: thirteen, and all of them here.

Each says why the public way is not enough. tests/core/tf_private_test.py fails where a version of TensorFlow
changes one of them. Importing this module changes nothing in the process. Another one is in
`alf.core.startup`, which runs before TensorFlow is imported.
"""

import collections
import contextlib
import ctypes
import itertools
import re
import threading

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import auto_control_deps_utils, error_interpolation
from tensorflow.python.framework.tensor_spec import BoundedTensorSpec
from tensorflow.python.ops import script_ops
from tensorflow.python.util import numpy_compat

from alf.errors import contain, describe_error

__all__ = ["BoundedTensorSpec"]  # 1: TF-Agents' specs with bounds are of this class, and must be ALF's, too

_thread = threading.local()
# Pairs of a number and an exception that Python code has raised in a graph, and that nobody has raised again.
# Few, because tracebacks hold environments: an error that TensorFlow drops for another one stays here.
_raised: collections.deque = collections.deque(maxlen=8)
_numbers = itertools.count()
_STAND_IN = re.compile(r"\[Python error (\d+)\]")
_TAG = re.compile(error_interpolation._TAG_REGEX)
_lock, _spares_texts = threading.Lock(), False
_MOST_TEXT = 500  # characters of an error's text in its stand-in
# TensorFlow makes another error of each of these, and `UnknownError` of all others.
_KINDS = StopIteration, ValueError, TypeError, MemoryError, NotImplementedError


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
    with original_errors():
        return concrete._call_flat(tensors, captured)


@contextlib.contextmanager
def original_errors():
    """Context in which graphs are called: what Python code in them raises is raised here, with its traceback.

    SystemExit, StopIteration and the like become an `EnvError`, as `contain` describes.
    """
    spare_error_texts()
    try:
        yield
    except tf.errors.OpError as error:
        original = _find_original(error)
        if original is None:
            raise
        # Raised here, it would get the error of TensorFlow as its context, which users do not need.
        before = original.__context__
        try:
            raise original
        finally:
            original.__context__ = before
            del original  # its traceback has this frame: the cycle would keep environments in memory


def _find_original(error):
    """Returns the exception for which an error of TensorFlow stands, or None."""
    match = _STAND_IN.search(error.message)
    for pair in list(_raised) if match else ():
        if pair[0] != int(match[1]):
            continue
        with contextlib.suppress(ValueError):
            _raised.remove(pair)
        original = pair[1]
        # Python code in a graph may have called another graph.
        inner = _find_original(original) if isinstance(original, tf.errors.OpError) else None
        # Ctrl-C comes here in the main thread, whose graphs call Python there.
        is_users = isinstance(original, KeyboardInterrupt)
        return inner or (original if is_users else contain(original, "Python code in a graph"))
    return None


def spare_error_texts():
    """Keeps the texts of errors away from TensorFlow, in the whole process.

    TensorFlow looks for the names of operations in the text of an error, in a time that grows with the square
    of its length, and holds the GIL meanwhile: 100 kB, the list of a small image, stop all threads. So what
    Python code raises in a graph has a stand-in there, with the beginning of its text, and `original_errors`
    raises the exception itself. Other texts, such as those of assertions, are searched in linear time.

    11: the class whose only object calls Python for all graphs; nothing public sees an exception earlier.

    12: the function that searches, with its pattern.
    """
    global _spares_texts
    if _spares_texts:  # as in all calls but the first ones
        return
    with _lock:
        if _spares_texts:
            return
        call = script_ops.FuncRegistry.__call__

        def call_python(self, token, device, args):
            try:
                return call(self, token, device, args)
            except BaseException as error:
                stand_in = _stand_in_for(error)
            # Outside the handler: TensorFlow would show the exception, with all its text, as its context.
            try:
                raise stand_in
            finally:
                del stand_in

        script_ops.FuncRegistry.__call__ = call_python
        error_interpolation.parse_message = _parse_message
        _spares_texts = True


def _parse_message(message):
    """Returns the message without the tags of functions, the list of these, and that of the other tags."""
    # By the tags alone. TensorFlow searches for a tag with all that is before it, from each character anew.
    text, functions, others, position = [], [], [], 0
    for match in _TAG.finditer(message):
        is_function = match["type"] == "function_node"
        tag = error_interpolation._ParseTag(match["type"], match["name"])
        (functions if is_function else others).append(tag)
        text.append(message[position : match.start() if is_function else match.end()])
        position = match.end()
    return "".join([*text, message[position:]]), functions, others


def _stand_in_for(error):
    """Returns a short exception for which TensorFlow makes the same error as for `error`."""
    number = next(_numbers)
    _raised.append((number, error))
    kind = next((kind for kind in _KINDS if isinstance(error, kind)), RuntimeError)
    # TensorFlow takes no text that is not UTF-8, such as of the name of a file, and forgets the number then.
    text = describe_error(error)[:_MOST_TEXT].encode(errors="backslashreplace").decode()
    return kind(f"[Python error {number}] {text}")


def find_written(concrete):
    """Returns the captured handles of resources, such as variables, that a concrete function may write.

    13: TensorFlow finds it out while it traces, to order operations, and tells nobody.
    """
    inputs, captured = concrete.graph.inputs, concrete.captured_inputs
    read = set(auto_control_deps_utils.get_read_only_resource_input_indices_graph(concrete.graph))
    numbered = enumerate(captured, len(inputs) - len(captured))
    return [handle for i, handle in numbered if handle.dtype == tf.resource and i not in read]


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
