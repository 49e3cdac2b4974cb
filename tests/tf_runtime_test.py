# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TensorFlow in this process: its threads, and functions that run as graphs."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.tf_runtime import GraphFunction, set_intra_op_threads, trace
from alf.training import Experiment

# A product starts TensorFlow, if the driver has not: with one core more or less, 7 threads stay 7.
_SCRIPT = """
import functools, os, sys
import alf, gin
import tensorflow as tf
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment

gin.parse_config(["alf.Learner.optimizer = @SGD()", f"Experiment.intra_op_threads = {sys.argv[1]}"])
driver = Experiment(functools.partial(MatchObservationEnvironment, 2)).make_driver()
tf.linalg.matmul(tf.ones((9, 9)), tf.ones((9, 9)))
print(tf.config.threading.get_intra_op_parallelism_threads(), len(os.listdir("/proc/self/task")))
driver.stop()
"""


def count_threads(num_threads):
    """Of a process with this setting: what TensorFlow says, and all threads of the process."""
    command = [sys.executable, "-c", _SCRIPT, str(num_threads)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=True)
    return [int(x) for x in done.stdout.split()[-2:]]


def test_more_threads_than_tensorflow_can_start_are_refused():
    with pytest.raises(ConfigError, match="Experiment.intra_op_threads is 100000: it must be a number at"):
        Experiment(intra_op_threads=100_000)


def test_the_intra_op_pool_has_as_many_threads_as_set():
    (few, few_in_all), (many, many_in_all) = count_threads(1), count_threads(7)
    assert (few, many) == (1, 7)
    assert many_in_all - few_in_all == 6


def test_a_pool_that_is_there_stays_as_it_is():
    tf.zeros(()).numpy()  # TensorFlow starts
    present = tf.config.threading.get_intra_op_parallelism_threads()
    set_intra_op_threads(present)
    with pytest.raises(ConfigError, match=f"intra_op_threads is {present + 1}: TensorFlow has started with"):
        Experiment(MatchObservationEnvironment, intra_op_threads=present + 1).make_driver()


# A branch that calls a function with a loop, twice: each waits for what it calls.
_NESTED = """
import sys
import alf
import tensorflow as tf

if threads := int(sys.argv[1]):
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.zeros(()).numpy()  # TensorFlow starts
import alf.learner
from alf.tf_runtime import single_threaded

def nest(inner):
    loop = tf.function(lambda x: tf.while_loop(lambda i: i < 3, lambda i: inner(i) + 1, [x])[0])
    return tf.function(lambda x: tf.cond(x >= 0, lambda: loop(x), lambda: x), autograph=False)

function = nest(nest(lambda x: x))
with single_threaded():
    print(int(function(tf.constant(0))), tf.config.threading.get_inter_op_parallelism_threads())
"""


@pytest.mark.parametrize("started_with, threads", [(0, 64), (1, 1), (2, 2), (8, 8)])
def test_functions_in_functions_do_not_wait_for_each_other(started_with, threads):
    """On any number of cores, also where a user's program has started TensorFlow before it imports ALF."""
    command = [sys.executable, "-c", _NESTED, str(started_with)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["4", str(threads)]


@pytest.mark.parametrize("num_threads", [0, 1.5, True])
def test_the_setting_is_checked(num_threads):
    with pytest.raises(ConfigError, match=f"Experiment.intra_op_threads is {num_threads}"):
        Experiment(intra_op_threads=num_threads)


def make_scaled_sum(factor):
    """A `GraphFunction` of a nest, whose leaves count with their places, and the list of what was traced."""
    variable, traced = tf.Variable(factor), []

    def compute(nest, *static):
        traced.append((tf.nest.map_structure(lambda x: tuple(x.shape), nest), static))
        total = tf.reduce_sum(nest["b"]) + 10.0 * tf.reduce_sum(nest["a"][0]) + 100.0 * nest["a"][1]
        return {"total": variable * total, "static": static[0] if static else 0}

    return GraphFunction(compute), variable, traced


def test_a_graph_function_returns_what_the_function_does():
    function, variable, _ = make_scaled_sum(2.0)
    nest = {"b": tf.constant([1.0, 2.0]), "a": (tf.constant([[3.0]]), tf.constant(4.0))}
    for factor in (2.0, 3.0):  # the second call is of the trace, and reads the variable anew
        variable.assign(factor)
        result = function(nest, 7)
        assert result["total"].numpy() == factor * (3.0 + 30.0 + 400.0) and result["static"] == 7


def test_a_graph_function_is_traced_for_each_combination_of_shapes_and_static_arguments():
    function, _, traced = make_scaled_sum(1.0)
    for _ in range(2):
        for length, static in ((1, ()), (2, ()), (2, (5,)), (2, (6,))):
            result = function({"b": tf.ones(length), "a": (tf.ones((1, 1)), tf.constant(0.0))}, *static)
            assert result["total"].numpy() == length + 10.0
            assert result["static"] == (static[0] if static else 0)
    assert len(traced) == function.num_traces == 4


def test_a_graph_function_of_shapes_that_vary_is_traced_twice():
    function = GraphFunction(lambda x: tf.reduce_sum(x), reduce_retracing=True)
    assert [function(tf.ones(n)).numpy() for n in range(1, 8)] == [1, 2, 3, 4, 5, 6, 7]
    assert function.num_traces == 2


def test_a_traced_function_takes_arrays_and_nests():
    spec = {"b": tf.TensorSpec((2,), tf.float32), "a": tf.TensorSpec((), tf.int32)}
    call = trace(
        lambda scale, nest: nest["b"] * scale + tf.cast(nest["a"], tf.float32), tf.TensorSpec(()), spec
    )
    result = call(tf.constant(2.0), {"b": np.array([1.0, 3.0], np.float32), "a": tf.constant(5)})
    assert result.numpy().tolist() == [7.0, 11.0]
    with pytest.raises(tf.errors.InvalidArgumentError):
        call(tf.constant(2.0), {"b": np.array([1, 3]), "a": tf.constant(5)})
