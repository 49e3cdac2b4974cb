# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Specs of NumPy arrays: shape, dtype and bounds of what an environment takes and returns."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class ArraySpec:
    """Shape and dtype of an array. Two specs are equal if these, and their bounds, are.

    Args:
        shape: of the array, ints.
        dtype: of the array, what `np.dtype` takes, or a type of TensorFlow.
        name: text for messages; not compared.
    """

    def __init__(self, shape: Sequence[int], dtype: Any, name: str | None = None) -> None:
        self.shape, self.dtype, self.name = tuple(shape), _to_numpy(dtype), name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def _key(self):
        return self.shape, self.dtype

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({arguments})"


class BoundedArraySpec(ArraySpec):
    """An `ArraySpec` whose elements lie between `minimum` and `maximum`, which are included.

    Args:
        minimum, maximum: numbers, or arrays that broadcast to `shape`. None and infinity are the smallest or
            the largest number of the dtype.

    Attributes:
        minimum, maximum: arrays of the dtype, in the shape in which they were given.

    Raises:
        ValueError: if a bound does not fit shape or dtype, or if a minimum is above its maximum.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        minimum: Any = None,
        maximum: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(shape, dtype, name)
        low, high = _limits(self.dtype)
        self.minimum = self._fit(low if minimum is None else minimum, low, high)
        self.maximum = self._fit(high if maximum is None else maximum, low, high)
        if (self.minimum > self.maximum).any():
            raise ValueError(f"{self}: a minimum is above its maximum")

    def _key(self):
        bounds = self.minimum, self.maximum
        return *super()._key(), *(np.broadcast_to(x, self.shape).tolist() for x in bounds)

    def _fit(self, bound, low, high):
        bound = np.asarray(bound)
        np.broadcast_to(bound, self.shape)  # raises ValueError
        is_inf = np.isinf(bound)
        finite = np.where(is_inf, np.zeros_like(bound), bound)
        if ((finite < low) | (finite > high)).any():
            raise ValueError(f"the bound {bound} is outside of {self.dtype}")
        # In the type of the array: the limits of int64 are no floats.
        limits = np.where(bound < 0, np.array(low, self.dtype), np.array(high, self.dtype))
        return np.where(is_inf, limits, finite.astype(self.dtype))


def to_array_spec(spec: Any) -> ArraySpec:
    """Returns any spec of an array, also one of TF-Agents or dm_env, as an `ArraySpec`."""
    if isinstance(spec, ArraySpec):
        return spec
    if hasattr(spec, "minimum"):
        return BoundedArraySpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, spec.name)
    return ArraySpec(spec.shape, spec.dtype, spec.name)


def _to_numpy(dtype):
    return np.dtype(getattr(dtype, "as_numpy_dtype", dtype))


def _limits(dtype):
    if dtype.kind == "b":
        return False, True
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return limits.min, limits.max
