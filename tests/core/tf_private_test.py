# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Each private name of TensorFlow does what ALF needs, in the installed version; there are no others."""

import functools
import gc
import importlib.util
import re
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.util import numpy_compat

import alf
from alf.core import tf_private

SOURCES = Path(alf.__file__).parent
PRIVATE = re.compile(
    r"tensorflow\.(?:python|core|compiler)\b|\bpywrap|tf\.__internal__|keras\.src\b|\w\._(?:call_flat|shape_tuple|"
    r"py_funcs\w*|trainable|unique_id|shared_name|func_graph|keras\w*|numpy|handle_data|inference_function)\b"
)


def test_they_are_in_one_module():
    found = {}
    for path in SOURCES.rglob("*.py"):
        lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
        if matches := PRIVATE.findall("\n".join(lines)):
            found[path.name] = matches
    # `_keras` is the attribute of an optimizer of ALF.
    assert found.keys() <= {"tf_private.py", "optimizers.py", "startup.py"}, found
    assert all("._keras" in x for x in found.get("optimizers.py", ()))
    assert found.get("startup.py", []) == ["keras.src"] * 2  # startup_test.py tests them
    numbers = re.findall(
        r"^ *(?:# |__all__ = .*# )?(\d+): ", (SOURCES / "core/tf_private.py").read_text(), re.M
    )
    assert sorted(map(int, numbers)) == list(range(1, 14))


def test_specs_with_bounds_are_those_of_tf_agents():
    spec = tf_private.BoundedTensorSpec((2,), tf.float32, -1.0, [1.0, 2.0])
    assert isinstance(spec, tf.TensorSpec)
    np.testing.assert_array_equal(spec.maximum, [1.0, 2.0])
    tf.function(lambda x: x, input_signature=[spec])(tf.zeros(2))
    specs = pytest.importorskip("tf_agents.specs")
    assert specs.BoundedTensorSpec is tf_private.BoundedTensorSpec


@pytest.mark.parametrize("name, meets", [("SINGLE_THREADED_EXECUTOR", False), (None, True)])
def test_an_executor_runs_operations_one_after_another_or_side_by_side(name, meets):
    barrier, outcomes = threading.Barrier(2), []

    def meet(number):
        try:
            barrier.wait(timeout=20.0 if meets else 0.5)
            outcomes.append(True)
        except threading.BrokenBarrierError:
            outcomes.append(False)
        return np.float32(1.0)

    @functools.partial(tf.function, autograph=False)
    def both(x):
        # Without a state, different, and not constant: else TensorFlow orders, merges or precomputes them.
        return sum(tf.numpy_function(meet, [x + i], tf.float32, stateful=False) for i in range(2))

    with tf.device("CPU:0"), tf_private.use_executor(name):
        assert both(tf.constant(0.0)) == 2.0
    assert outcomes == [meets] * 2


def test_operations_run_at_once_in_any_graph():
    results = []

    @functools.partial(tf.function, autograph=False)
    def traced():
        with tf_private.use_eager_mode():
            results.append(int(tf.constant(1) + 1))

    with tf.Graph().as_default(), tf_private.use_eager_mode():
        results.append(int(tf.constant(1) + 1))
    traced()
    assert results == [2, 2]


def test_a_function_is_called_with_tensors_and_what_it_has_captured():
    variable = tf.Variable(3.0)
    concrete = tf.function(lambda x: {"y": variable * x}).get_concrete_function(tf.TensorSpec((), tf.float32))
    result = tf_private.call_flat(concrete, [tf.constant(2.0)], concrete.captured_inputs)
    assert float(result["y"]) == 6.0


def test_what_a_function_writes_is_found_also_in_branches_loops_and_functions():
    read, assigned, added, scattered, looped, nested = (tf.Variable([1.0]) for _ in range(6))

    @tf.function(autograph=False)
    def write():
        nested.assign([2.0])

    @tf.function(autograph=False)
    def change():
        assigned.assign(read + assigned)
        tf.cond(read[0] > 0, lambda: added.assign_add(read), lambda: added.value())
        scattered.scatter_nd_update([[0]], read)
        tf.while_loop(lambda i: i < 2, lambda i: [i + tf.size(looped.assign(read))], [0])
        write()

    written = tf_private.find_written(change.get_concrete_function())
    expected = (assigned, added, scattered, looped, nested)
    assert {id(handle) for handle in written} == {id(variable.handle) for variable in expected}


def test_exchanges_can_be_aborted():
    """peers_program_test.py lets processes wait for a lost one."""
    from tensorflow.python.eager import context

    assert callable(context.Context.abort_collective_ops)


def test_the_objects_of_a_checkpoint(tmp_path):
    module = tf.Module()
    module.first = module.second = tf.Variable(1.0)
    path = tf.train.Checkpoint(module=module).write(str(tmp_path / "checkpoint"))
    nodes = tf_private.read_object_graph(tf.train.load_checkpoint(path)).nodes
    (module_id,) = (x.node_id for x in nodes[0].children if x.local_name == "module")
    children = {x.local_name: x.node_id for x in nodes[module_id].children}
    assert children["first"] == children["second"]
    (attribute,) = nodes[children["first"]].attributes
    assert attribute.name == "VARIABLE_VALUE" and attribute.checkpoint_key


def test_a_variable_can_stop_being_trainable():
    module = tf.Module()
    module.variable = tf.Variable(1.0)
    tf_private.make_untrainable(module.variable)
    assert not module.variable.trainable and module.trainable_variables == ()
    with tf.GradientTape() as tape:
        loss = module.variable * 2.0
    assert tape.gradient(loss, module.variable) is None


def test_branches_on_tensors_become_those_of_the_graph():
    def absolute(x):
        if x > 0:
            return x
        return -x

    converted = tf_private.convert_by_autograph(absolute)
    traced = tf.function(lambda x: converted(x), autograph=False)
    assert [float(traced(tf.constant(x))) for x in (2.0, -3.0)] == [2.0, 3.0]


def test_tensorflow_forgets_a_function_of_python():
    class Owner:
        def __call__(self):
            return np.float32(2.0)

    def run():
        owner = Owner()
        call = lambda: owner()  # noqa: E731

        def function():
            result = tf.numpy_function(call, [], tf.float32)
            tf_private.take_from_tensorflow(call)
            return result

        assert tf.function(function, autograph=False)() == 2.0
        return weakref.ref(owner)

    known = run()
    gc.collect()
    assert known() is None


VALUES = {
    "an array that fits": (np.arange(3.0, dtype=np.float32), np.float32),
    "another dtype": (np.arange(3), np.float32),
    "numbers": ([1, 2], np.int32),
    "numbers that overflow": ([300, -1], np.uint8),
    "bools": ([True, False], np.bool_),
    "texts": (["a", b"bc"], object),
    "no dtype": ([1, 2.5], None),
    "another order": (np.arange(4.0).reshape(2, 2).T, np.float64),
}


@pytest.fixture(scope="module")
def original():
    """TensorFlow's own function, from a second copy of its module."""
    spec = importlib.util.find_spec(numpy_compat.__name__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.np_asarray


def call(function, value, dtype):
    try:
        return function(value, dtype=dtype, order="C")
    except (OverflowError, ValueError) as error:
        return type(error)


def test_arrays_are_converted_as_by_tensorflow(original, subtests):
    tf_private.spare_version_checks()
    patched = numpy_compat.np_asarray
    assert patched.__module__ == "alf.core.tf_private" != original.__module__
    for name, (value, dtype) in VALUES.items():
        with subtests.test(name):
            expected, found = call(original, value, dtype), call(patched, value, dtype)
            np.testing.assert_array_equal(found, expected)
            if isinstance(expected, np.ndarray):
                assert found.dtype == expected.dtype and found.flags.c_contiguous
                # TensorFlow 2.18 copies always, later versions where it must be.
                assert np.shares_memory(found, value) or not np.shares_memory(expected, value)


def test_what_an_array_becomes_is_looked_up_at_each_call(monkeypatch):
    traced = tf.function(lambda: tf.numpy_function(lambda: np.float32(2.0), [], tf.float32), autograph=False)
    assert traced() == 2.0
    calls = []
    convert = numpy_compat.np_asarray
    monkeypatch.setattr(
        numpy_compat, "np_asarray", lambda *args, **kwargs: calls.append(1) or convert(*args, **kwargs)
    )
    assert traced() == 2.0 and calls
