# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TensorFlow's threads, executor and memory in this process."""

import contextlib
import ctypes
import functools
import os
import time

import tensorflow as tf
from absl import logging

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from tensorflow.python.eager import context
from tensorflow.python.framework import config

from alf.core.devices import HOST, list_devices
from alf.errors import ConfigError

# The number of inter-op threads that a thread that calls functions needs. In `single_threaded`, each nested
# function, branch and loop body runs on a thread of its own while its caller waits.
SPARE_THREADS = 8
_DEFAULT_THREADS = 64  # enough for most drivers


def single_threaded():
    """Context manager in which a thread calls `tf.function`s that run on the host, on one thread each.

    Operations without a device of their own run on `HOST`, one after another. TensorFlow's default executor
    hands every operation to a thread pool. For the small operations of an actor or an environment loop that
    costs more than the work itself. Operations may still be reordered unless data or control dependencies
    forbid it, so a graph must say explicitly that it awaits an answer after the request. The context belongs
    to the thread that enters it. A function with a loop that was traced outside cannot run inside: enter the
    context for all calls or for none.

    The executor is TensorFlow's default with several devices, for example a CPU and a GPU: a loop could not
    compute on another device than its queues, and a function on two devices could wait for itself forever. It
    is the default with fewer than `SPARE_THREADS` inter-op threads, too, because functions would wait for a
    thread forever. (`alf.learner` reserves enough threads, unless TensorFlow has started before it is
    imported.)
    """
    is_default = len(list_devices()) > 1 or _count_threads() < SPARE_THREADS
    return _on_host(None if is_default else "SINGLE_THREADED_EXECUTOR")


def parallel():
    """Like `single_threaded`, but operations that do not depend on each other run at the same time.

    Where each operation has one thread, because networks are small, handing them to other threads would cost
    more than it gains: there it is `single_threaded`.
    """
    is_small = tf.config.threading.get_intra_op_parallelism_threads() == 1
    return single_threaded() if is_small else _on_host(None)


@contextlib.contextmanager
def _on_host(executor):
    with tf.device(HOST), context.function_executor_type(executor):  # None is TensorFlow's default
        yield


@functools.cache
def _count_threads():
    """Returns the number of TensorFlow's inter-op threads. It cannot change once TensorFlow has started."""
    one_for_each_core = len(os.sched_getaffinity(0))
    # 0 stands for TensorFlow's own choice.
    return tf.config.threading.get_inter_op_parallelism_threads() or one_for_each_core


class GraphFunction:
    """A function that runs as a graph, and that is cheaper to call than a `tf.function`.

    A `tf.function` describes all its arguments in Python at each call: 0.5 ms for an `Experience`, during
    which it holds the GIL that environments need. This class only looks at the shapes of the tensors, so
    their structure and dtypes must be the same in all calls with the same `static`.

    Args:
        function: callable (tensors, *static).
        reduce_retracing: bool, passed to `tf.function`.
    """

    def __init__(self, function, reduce_retracing=False):
        self._function = tf.function(function, autograph=False, reduce_retracing=reduce_retracing)
        self._traces = {}

    @property
    def num_traces(self):
        """The number of traces so far, an int."""
        return self._function.experimental_get_tracing_count()

    def __call__(self, tensors, *static):
        """Calls the function with a nest of eager tensors. Each `static`, hashable, has its own trace."""
        leaves = tf.nest.flatten(tensors)
        key = static, tuple([x._shape_tuple() for x in leaves])
        if key not in self._traces:
            concrete = self._function.get_concrete_function(tensors, *static)
            # TensorFlow makes the list of captured inputs anew at each access, so it is kept.
            self._traces[key] = concrete, concrete.captured_inputs
        concrete, captured = self._traces[key]
        return concrete._call_flat(leaves, captured)


def trace(function, *signature):
    """Traces a function now, in this thread. Returns a callable with the same arguments.

    Args:
        function: callable.
        *signature: nests of tensor specs, one for each argument.
    """
    concrete = tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
    captured = concrete.captured_inputs

    def call(*args):
        # The public call of `concrete` would first format each argument as text.
        return concrete._call_flat([tf.convert_to_tensor(x) for x in tf.nest.flatten(args)], captured)

    return call


def reserve_threads(num_threads: int) -> None:
    """Makes sure that TensorFlow's inter-op pool has at least `num_threads` threads.

    Each loop in a graph occupies a thread, also while its environment steps or it waits at a queue. In a pool
    that is too small, the pipeline would stop, and threads would learn late that a queue is closed.

    Raises:
        ConfigError: if TensorFlow has already started with fewer threads, because the pool cannot grow.
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
    """Reserves enough threads for most drivers and for `single_threaded`, unless TensorFlow has started."""
    with contextlib.suppress(ConfigError):  # drivers check the number that they need
        reserve_threads(_DEFAULT_THREADS)


def set_intra_op_threads(num_threads):
    """Sets how many threads of TensorFlow's intra-op pool compute one operation, such as a large product.

    The pool belongs to the process; TensorFlow has no such setting for a single function or thread. If
    TensorFlow has already started, the pool stays as it is, and a warning says so.
    """
    present = tf.config.threading.get_intra_op_parallelism_threads()
    if present == num_threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    except RuntimeError:
        logging.warning(
            "intra_op_threads is %d, but TensorFlow has started with %s, which cannot change: this may cost "
            "speed; a new process has the right number",
            num_threads,
            present or "one for each core",
        )


def abort_exchanges(reason):
    """Makes current and later exchanges between learner processes fail with the text `reason`.

    Any thread may call this.
    """
    context.context().abort_collective_ops(tf.errors.DEADLINE_EXCEEDED, reason)


def require_deterministic_operations():
    """Makes TensorFlow choose kernels that round alike in each run; it refuses operations without one."""
    tf.config.experimental.enable_op_determinism()


def timestamp():
    """Returns the seconds since the epoch, a float64 scalar, in the graph."""
    # Not an own switch: the user may have called `enable_op_determinism`, too.
    if not config.is_op_determinism_enabled():
        return tf.timestamp()
    now = tf.numpy_function(time.time, [], tf.float64)
    now.set_shape(())
    return now


def global_seed():
    """Returns the seed of the last `tf.random.set_seed`, an int, or None."""
    return context.global_seed()


def share_heaps():
    """Makes all threads of this process share two heaps. Call it before the threads start.

    glibc gives each thread a heap of its own, up to 8 heaps for each core. Because one thread allocates a
    tensor and another one frees it, all heaps get holes: resident memory grew by 40 MB in 5 minutes, and by 0
    with two heaps. With another C library this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX, from glibc's malloc.h
