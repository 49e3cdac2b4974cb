# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Nests of tensor specs as JSON, and names for their leaves."""

import collections

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec


def named_leaves(nest, prefix=""):
    """Lists the leaves of a nest as (path, leaf), in `tf.nest`'s order: ("info/mean", spec), for instance."""
    if not tf.nest.is_nested(nest):
        return [(prefix, nest)]
    start = f"{prefix}/" if prefix else ""
    _, children = _children(nest)
    return [leaf for key, child in children for leaf in named_leaves(child, f"{start}{key}")]


def to_json(nest):
    """Makes what `json.dumps` takes of a nest of tensor specs."""
    if tf.nest.is_nested(nest):
        kind, children = _children(nest)
        value = {"kind": kind, "children": [[key, to_json(child)] for key, child in children]}
        return {**value, "name": type(nest).__name__} if kind == "namedtuple" else value
    value = {"dtype": nest.dtype.name, "shape": nest.shape.as_list()}
    if isinstance(nest, tensor_spec.BoundedTensorSpec):
        value.update(minimum=nest.minimum.tolist(), maximum=nest.maximum.tolist())
    return value


def from_json(value):
    """The nest that `to_json` was given. A named tuple's class is a new one of the same name and fields.

    Raises:
        KeyError, TypeError, ValueError: if it is none.
    """
    if "dtype" in value:
        shape, dtype = tuple(value["shape"]), tf.as_dtype(value["dtype"])
        if "minimum" not in value:
            return tf.TensorSpec(shape, dtype)
        bounds = [np.array(value[bound], dtype.as_numpy_dtype) for bound in ("minimum", "maximum")]
        return tensor_spec.BoundedTensorSpec(shape, dtype, *bounds)
    kind = value["kind"]
    children = {key: from_json(child) for key, child in value["children"]}
    if kind == "namedtuple":
        return collections.namedtuple(value["name"], children)(**children)
    return {"dict": dict, "list": _values, "tuple": lambda x: tuple(_values(x))}[kind](children)


def _values(children):
    return list(children.values())


def _children(nest):
    """The kind of a nest, and its (key, child) pairs."""
    if isinstance(nest, collections.abc.Mapping):
        return "dict", [(key, nest[key]) for key in sorted(nest)]
    if hasattr(nest, "_fields"):
        return "namedtuple", list(zip(nest._fields, nest))
    return "list" if isinstance(nest, list) else "tuple", list(enumerate(nest))
