# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How TensorFlow runs in this process: on which threads, with which executor, in which memory."""

import contextlib
import ctypes
import functools
import os

import tensorflow as tf

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from tensorflow.python.eager import context

from alf.errors import ConfigError

# What a thread that calls functions needs of TensorFlow's inter-op pool. In `single_threaded`, a function
# that another one calls, a branch and the body of a loop run on a thread each, while their callers wait.
SPARE_THREADS = 8
_DEFAULT_THREADS = 64  # enough for most drivers


def single_threaded():
    """Context in which `tf.function`s run their operations one after another, on one pool thread each.

    TensorFlow's default executor hands every ready operation to a pool, which for the small operations of an
    actor or environment loop costs more than the work itself. Operations may be reordered unless data or
    control dependencies forbid it: say explicitly that an answer is awaited after its request. The context
    belongs to the thread that enters it. A function with a loop in it that was traced outside cannot run
    inside: enter it for every call, or for none.

    With several devices, a CPU and a GPU for instance, the context changes nothing: a loop could not compute
    on another device than its queues are on, and a function of two devices could wait for itself for ever.
    With fewer than `SPARE_THREADS` threads it changes nothing either: functions would wait for a thread for
    ever. TensorFlow was started before `alf.learner` was imported then, which reserves enough of them.
    """
    if _has_several_devices() or _count_threads() < SPARE_THREADS:
        return contextlib.nullcontext()
    return context.function_executor_type("SINGLE_THREADED_EXECUTOR")


@functools.cache
def _count_threads():
    """How many threads TensorFlow's inter-op pool has, once TensorFlow has started: then it cannot change."""
    one_for_each_core = len(os.sched_getaffinity(0))
    return tf.config.threading.get_inter_op_parallelism_threads() or one_for_each_core


def _has_several_devices():
    return len(_list_devices()) > 1


@functools.cache
def _list_devices():
    """The full names of TensorFlow's devices in this process."""
    names = [device.name for device in tf.config.list_logical_devices()]
    # Those of other learner processes come last.
    process = names[0].partition("/device:")[0]
    return [name for name in names if name.startswith(process)]


def check_device(setting, device):
    """Raises ConfigError unless this process has the device: "GPU:1", say, or None for none in particular.

    It starts TensorFlow. `setting` is the name of the setting that says `device`.
    """
    known = [name.partition("device:")[2] for name in _list_devices()] if device is not None else [None]
    if device not in known:
        raise ConfigError(f"{setting} is {device!r}: this process has {', '.join(known)}")


def on_device(device):
    """Context that computes, and makes variables, on a TensorFlow device; None leaves the choice to it."""
    return contextlib.nullcontext() if device is None else tf.device(device)


class GraphFunction:
    """A function that runs as a graph. Its calls cost less than those of a `tf.function`.

    A `tf.function` describes all of its arguments in Python at each call: 0.5 ms for an `Experience`. All the
    while this thread holds the GIL, which environments need. This class looks at the tensors' shapes alone,
    so the structure and the dtypes of `tensors` must be the same in all calls with the same `static`.

    Args:
        function: callable (tensors, *static).
        reduce_retracing: as in `tf.function`.
    """

    def __init__(self, function, reduce_retracing=False):
        self._function = tf.function(function, autograph=False, reduce_retracing=reduce_retracing)
        self._traces = {}

    @property
    def num_traces(self):
        """How often the function was traced, an int."""
        return self._function.experimental_get_tracing_count()

    def __call__(self, tensors, *static):
        """Calls the function with a nest of eager tensors, and with hashable objects that a trace is for."""
        leaves = tf.nest.flatten(tensors)
        key = static, tuple([x._shape_tuple() for x in leaves])
        if key not in self._traces:
            concrete = self._function.get_concrete_function(tensors, *static)
            self._traces[key] = concrete, concrete.captured_inputs
        concrete, captured = self._traces[key]
        return concrete._call_flat(leaves, captured)


def trace(function, *signature):
    """Traces a function now, in this thread, for nests of tensor specs; returns a callable like it.

    Its operations are on the CPU, as the queues are, unless `function` chooses another device for them.
    """

    def on_cpu(*args):
        with tf.device("CPU:0"):
            return function(*args)

    concrete = tf.function(on_cpu, input_signature=signature, autograph=False).get_concrete_function()
    captured = concrete.captured_inputs

    def call(*args):
        # As in `GraphFunction`. The public call of `concrete` would format each argument as text first.
        return concrete._call_flat([tf.convert_to_tensor(x) for x in tf.nest.flatten(args)], captured)

    return call


def reserve_threads(num_threads: int) -> None:
    """Makes sure that TensorFlow's inter-op pool has `num_threads` threads.

    Every loop that runs in the graph occupies one of them, also while its environment steps or its queue is
    empty. Too small a pool would stop the pipeline, and delay the news that a queue is closed. It cannot grow
    after TensorFlow has started: then ConfigError is raised.
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
    """Reserves threads enough for most drivers and for `single_threaded`, unless TensorFlow has started."""
    with contextlib.suppress(ConfigError):  # the drivers check what they need
        reserve_threads(_DEFAULT_THREADS)


def set_intra_op_threads(num_threads):
    """Sets how many threads of TensorFlow's intra-op pool compute one operation, such as a large product.

    The pool belongs to the process: TensorFlow has no such setting for a single function or thread. It cannot
    change after TensorFlow has started: then ConfigError is raised, unless it has so many threads already.
    """
    present = tf.config.threading.get_intra_op_parallelism_threads()
    if present == num_threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    except RuntimeError:
        raise ConfigError(
            f"intra_op_threads is {num_threads}: TensorFlow has started with "
            f"{present or 'one for each core'}, which cannot change"
        ) from None


def abort_exchanges(reason):
    """Makes exchanges between learner processes fail, now and later; from any thread. `reason` is a text."""
    context.context().abort_collective_ops(tf.errors.DEADLINE_EXCEEDED, reason)


def global_seed():
    """Returns what `tf.random.set_seed` was called with last, an int; None if it was not called."""
    return context.global_seed()


def share_heaps():
    """Makes all threads of this process share two heaps. Call it before the threads start.

    glibc gives every thread its own heap, up to 8 heaps for each core. One thread allocates a tensor and
    another one frees it, so that each heap gets holes: resident memory grew by 40 MB in 5 minutes, and by 0
    with two heaps. With another C library this function does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX, from glibc's malloc.h
