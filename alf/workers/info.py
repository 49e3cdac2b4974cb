# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads numbers from the `info` that environments return with an observation.

A key names one number: "speed", or "a/b" for the entry "a/b", or else for the entry "b" of the dict "a". A
key that is absent at a step has the value NaN there.
"""

import functools

import numpy as np

from alf.errors import ConfigError
from alf.workers.arrays import MisfitError, describe

_NO_VALUE = float("nan")
_QUICK = {float, bool, np.float64, np.float32, np.bool_}  # types that need no conversion


def check_info_keys(setting, keys):
    """Returns `keys` as a tuple; raises ConfigError unless they are different texts, none of them empty."""
    is_right = isinstance(keys, (tuple, list)) and all(isinstance(key, str) and key for key in keys)
    if not is_right or len(set(keys)) < len(keys):
        raise ConfigError(
            f'{setting} is {keys!r}: it must be a tuple of different texts, such as ("is_success",)'
        )
    return tuple(keys)


def make_info_reader(keys):
    """Makes a function from the info of one environment to a list with a number for each key.

    The function raises MisfitError if an entry is not a number.
    """
    paths = [(key, _list_paths(key)) for key in keys]
    return lambda info: [_read(info, key, ways) for key, ways in paths]


@functools.cache  # infos of vector environments are read at each step
def _list_paths(key):
    """Lists the ways to an entry: for "a/b" first ["a/b"], the entry itself, then ["a", "b"], in a dict."""
    first, *others = key.split("/")
    paths = [[first]]
    for part in others:
        paths = [way for path in paths for way in ([*path[:-1], f"{path[-1]}/{part}"], [*path, part])]
    return sorted(paths, key=len)


def read_vector_info(infos, key, batch_size):
    """Reads a key from the infos of a Gymnasium vector environment of B environments.

    Args:
        infos: dict. Where the mask `infos["_a"]`, bool [B], is False, `infos["a"]` has no value.
        key: text.
        batch_size: int, B.

    Returns:
        float32 [B], NaN where there is no value.

    Raises:
        MisfitError: if an entry is not a number.
    """
    name = f"the info's {key!r}"
    for path in _list_paths(key):
        if (rows := _find_rows(infos, key, path)) is not None:
            value, mask = rows
            break
    else:
        return np.full(batch_size, _NO_VALUE, np.float32)
    array = _as_array(value)
    if array.shape != (batch_size,) or mask.shape not in ((), array.shape):
        raise MisfitError(f"{name} is {describe(value)}: it must be an array of {batch_size} numbers")
    if array.dtype.kind in "biuf":
        return np.where(mask, array, _NO_VALUE).astype(np.float32)
    numbers = np.full(batch_size, _NO_VALUE, np.float32)
    for i in np.flatnonzero(np.broadcast_to(mask, array.shape)):
        numbers[i] = _to_number(array[i], f"{name} of sub-environment {i}")
    return numbers


def _read(info, key, paths):
    for path in paths:
        value = info
        try:
            for part in path:
                value = value[part]
        except KeyError:
            continue
        except (TypeError, IndexError):
            raise _is_no_dict(value, key) from None
        return value if type(value) in _QUICK else _to_number(value, f"the info's {key!r}")
    return _NO_VALUE


def _find_rows(value, key, path):
    """Returns what a path leads to in the infos of a vector environment, and its mask; None without it."""
    mask = np.True_
    for part in path:
        if not isinstance(value, dict):
            raise _is_no_dict(value, key)
        if part not in value:
            return None
        mask = mask & np.asarray(value.get(f"_{part}", True), np.bool_)
        value = value[part]
    return value, mask


def _to_number(value, name):
    array = _as_array(value)
    if array.shape != () or array.dtype.kind not in "biuf":
        raise MisfitError(f"{name} is {describe(value)}: it must be a number, True or False")
    return float(array)


def _as_array(value):
    try:
        return np.asarray(value)
    except (TypeError, ValueError):  # a list of lists of unequal lengths, for example
        return np.array(None)


def _is_no_dict(value, key):
    return MisfitError(f"the info has {describe(value)} where the key {key!r} needs a dict")
