# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Nests of tensors and of specs: leading dimensions, zeros, and the check of a nest against its spec."""

import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from alf.core.tf_private import BoundedTensorSpec


def to_tensor_spec(nest):
    """Turns a nest of array specs, of ALF or of TF-Agents, into tensor specs. Bounds are kept."""

    def convert(spec):
        if isinstance(spec, tf.TypeSpec):
            return spec
        if hasattr(spec, "minimum"):
            return BoundedTensorSpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, spec.name)
        return tf.TensorSpec(spec.shape, spec.dtype, spec.name)

    return tf.nest.map_structure(convert, nest)


def add_leading_dims(spec, *dims, keep_bounds=False):
    """Adds the dimensions `dims` in front of the shape of every spec in a nest, with or without bounds."""
    return tf.nest.map_structure(lambda s: _with_shape(s, (*dims, *s.shape), keep_bounds), spec)


def remove_leading_dims(spec, num_dims):
    """Removes the first `num_dims` dimensions of every spec in a nest. Bounds are kept."""
    return tf.nest.map_structure(lambda s: _with_shape(s, s.shape[num_dims:], keep_bounds=True), spec)


def _with_shape(spec, shape, keep_bounds):
    if keep_bounds and isinstance(spec, BoundedTensorSpec):
        return BoundedTensorSpec(shape, spec.dtype, spec.minimum, spec.maximum, spec.name)
    return tf.TensorSpec(shape, spec.dtype)


def name_leaves(name, nest):
    """Returns a dict of the leaves of a nest, in order, with names of letters, digits and underscores.

    A single leaf gets `name`; otherwise the path is appended, for example "observation_camera_0".
    """
    leaves = list_leaves(nest)
    names = [re.sub(r"[^a-zA-Z0-9]", "_", f"{name}_{path}") if path else name for path, _ in leaves]
    if len(set(names)) < len(names):
        names = [f"{name}_{i}" for i in range(len(names))]
    return {name: leaf for name, (_, leaf) in zip(names, leaves)}


def list_leaves(nest):
    """Lists the leaves of a nest as (path, leaf): ("camera/0", x), or ("", x) for a single leaf.

    They are in the order of `tf.nest.flatten`: dicts by their sorted keys.
    """
    return [("/".join(map(str, path)), leaf) for path, leaf in _walk(nest)]


def describe_specs(nest):
    """Returns "float32 [17] and uint8 [84, 84, 4]" for a nest of tensor specs."""
    return " and ".join(f"{spec.dtype.name} {spec.shape.as_list()}" for spec in tf.nest.flatten(nest))


def _walk(nest):
    """Yields (path, leaf) of a nest; a path is a tuple of keys, names of fields and indices."""
    items = _list_items(nest)
    if items is None:
        yield (), nest
    for key, value in items or ():
        for path, leaf in _walk(value):
            yield (key, *path), leaf


def _list_items(nest):
    """Lists the (key, value) of a dict, list or tuple; None of a leaf."""
    if isinstance(nest, Mapping):
        return [(key, nest[key]) for key in sorted(nest)]
    if isinstance(nest, (list, tuple)):
        return list(zip(getattr(nest, "_fields", range(len(nest))), nest, strict=True))
    return None


def flatten_like(spec, nest):
    """Lists the parts of a nest where a spec has leaves: a list in place of an array stays one part.

    Raises:
        ValueError: if the nest lacks a part of the spec, or has more.
    """
    items = _list_items(spec)
    if items is None:
        return [nest]
    parts = dict(_list_items(nest) or ())
    if parts.keys() != dict(items).keys():
        # Named tuples also fit plain tuples, which come out of files.
        if not isinstance(nest, (list, tuple)) or len(nest) != len(items):
            raise ValueError(f"there must be {[key for key, _ in items]}, not {[*parts]}")
        parts = dict(zip(dict(items), nest, strict=True))
    return [leaf for key, value in items for leaf in flatten_like(value, parts[key])]


def zeros_from_spec(spec, *dims):
    """Makes zeros for a nest of specs, with the leading dimensions `dims`."""
    return tf.nest.map_structure(lambda s: tf.zeros((*dims, *s.shape), s.dtype), spec)


def zero_where(condition, nest):
    """Sets a nest of [B, ...] to zeros where `condition`, bool [B], is True; or of [T, B, ...] and [T, B]."""

    def zero(x):
        added = [1] * (x.shape.rank - condition.shape.rank)
        rows = tf.reshape(condition, [-1 if n is None else n for n in condition.shape] + added)
        # Not a product with 0, which leaves NaN where it was.
        return tf.where(rows, tf.zeros_like(x), x)

    return tf.nest.map_structure(zero, nest)


def concat(nests, axis):
    """Concatenates nests of the same structure, leaf by leaf."""
    return tf.nest.map_structure(lambda *x: tf.concat(x, axis), *nests)


def split(nest, num_parts, axis=0):
    """Splits the tensors of a nest into equal parts; a scalar goes to all parts. Returns a list of nests."""
    if num_parts == 1:
        return [nest]
    leaves = [
        tf.split(x, num_parts, axis) if x.shape.rank else [x] * num_parts for x in tf.nest.flatten(nest)
    ]
    return [tf.nest.pack_sequence_as(nest, [x[i] for x in leaves]) for i in range(num_parts)]


def merge_leading_dims(nest, spec):
    """Merges all leading dimensions into one.

    Args:
        nest: nest of [..., *shape].
        spec: nest of unbatched specs, [*shape].

    Returns:
        the nest of [N, *shape], and a list of the leading dimensions for `split_leading_dim`: ints, or int32
        scalars if they are not known while tracing.
    """
    xs, specs = tf.nest.flatten(nest), tf.nest.flatten(spec)
    num_leading = xs[0].shape.rank - specs[0].shape.rank
    dims = tf.shape(xs[0])
    leading = [dims[i] if n is None else n for i, n in enumerate(xs[0].shape[:num_leading])]
    if num_leading != 1:
        xs = [tf.reshape(x, (-1, *s.shape)) for x, s in zip(xs, specs, strict=True)]
    return tf.nest.pack_sequence_as(nest, xs), leading


def split_leading_dim(x, leading):
    """Reverses `merge_leading_dims` for one tensor [N, *shape]. Returns [*leading, *shape]."""
    return x if len(leading) == 1 else tf.reshape(x, (*leading, *x.shape[1:]))


def find_structure_mismatch(nest, spec):
    """Compares only the structure of a nest with a spec. Returns None, or a text that says what differs."""
    try:
        tf.nest.assert_same_structure(spec, nest, expand_composites=True)
    except (TypeError, ValueError) as error:
        return f"its structure differs: {error}"
    return None


def find_mismatch(nest, spec):
    """Compares a nest with its spec. Callers raise the error and say whose fault it is.

    Args:
        nest: nest of tensors, arrays or specs.
        spec: nest of tensor or array specs. A dimension of None fits any size.

    Returns:
        None if structure, dtypes and shapes agree, else a text that says what differs.
    """
    if mismatch := find_structure_mismatch(nest, spec):
        return mismatch
    for x, s in zip(tf.nest.flatten(nest), tf.nest.flatten(spec), strict=True):
        x = x if hasattr(x, "dtype") else np.asarray(x)
        dtype, expected = tf.as_dtype(x.dtype), tf.as_dtype(s.dtype)
        if dtype != expected or not tf.TensorShape(s.shape).is_compatible_with(x.shape):
            return f"it has {dtype.name} {tuple(x.shape)} instead of {expected.name} {tuple(s.shape)}"
    return None
