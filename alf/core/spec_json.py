# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Converts nests of tensor specs to JSON and back, for the files of runs and replay buffers."""

import collections

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec


def nest_to_json(nest):
    """Converts a nest of tensor specs to JSON types."""
    if tf.nest.is_nested(nest):
        kind, children = _children_of(nest)
        value = {"kind": kind, "children": [[key, nest_to_json(child)] for key, child in children]}
        return {**value, "name": type(nest).__name__} if kind == "namedtuple" else value
    value = {"dtype": nest.dtype.name, "shape": nest.shape.as_list()}
    if isinstance(nest, BoundedTensorSpec):
        value.update(minimum=_shorten(nest.minimum), maximum=_shorten(nest.maximum))
    return value


def nest_from_json(value):
    """Reverses `nest_to_json`. A named tuple becomes one of a new class with the same name and fields."""
    if "dtype" in value:
        dtype, shape = tf.as_dtype(value["dtype"]), tuple(value["shape"])
        if "minimum" not in value:
            return tf.TensorSpec(shape, dtype)
        bounds = [np.array(value[bound], dtype.as_numpy_dtype) for bound in ("minimum", "maximum")]
        bounds = [np.broadcast_to(bound, shape) for bound in bounds]
        return BoundedTensorSpec(shape, dtype, *bounds)
    children = {key: nest_from_json(child) for key, child in value["children"]}
    if value["kind"] == "namedtuple":
        return collections.namedtuple(value["name"], children)(**children)
    if value["kind"] == "dict":
        return {key: children[key] for key in sorted(children)}  # TensorFlow sorts them, too
    return {"list": list, "tuple": tuple}[value["kind"]](children.values())


def _shorten(bound):
    """Returns a bound as nested lists, or one number if all are equal, as those of the pixels of an image."""
    different = np.unique(bound)
    return different[0].item() if len(different) == 1 else bound.tolist()


def _children_of(nest):
    """Returns the kind of a nest and its pairs (key, child)."""
    if isinstance(nest, collections.abc.Mapping):
        return "dict", [(key, nest[key]) for key in sorted(nest)]
    if hasattr(nest, "_fields"):
        return "namedtuple", list(zip(nest._fields, nest))
    return "list" if isinstance(nest, list) else "tuple", list(enumerate(nest))
