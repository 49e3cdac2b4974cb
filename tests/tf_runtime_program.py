# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Functions for forks in which TensorFlow has not started yet; each prints a line of numbers."""

import contextlib
import functools
import importlib
import os
import sys
import time

import gin
import tensorflow as tf

from alf.core import tf_runtime
from alf.core.tf_runtime import reserve_threads, single_threaded, timestamp


def count_threads():
    """Those of the intra-op pool, and of the process, with the `intra_op_threads` of `sys.argv`."""
    training = importlib.import_module("alf.training")
    toys = importlib.import_module("alf.testing.toy_environments")
    gin.parse_config(["UnrollLearner.optimizer = @SGD()", f"Experiment.intra_op_threads = {sys.argv[1]}"])
    driver, _ = training.Experiment(functools.partial(toys.MatchObservationEnvironment, 2)).make_parts()
    # A product starts TensorFlow, if the driver has not: with one core more or less, 7 threads stay 7.
    tf.linalg.matmul(tf.ones((9, 9)), tf.ones((9, 9)))
    print(tf.config.threading.get_intra_op_parallelism_threads(), len(os.listdir("/proc/self/task")))
    driver.stop()


def reserve_on_cores():
    """Threads of the intra-op pool on as many cores as `sys.argv` says, and whether `parallel` is."""
    cores = sorted(os.sched_getaffinity(0))[: int(sys.argv[1])]
    os.sched_setaffinity(0, cores)
    reserve_threads()
    chosen = []
    tf_runtime.use_executor = lambda name: chosen.append(name) or contextlib.nullcontext()
    with tf_runtime.parallel():
        print(tf.config.threading.get_intra_op_parallelism_threads(), int(chosen == [None]))


def stamp_time():
    """Seconds between the times of a graph and of Python. `sys.argv` 1: TensorFlow is deterministic."""
    if int(sys.argv[1]):
        tf.config.experimental.enable_op_determinism()
    print(int(time.time() - tf.function(timestamp)().numpy()))


def nest_functions():
    """A branch calls a function with a loop, twice: each waits for what it calls.

    `sys.argv` has the threads of the inter-op pool with which a user's program starts TensorFlow before ALF
    reserves any; 0: it does not.
    """
    if threads := int(sys.argv[1]):
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        tf.zeros(()).numpy()  # TensorFlow starts
    reserve_threads()

    def nest(inner):
        loop = tf.function(lambda x: tf.while_loop(lambda i: i < 3, lambda i: inner(i) + 1, [x])[0])
        return tf.function(lambda x: tf.cond(x >= 0, lambda: loop(x), lambda: x), autograph=False)

    function = nest(nest(lambda x: x))
    with single_threaded():
        print(int(function(tf.constant(0))), tf.config.threading.get_inter_op_parallelism_threads())
