# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What Python code raises in a graph comes out of it as it was raised, however long its text is."""

import functools
import gc
import importlib.util
import traceback
import weakref

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import error_interpolation

from alf.core.tf_private import original_errors, spare_error_texts
from alf.core.tf_runtime import GraphFunction, single_threaded, trace
from alf.errors import EnvError

LONG = "x" * 1_000_000  # TensorFlow's own search in it would take hours


class TextlessError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class OwnError(Exception):
    """A weak reference can tell whether it is still in memory."""


ERRORS = [
    ValueError(LONG),
    KeyError("observation"),
    TextlessError(),
    MemoryError("no memory"),
    NotImplementedError(LONG),
    OSError(2, "no such file"),
    tf.errors.OutOfRangeError(None, None, LONG),
    ConnectionError("{{node a}} {{function_node b}} [Python error 7]"),
    FileNotFoundError("no file caf\udce9\0"),  # a name that is not UTF-8, as os.listdir returns it
]


def raise_on_purpose(error, *_):
    raise error


def in_numpy(error):
    return lambda x: tf.numpy_function(functools.partial(raise_on_purpose, error), [x], tf.float32)


def in_eager(error):
    return lambda x: tf.py_function(functools.partial(raise_on_purpose, error), [x], tf.float32)


def in_eager_once(error):
    """TensorFlow's outermost graph keeps the function, but no error."""
    errors = [error]
    return lambda x: tf.py_function(lambda x: raise_on_purpose(errors.pop()), [x], tf.float32)


def in_loop(error):
    """Within functions of TensorFlow of its own."""

    def fail(x):
        return tf.ensure_shape(in_numpy(error)(x), ())

    def body(i, x):
        return i + 1, tf.cond(i > 1, lambda: fail(x), lambda: x + 1.0)

    return lambda x: tf.while_loop(lambda i, _: i < 5, body, (tf.constant(0), x))[1]


def in_gradient(error):
    @tf.custom_gradient
    def function(x):
        return x, in_eager(error)

    def differentiate(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return differentiate


def by_trace(function):
    return trace(function, tf.TensorSpec((), tf.float32))


def by_tf_function(function):
    traced = tf.function(function, autograph=False)

    def call(x):
        with original_errors():
            return traced(x)

    return call


def catch(call):
    with pytest.raises(BaseException) as info:
        call(tf.constant(1.0))
    return info.value


@pytest.mark.parametrize("make", [in_numpy, in_eager, in_loop, in_gradient])
@pytest.mark.parametrize("error", ERRORS, ids=lambda x: type(x).__name__)
def test_it_is_raised_as_it_was(make, error, subtests):
    error.__cause__ = KeyError("cause")
    error.__context__ = KeyError("context")
    for wrap in (GraphFunction, by_trace, by_tf_function):
        with subtests.test(wrap=wrap), single_threaded():
            raised = catch(wrap(make(error)))
            if isinstance(error, TextlessError):  # whoever makes its text would fail
                assert str(raised).endswith("raised TextlessError, whose text cannot be made")
                raised = raised.__cause__
            assert raised is error
            assert "raise_on_purpose" in "".join(traceback.format_exception(raised))
            assert repr(raised.__cause__) == "KeyError('cause')"
            assert repr(raised.__context__) == "KeyError('context')"


@pytest.mark.parametrize("error", [SystemExit(0), StopIteration(3), GeneratorExit()], ids=repr)
def test_what_means_something_to_other_code_is_contained(error):
    raised = catch(GraphFunction(in_numpy(error)))
    assert isinstance(raised, EnvError) and raised.__cause__ is error
    assert str(raised) == f"Python code in a graph raised {error!r}"


def test_ctrl_c_stays_what_it_is():
    assert isinstance(catch(GraphFunction(in_numpy(KeyboardInterrupt()))), KeyboardInterrupt)


def test_a_graph_in_python_code_in_a_graph():
    error = ValueError(LONG)
    inner = tf.function(in_numpy(error), autograph=False)
    assert catch(GraphFunction(lambda x: tf.py_function(inner, [x], tf.float32))) is error


def test_tensorflow_sees_a_short_text(monkeypatch):
    spare_error_texts()
    seen, parse = [], error_interpolation.parse_message
    monkeypatch.setattr(error_interpolation, "parse_message", lambda text: seen.append(text) or parse(text))
    catch(GraphFunction(in_loop(ValueError(LONG))))
    assert [("ValueError: xxx" in text, len(text) < 5000) for text in seen] == [(True, True)]


def test_errors_of_operations_stay_what_they_are():
    def check(x):
        with tf.control_dependencies([tf.debugging.Assert(x > 1.0, [LONG])]):
            return x + 1.0

    raised = catch(GraphFunction(check))
    assert isinstance(raised, tf.errors.InvalidArgumentError) and LONG in raised.message
    assert "Detected at node" in raised.message


def test_a_generator_of_tensorflow_still_ends():
    spare_error_texts()
    data = tf.data.Dataset.from_generator(
        lambda: iter(range(3)), output_signature=tf.TensorSpec((), tf.int32)
    )
    assert [int(x) for x in data] == [0, 1, 2]


def test_nothing_stays_in_memory():
    def run():
        error = OwnError("mine")
        catch(GraphFunction(in_eager_once(error)))
        return weakref.ref(error)

    known = run()
    gc.collect()
    assert known() is None


TEXTS = [
    "",
    "no tag",
    "{{node a}}",
    "a {{function_node f}} b {{node g/h.c-1}}\n c {{function_node k}}",
    "{{ node a}} {{node}} {{node a b}} {{{node a}} {{node a}}}} {{node x}",
    "{{colocation_node c}} and {{function_node f}}{{function_node g}}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_message_is_parsed_as_by_tensorflow(text):
    spare_error_texts()
    spec = importlib.util.find_spec(error_interpolation.__name__)
    original = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(original)
    assert error_interpolation.parse_message.__module__ == "alf.core.tf_private"
    found = error_interpolation.parse_message(text)
    assert found == original.parse_message(text)


def test_any_length_is_parsed():
    spare_error_texts()
    text = LONG + "{{" * 1000 + "{{node a}}" + LONG
    assert error_interpolation.parse_message(text)[0] == text


def test_results_are_as_before():
    double = GraphFunction(lambda x: tf.numpy_function(lambda x: np.float32(2.0) * x, [x], tf.float32))
    assert float(double(tf.constant(3.0))) == 6.0
