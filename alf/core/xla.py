# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Functions that XLA compiles as a part of a larger graph."""

import contextlib
import contextvars
import functools

import tensorflow as tf

from alf.core.devices import find_gpus

# Of the thread: one may export a policy while others trace graphs.
_compiles = contextvars.ContextVar("compiles", default=True)


def compiled(function):
    """Makes XLA compile a function of tensors where a graph for CPUs calls it.

    It pays for several passes over many numbers, of which XLA makes one. A GPU makes them fast enough, and
    XLA needs more of CUDA than TensorFlow does.
    """

    @functools.wraps(function)
    def call(*args):
        if tf.executing_eagerly() or not _compiles.get() or find_gpus():
            return function(*args)
        # A function of its own for each graph: TensorFlow would warn of one that is traced for many shapes.
        return tf.function(function, autograph=False, jit_compile=True)(*args)

    return call


@contextlib.contextmanager
def without_xla():
    """Context manager in which the operations of such functions are a part of the graph that is traced.

    Converters to other file formats do not know functions for XLA.
    """
    token = _compiles.set(False)
    try:
        yield
    finally:
        _compiles.reset(token)
