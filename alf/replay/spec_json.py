# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Nests of tensor specs as JSON, and names for their leaves."""

import collections

import numpy as np
import tensorflow as tf

from alf.nest_utils import BoundedTensorSpec


def named_leaves(nest, prefix=""):
    """Lists the leaves of a nest in the order of `tf.nest`, as (name, leaf): ("info/mean", spec), say."""
    if not tf.nest.is_nested(nest):
        return [(prefix, nest)]
    start = f"{prefix}/" if prefix else ""
    _, children = _children(nest)
    return [leaf for key, child in children for leaf in named_leaves(child, f"{start}{key}")]


def to_json(nest):
    """Turns a nest of tensor specs into what `json.dumps` takes."""
    if tf.nest.is_nested(nest):
        kind, children = _children(nest)
        value = {"kind": kind, "children": [[key, to_json(child)] for key, child in children]}
        return {**value, "name": type(nest).__name__} if kind == "namedtuple" else value
    value = {"dtype": nest.dtype.name, "shape": nest.shape.as_list()}
    if isinstance(nest, BoundedTensorSpec):
        value.update(minimum=nest.minimum.tolist(), maximum=nest.maximum.tolist())
    return value


def from_json(value):
    """Reverses `to_json`. A named tuple gets a new class of the same name and fields.

    Raises:
        KeyError, TypeError, ValueError: if `to_json` did not make it.
    """
    if "dtype" in value:
        shape, dtype = tuple(value["shape"]), tf.as_dtype(value["dtype"])
        if "minimum" not in value:
            return tf.TensorSpec(shape, dtype)
        bounds = [np.array(value[bound], dtype.as_numpy_dtype) for bound in ("minimum", "maximum")]
        return BoundedTensorSpec(shape, dtype, *bounds)
    children = {key: from_json(child) for key, child in value["children"]}
    if value["kind"] == "namedtuple":
        return collections.namedtuple(value["name"], children)(**children)
    if value["kind"] == "dict":
        return children
    return {"list": list, "tuple": tuple}[value["kind"]](children.values())


def _children(nest):
    """Returns the kind of a nest, and its (key, child) pairs."""
    if isinstance(nest, collections.abc.Mapping):
        return "dict", [(key, nest[key]) for key in sorted(nest)]
    if hasattr(nest, "_fields"):
        return "namedtuple", list(zip(nest._fields, nest))
    return "list" if isinstance(nest, list) else "tuple", list(enumerate(nest))
