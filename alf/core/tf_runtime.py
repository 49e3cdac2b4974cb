# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TensorFlow's threads, executor and memory in this process."""

import contextlib
import ctypes
import functools
import os
import time

import tensorflow as tf
from absl import logging

from alf.core.devices import HOST, list_devices
from alf.core.tf_private import call_flat, use_executor

# The number of inter-op threads that a thread that calls functions needs. In `single_threaded`, each nested
# function, branch and loop body runs on a thread of its own while its caller waits.
SPARE_THREADS = 8
_DEFAULT_THREADS = 64  # enough for most drivers
_num_needed = 0  # the most that something in this process has asked for


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
    is the default with fewer inter-op threads than `reserve_threads` was asked for, too, because functions
    would wait for a thread forever.
    """
    is_default = len(list_devices()) > 1 or _count_threads() < max(SPARE_THREADS, _num_needed)
    return _on_host(None if is_default else "SINGLE_THREADED_EXECUTOR")


def parallel():
    """Like `single_threaded`, but operations that do not depend on each other run at the same time.

    Where each operation has one thread, because networks are small or there is one core, handing them to
    other threads would cost more than it gains: there it is `single_threaded`.
    """
    has_one = tf.config.threading.get_intra_op_parallelism_threads() == 1 or _has_one_core()
    return single_threaded() if has_one else _on_host(None)


def _has_one_core():
    return len(os.sched_getaffinity(0)) == 1


@contextlib.contextmanager
def _on_host(executor):
    with tf.device(HOST), use_executor(executor):
        yield


@functools.cache
def _count_threads():
    """Returns the number of TensorFlow's inter-op threads. It cannot change once TensorFlow has started."""
    given = tf.config.threading.get_inter_op_parallelism_threads() or os.environ.get("TF_NUM_INTEROP_THREADS")
    return int(given or len(os.sched_getaffinity(0)))


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
        key = static, tuple([x.shape for x in leaves])
        if key not in self._traces:
            concrete = self._function.get_concrete_function(tensors, *static)
            # TensorFlow makes the list of captured inputs anew at each access, so it is kept.
            self._traces[key] = concrete, concrete.captured_inputs
        concrete, captured = self._traces[key]
        return call_flat(concrete, leaves, captured)


def trace(function, *signature):
    """Traces a function now, in this thread. Returns a callable with the same arguments.

    Args:
        function: callable.
        *signature: nests of tensor specs, one for each argument.
    """
    concrete = tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
    captured = concrete.captured_inputs

    def call(*args):
        return call_flat(concrete, [tf.convert_to_tensor(x) for x in tf.nest.flatten(args)], captured)

    return call


def reserve_threads(num_threads: int = SPARE_THREADS, intra_op_threads: int | None = None) -> None:
    """Makes TensorFlow start with at least `num_threads` inter-op threads, and with enough for most drivers.

    Each loop in a graph occupies a thread, also while its environment steps. `Experiment`, `EnvSpecs` and
    drivers call this. Where TensorFlow has started before, its threads stay as they are: all loops share
    them, in TensorFlow's default executor, and a warning says what that costs.

    Args:
        num_threads: inter-op threads.
        intra_op_threads: threads of the pool that computes one operation, such as a large product. The pool
            belongs to the process; TensorFlow has no such setting for a single function or thread. None
            leaves it as it is, but for a process with one core.
    """
    global _num_needed
    threads = tf.config.threading
    wanted, present = intra_op_threads, threads.get_intra_op_parallelism_threads()
    if wanted is None and not present and _has_one_core():
        # A pool of one thread would take over each operation, and the caller would wait. With 1, which is
        # another setting, the caller computes it.
        wanted = 1
    is_too_late = False
    try:
        if threads.get_inter_op_parallelism_threads() < num_threads:
            threads.set_inter_op_parallelism_threads(max(num_threads, _DEFAULT_THREADS))
    except RuntimeError:
        # Once, and with the numbers of a run: `EnvSpecs` calls this before anybody knows them.
        if num_threads > SPARE_THREADS:
            is_too_late = _num_needed <= _count_threads() < num_threads
            _num_needed = max(_num_needed, num_threads)
    try:
        if wanted not in (None, present):
            threads.set_intra_op_parallelism_threads(wanted)
    except RuntimeError:
        is_too_late |= intra_op_threads is not None
    if is_too_late:
        logging.warning(
            "TensorFlow had started before, with %s inter-op and %s intra-op threads for %d and %s: with "
            "small networks this costs up to half of the speed; alf.drivers.reserve_threads(%s), before the "
            "first operation, starts it with the right ones",
            _count_threads(),
            threads.get_intra_op_parallelism_threads() or "all",
            num_threads,
            intra_op_threads or "any",
            f"intra_op_threads={intra_op_threads}" if intra_op_threads else "",
        )


def require_deterministic_operations():
    """Makes TensorFlow choose kernels that round alike in each run; it refuses operations without one."""
    tf.config.experimental.enable_op_determinism()


def timestamp():
    """Returns the seconds since the epoch, a float64 scalar, in the graph."""
    try:
        with tf.init_scope(), tf.device(HOST):  # tried now: in the graph it would fail at each run
            tf.raw_ops.Timestamp()
    except tf.errors.FailedPreconditionError:  # `enable_op_determinism` was called, here or by the user
        now = tf.numpy_function(time.time, [], tf.float64)
        now.set_shape(())
        return now
    return tf.timestamp()


def share_heaps():
    """Makes all threads of this process share two heaps. Call it before the threads start.

    glibc gives each thread a heap of its own, up to 8 heaps for each core. Because one thread allocates a
    tensor and another one frees it, all heaps get holes: resident memory grew by 40 MB in 5 minutes, and by 0
    with two heaps. With another C library this does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX, from glibc's malloc.h
