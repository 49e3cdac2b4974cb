# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The variables of checkpoints by name, and their values for the variables of objects.

A variable's name is the way to it through attributes, without their leading underscores. Seen from an
`ActorCriticPolicy`, for example, the names in its encoder begin with "network/torso/encoder". The names in
the checkpoint come from the objects that were saved.
"""

import tensorflow as tf

from alf.core.tf_private import read_object_graph

_COUNTERS = "progress"  # the attribute of a policy with the counters, which are not weights
_MAX_SHOWN = 5


def list_saved(reader, way):
    """Returns the keys in a checkpoint, by name, of all variables below one of its objects but the counters.

    Args:
        reader: `tf.train.load_checkpoint` of the checkpoint.
        way: list of the names of attributes that lead to the object.

    Returns:
        dict from names to keys, or None if the checkpoint has no such object.
    """
    graph = _SavedGraph(reader)
    node_id = 0
    for name in way:
        node_id = graph.children(node_id).get(name)
        if node_id is None:
            return None
    found = {name: graph.find_key(node_id) for name, node_id in _walk(node_id, graph.children, int)}
    return {name: key for name, key in found.items() if key is not None and not _is_counter(name)}


class _SavedGraph:
    """The objects of a checkpoint; each has a number, and the root has 0."""

    def __init__(self, reader):
        # TensorFlow writes the graph of the saved objects as one more tensor, beside the variables' values.
        self._graph = read_object_graph(reader)

    def children(self, node_id):
        """Returns a dict from the attributes of an object to the numbers of their values."""
        return {child.local_name: child.node_id for child in self._graph.nodes[node_id].children}

    def find_key(self, node_id):
        """Returns the key of the value of a variable; None for any other object."""
        attributes = self._graph.nodes[node_id].attributes
        keys = (x.checkpoint_key for x in attributes if x.name == "VARIABLE_VALUE")
        return next(keys, None)


def list_variables(module):
    """Returns a dict by name of all variables below a module but the counters."""
    return {name: x for name, x in _find_variables(module).items() if not _is_counter(name)}


def _find_variables(module):
    found = _walk(module, tf.train.TrackableView.children, id)
    return {name: node for name, node in found if isinstance(node, tf.Variable)}


def _is_counter(name):
    return _COUNTERS in name.split("/")


def _walk(root, children, identify):
    """Yields (name, object) once for each object below `root`, in attributes' order."""
    # `seen` keeps the objects alive, so that Python does not give their ids to others.
    stack, seen = [((), root)], {}
    while stack:
        way, node = stack.pop()
        if identify(node) in seen:
            continue
        seen[identify(node)] = node
        yield "/".join(way), node
        below = [((*way, name.lstrip("_")), child) for name, child in children(node).items()]
        stack += reversed(below)  # The last entry is taken first.


def match_variables(reader, root):
    """Finds the variables below an object in a checkpoint, where the same attributes lead to them.

    Args:
        reader: `tf.train.load_checkpoint` of the checkpoint.
        root: the object.

    Returns:
        (keys, variables): dicts by name of the keys in the checkpoint, and of `tf.Variable`s.
    """
    graph = _SavedGraph(reader)

    def children(pair):
        node, node_id = pair
        saved = graph.children(node_id)
        below = tf.train.TrackableView.children(node).items()
        return {name: (child, saved[name]) for name, child in below if name in saved}

    # Walks both graphs at once, and so finds only objects that both have; the others are added below.
    found = dict(_walk((root, 0), children, lambda pair: id(pair[0])))
    matched = {id(node) for node, _ in found.values()}
    variables = {name: node for name, (node, _) in found.items() if isinstance(node, tf.Variable)}
    variables |= {name: x for name, x in _find_variables(root).items() if id(x) not in matched}
    keys = {name: graph.find_key(node_id) for name, (_, node_id) in found.items()}
    return {name: key for name, key in keys.items() if key}, variables


def read_values(reader, keys, variables):
    """Reads the values of variables from a checkpoint, all before anyone assigns one.

    Args:
        reader: `tf.train.load_checkpoint` of the checkpoint.
        keys: dict by name of the keys under which the checkpoint has the values.
        variables: dict by name of `tf.Variable`s.

    Returns:
        (values, misfits): a list of pairs (variable, NumPy array); and a list of texts, which variables are
        not in the checkpoint, or are not finite or of another type there. With weights of NaN nobody may act
        or train.
    """
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    misfits = [f"{name} is not in the checkpoint" for name in variables.keys() - keys.keys()]
    values = []
    for name in sorted(keys.keys() & variables.keys()):
        ours = variables[name].dtype, variables[name].shape.as_list()
        theirs = dtypes[keys[name]], shapes[keys[name]]
        if ours != theirs:
            misfits.append(f"{name} is {_describe(*theirs)} there, {_describe(*ours)} here")
            continue
        value = reader.get_tensor(keys[name])
        if ours[0].is_floating and not tf.reduce_all(tf.math.is_finite(value)):
            misfits.append(f"{name} is not finite there")
        values.append((variables[name], value))
    return values, misfits


def assign_values(values):
    """Assigns the values that `read_values` has read."""
    for variable, value in values:
        variable.assign(value)


def _describe(dtype, shape):
    return f"{dtype.name} {shape}"


def list_some(texts):
    """Joins the first texts of a list, and counts the others."""
    more = f" and {len(texts) - _MAX_SHOWN} more" if len(texts) > _MAX_SHOWN else ""
    return f"{'; '.join(sorted(texts)[:_MAX_SHOWN])}{more}"
