# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TensorFlow in this process: settings of its threads, and functions that run as graphs.

How it starts is in tf_runtime_program_test.py.
"""

import numpy as np
import pytest
import tensorflow as tf

from alf.core.tf_runtime import GraphFunction, reserve_threads, trace
from alf.errors import ConfigError
from alf.training import Experiment


def test_pools_that_are_there_stay_as_they_are(caplog):
    tf.zeros(()).numpy()  # TensorFlow starts
    threads = tf.config.threading
    present = threads.get_inter_op_parallelism_threads(), threads.get_intra_op_parallelism_threads()
    reserve_threads(*present)
    assert not caplog.text
    reserve_threads(intra_op_threads=present[1] + 1)
    assert f"for 8 and {present[1] + 1}: " in caplog.text
    assert f"alf.drivers.reserve_threads(intra_op_threads={present[1] + 1}), " in caplog.text
    assert present == (threads.get_inter_op_parallelism_threads(), threads.get_intra_op_parallelism_threads())


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
