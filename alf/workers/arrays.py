# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The arrays that hold one step of a batch of environments, and what spaces and values they take."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from alf.errors import ConfigError

_LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_ALIGNMENT = 64  # bytes: a cache line, so that two arrays never share one
# What `reset` and `step` of an environment take, and what they return.
_ARGUMENTS = {"reset": "*, seed=None, options=None", "step": "action"}
_RESULTS = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}


class Layout(NamedTuple):
    """What is equal in a batch: the spaces, the reward's shape, () or (R,), and the K keys of the info."""

    observation_space: spaces.Space
    action_space: spaces.Space
    reward_shape: tuple
    info_keys: tuple = ()


class Arrays(NamedTuple):
    """One step of B environments.

    Attributes:
        step_type: int32 [B]; 0 FIRST, 1 MID, 2 LAST.
        reward: float32 [B] or [B, R].
        discount: float32 [B].
        info: float32 [B, K]; NaN where a step has no value, see `alf.workers.info`.
        observation: list of [B, ...], one for each leaf of the observation space.
        action: list of [B, ...], one for each leaf of the action space: the actions of the next step.
    """

    step_type: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    info: np.ndarray
    observation: list
    action: list


def children(space):
    """Returns a list of (key, space) for a Dict or a Tuple, in the order of `tf.nest`; None for a leaf."""
    if isinstance(space, spaces.Dict):
        return [(key, space.spaces[key]) for key in sorted(space.spaces)]
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def leaves(space):
    """Returns a list of the leaves of a space, in the order of `tf.nest`."""
    parts = children(space)
    return [space] if parts is None else [leaf for _, part in parts for leaf in leaves(part)]


def check_space(space, name, path=""):
    """Raises ConfigError unless `space` is supported: a nest of number spaces that all have elements.

    Args:
        space: a Gymnasium space.
        name: what the error calls it, for example "the observation space".
        path: keys that lead to `space`, if it is a part of another space.
    """
    parts = children(space)
    for key, part in parts or ():
        check_space(part, name, join_path(path, key))
    if parts == []:
        fault = f"an empty {type(space).__name__}"
    elif parts is None and not isinstance(space, _LEAVES):
        fault = f"{type(space).__name__}" if isinstance(space, spaces.Space) else describe(space)
    elif parts is None and space.dtype.kind not in "iuf":
        fault = f"a {type(space).__name__} of {space.dtype}" + ", use MultiBinary" * (space.dtype == bool)
    elif parts is None and 0 in space.shape:
        fault = f"a {type(space).__name__} of shape {space.shape}, without elements"
    else:
        return
    raise ConfigError(
        f"{name_part(name, path)} is {fault}: supported are Box of integers or floats, Discrete, "
        "MultiDiscrete, MultiBinary, and Dict and Tuple of them, none of them empty"
    )


class MisfitError(Exception):
    """What an environment returned is wrong; the message says how. It becomes an `EnvError`."""


def wrong_result(call, result):
    """Returns the `MisfitError` for a result of `call`, "reset" or "step", that is no tuple of its size."""
    return MisfitError(f"{call}() returned {describe(result)} instead of ({', '.join(_RESULTS[call])})")


def wrong_call(call, error):
    """Returns the `MisfitError` for a `call`, "reset" or "step", of another interface than Gymnasium's.

    `error` is what Python or Gymnasium says of that.
    """
    interface = f"{call}({_ARGUMENTS[call]}) -> ({', '.join(_RESULTS[call])})"
    return MisfitError(f"{' '.join(str(error).split())}: Gymnasium's interface is {interface}")


def fit(value, shape, dtype, name):
    """Returns `value` as an array of `shape` and `dtype`, or raises `MisfitError`.

    Floats take any real number. Integers take bools, and integers of any other dtype whose values fit.

    Args:
        value: what an environment returned.
        shape, dtype: what its space says.
        name: what the error calls `value`, for example "the observation".
    """
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):  # a list of lists of unequal lengths, for example
        raise MisfitError(f"{name} is {describe(value)}, which is no array") from None
    if found.shape == shape and np.can_cast(found.dtype, dtype, "same_kind" if dtype.kind == "f" else "safe"):
        return found.astype(dtype, copy=False)
    if found.shape == shape and found.dtype.kind in "iu" and dtype.kind in "iu":
        converted = found.astype(dtype)
        if np.array_equal(converted, found):
            return converted
        raise MisfitError(
            f"{name} has values from {found.min()} to {found.max()}, its space says dtype {dtype}"
        )
    raise MisfitError(f"{name} is {describe(value)}, its space says shape {shape} and dtype {dtype}")


def describe(value):
    """Returns a few words that say what `value` is."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    # NumPy 2 would say np.float32(1.0).
    text = " ".join((str(value) if isinstance(value, np.number) else repr(value)).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def join_path(path, key):
    """Returns the path of a part: "a/b"."""
    return f"{path}/{key}" if path else str(key)


def name_part(name, path):
    """Returns what an error calls a part of the nest `name`: "the observation's 'a/b'"."""
    return f"{name}'s '{path}'" if path else name


def make_arrays(layout, batch_size, make_buffer=bytearray, rows=slice(None)):
    """Makes the `Arrays` of `batch_size` environments in one buffer.

    Args:
        layout: `Layout` of an environment.
        batch_size: int, B.
        make_buffer: a function from a size in bytes to a buffer of that size.
        rows: slice of the environments that the returned arrays show.
    """
    observations, actions = leaves(layout.observation_space), leaves(layout.action_space)
    fields = [((), np.int32), (layout.reward_shape, np.float32), ((), np.float32)]
    fields += [((len(layout.info_keys),), np.float32)]
    fields += [(leaf.shape, leaf.dtype) for leaf in (*observations, *actions)]
    fields = [((batch_size, *shape), np.dtype(dtype)) for shape, dtype in fields]
    sizes = [dtype.itemsize * math.prod(shape) for shape, dtype in fields]
    # Each array begins at a multiple of _ALIGNMENT.
    offsets = [0, *itertools.accumulate(math.ceil(size / _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    buffer = make_buffer(offsets[-1])
    made = [np.ndarray(shape, dtype, buffer, offset)[rows] for (shape, dtype), offset in zip(fields, offsets)]
    return Arrays(*made[:4], made[4 : 4 + len(observations)], made[4 + len(observations) :])
