# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What functions add to TensorFlow's graphs."""

import tensorflow as tf


def add_operations(function):
    """Calls a function () in the current graph; returns a list of the `tf.Operation`s that it adds to it."""
    graph = tf.compat.v1.get_default_graph()
    num_before = len(graph.get_operations())
    function()
    return graph.get_operations()[num_before:]
