# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Warm start: gives a new run the weights of a checkpoint of another one.

A variable's name is the way to it through attributes, without their leading underscores. Seen from an
`ActorCriticPolicy`, for example, those of its encoder begin with "network/torso/encoder". The names in the
checkpoint come from the objects that were saved.
"""

import os

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from alf.algorithms.algorithm import TargetUpdater
from alf.errors import ConfigError
from alf.training import checkpoint_files as files
from alf.training.saved_run import SavedRun

_COUNTERS = "progress"  # the attribute of a policy
_MAX_SHOWN = 5


def warm_start(algorithm, initial_checkpoint):
    """Gives an `Algorithm` and its policy the weights that `Trainer.initial_checkpoint` names.

    The counters of environment steps and updates stay as they are, and so do optimizers.

    Args:
        algorithm: `Algorithm`.
        initial_checkpoint: "DIR", a run's directory, whose newest checkpoint is taken, or a checkpoint's path
            (".../ckpt-N"): all variables of the algorithm and its policy. "PART@DIR": those variables of the
            policy whose name contains PART, one or more attributes like "encoder" or "network/head". Target
            networks become copies then.

    Returns:
        a text for the log.

    Raises:
        ConfigError: if there is no such checkpoint, or the names or shapes of variables differ.
    """
    try:
        part, path = _find_checkpoint(initial_checkpoint)
        variables = _restore(algorithm, part, path)
    except (ConfigError, OSError, tf.errors.OpError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"Trainer.initial_checkpoint is {initial_checkpoint!r}: {text}") from None
    if part:
        for module in algorithm.submodules:
            if isinstance(module, TargetUpdater):
                module.copy()
    return f"starts with {len(variables)} variables of {path}"


def _find_checkpoint(text):
    """Returns the part, "" for the whole, and the path of the checkpoint."""
    if not isinstance(text, str) or not text:
        raise ConfigError("it must be a path, or 'PART@PATH'")
    part, at, place = text.partition("@")
    if not at or _exists(text):
        part, place = "", text
    elif not part.strip("/"):
        raise ConfigError("there is no name before the @")
    place = os.path.abspath(os.path.expanduser(place))
    if os.path.isdir(place):
        return part, SavedRun(place).find_checkpoint()
    damage = files.find_damage(place)
    if damage is not None:
        raise ConfigError(f"{place} is neither a run nor a whole checkpoint: {damage}")
    return part, place


def _exists(path):
    path = os.path.expanduser(path)
    return os.path.isdir(path) or os.path.exists(path + files.COMPLETE)


def _restore(algorithm, part, path):
    """Restores variables; returns them, a dict by name."""
    reader = tf.train.load_checkpoint(path)
    keys = _list_saved(reader, ["learner", "policy" if part else "algorithm"])
    variables = _list_variables(algorithm.policy if part else algorithm)
    if part:
        keys, variables = _select(part, keys, "of the checkpoint"), _select(part, variables, "of this run")
    _check_same(reader, keys, variables, path)
    for name, variable in variables.items():
        variable.assign(reader.get_tensor(keys[name]))
    return variables


def _list_saved(reader, way):
    """The keys in a checkpoint, by name, of all variables below the object that attributes lead to."""
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))

    def children(node_id):
        return {child.local_name: child.node_id for child in graph.nodes[node_id].children}

    node_id = 0
    for name in way:
        node_id = children(node_id)[name]
    keys = {}
    for name, found in _walk(node_id, children, lambda node_id: node_id):
        for attribute in graph.nodes[found].attributes:
            if attribute.name == "VARIABLE_VALUE":
                keys[name] = attribute.checkpoint_key
    return keys


def _list_variables(module):
    """All variables below a module, by name."""
    found = _walk(module, tf.train.TrackableView.children, id)
    return {name: node for name, node in found if isinstance(node, tf.Variable)}


def _walk(root, children, identify):
    """Yields (name, object) for every object below `root`, once, without counters, in attributes' order."""
    stack, seen = [((), root)], {}  # `seen` keeps the objects, so that no other one gets their id
    while stack:
        way, node = stack.pop()
        if identify(node) in seen:
            continue
        seen[identify(node)] = node
        if _COUNTERS not in way:
            yield "/".join(way), node
        below = [((*way, name.lstrip("_")), child) for name, child in children(node).items()]
        stack += reversed(below)


def _select(part, names, place):
    """Those of a dict by name whose name contains all attributes of `part` one after another."""
    part = part.strip("/")
    selected = {name: x for name, x in names.items() if f"/{part}/" in f"/{name}/"}
    if not selected:
        known = dict.fromkeys(x for name in names for x in name.split("/")[:-1] if not x.isdecimal())
        raise ConfigError(f"no variable {place} has {part!r} in its name; names have {', '.join(known)}")
    return selected


def _check_same(reader, keys, variables, path):
    """Raises ConfigError unless names, shapes and dtypes in the checkpoint are those of the variables."""
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    wrong = [f"{name} is in the checkpoint alone" for name in keys.keys() - variables.keys()]
    wrong += [f"{name} is not in the checkpoint" for name in variables.keys() - keys.keys()]
    for name in keys.keys() & variables.keys():
        ours = variables[name].dtype, variables[name].shape.as_list()
        theirs = dtypes[keys[name]], shapes[keys[name]]
        if ours != theirs:
            wrong.append(f"{name} is {_describe(*theirs)} there, {_describe(*ours)} here")
    if wrong:
        more = f" and {len(wrong) - _MAX_SHOWN} more" if len(wrong) > _MAX_SHOWN else ""
        shown = "; ".join(sorted(wrong)[:_MAX_SHOWN])
        raise ConfigError(f"{path} does not fit: {shown}{more}")


def _describe(dtype, shape):
    return f"{dtype.name} {shape}"
