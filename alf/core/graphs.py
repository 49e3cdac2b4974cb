# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What functions add to TensorFlow's graphs."""

import tensorflow as tf


def add_operations(function):
    """Calls a function () in the current graph; returns a list of the `tf.Operation`s that it adds to it."""
    graph = tf.compat.v1.get_default_graph()
    num_before = len(graph.get_operations())
    function()
    return graph.get_operations()[num_before:]


def find_operation(graph, types):
    """Finds an operation of one of some types, also in the functions that operations call.

    Args:
        graph: the `tf.Graph` of a traced function.
        types: set of texts, such as "Conv2D".

    Returns:
        the `tf.Operation` of `graph` that is of such a type or calls a function with one; None if there is
        none.
    """
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}
    found: dict[str, bool] = {}

    def calls(attributes):
        lists = [attribute.list.func for attribute in attributes]
        names = [attribute.func.name for attribute in attributes]
        return [*names, *(function.name for functions in lists for function in functions)]

    def has(name):
        if name not in found:
            found[name] = False  # of a function that is looked at just now
            nodes = library[name].node_def if name in library else ()
            found[name] = any(
                node.op in types
                or node.op in library
                and has(node.op)
                or any(map(has, calls(node.attr.values())))
                for node in nodes
            )
        return found[name]

    for operation in graph.get_operations():
        if operation.type in types or any(map(has, calls(operation.node_def.attr.values()))):
            return operation
    return None
