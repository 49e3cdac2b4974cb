# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Arrays that hold one step of a batch of environments: how they are made, checked, written and read."""

import ctypes
import itertools
import math
import mmap
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from alf.errors import ConfigError

_LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
FIRST, MID, LAST = 0, 1, 2  # step types, as in `alf.data_structures`, which needs TensorFlow
NUMBERS = {float, int, np.float64, np.float32}  # the usual types of a reward
_BOOL = np.dtype(bool)
_MAP_FIXED = 0x10  # of the C library, on Linux and macOS
_ALIGNMENT = 64  # bytes: a cache line, so that two arrays never share one
# The results of `reset` and `step` in Gymnasium's interface.
_RESULTS = {
    "reset": ("observation", "info"),
    "step": ("observation", "reward", "terminated", "truncated", "info"),
}


class Layout(NamedTuple):
    """The properties that all environments of a batch share."""

    observation_space: spaces.Space
    action_space: spaces.Space
    reward_shape: tuple  # (), or (R,) for vector rewards
    info_keys: tuple = ()  # the K keys that are read from the info


class Arrays(NamedTuple):
    """One step of B environments.

    Attributes:
        step_type: int32 [B]; 0 FIRST, 1 MID, 2 LAST.
        reward: float32 [B] or [B, R].
        discount: float32 [B].
        info: float32 [B, K]; NaN where the info of a step lacks a key.
        observation: list of [B, ...], one array for each leaf of the observation space.
        action: list of [B, ...], one array for each leaf of the action space, for the next step.
    """

    step_type: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    info: np.ndarray
    observation: list
    action: list


def children(space):
    """Lists the parts of a Dict or Tuple as (key, space), in the order of `tf.nest`; None for a leaf."""
    if isinstance(space, spaces.Dict):
        return [(key, space.spaces[key]) for key in sorted(space.spaces)]
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def leaves(space):
    """Lists the leaves of a space in the order of `tf.nest`."""
    parts = children(space)
    return [space] if parts is None else [leaf for _, part in parts for leaf in leaves(part)]


def without_bools(space):
    """Returns an observation space with uint8 in place of each Box of bool, with the same bounds.

    As uint8 observations are images if they have three axes, and replay buffers compress them.
    """
    if isinstance(space, spaces.Box) and space.dtype == bool:
        return spaces.Box(space.low.astype(np.uint8), space.high.astype(np.uint8), dtype=np.uint8)
    parts = {key: without_bools(part) for key, part in children(space) or ()}
    if all(part is space[key] for key, part in parts.items()):  # so that a subclass stays what it is
        return space
    return spaces.Dict(parts) if isinstance(space, spaces.Dict) else spaces.Tuple(parts.values())


def check_space(space, name, path=""):
    """Raises ConfigError unless `space` is supported: a nest of number spaces that all have elements.

    Args:
        space: a Gymnasium space.
        name: text for the error, such as "the observation space".
        path: text, the path of `space` if it is a part of another space.
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
    """An environment returned something wrong. The batch turns it into an `EnvError` that names it."""


def wrong_result(call, result):
    """Makes the `MisfitError` for a result of `call`, "reset" or "step", that is not a tuple of its size."""
    return missing_values(call, describe(result), len(result) if isinstance(result, tuple) else None)


def missing_values(call, found, count):
    """Makes the `MisfitError` for `found`, a text, in place of the results of `call`; of `count` values."""
    hint = ""
    if call == "reset":
        hint = ": the info is {} if there is none"
    elif count == 4:
        hint = ": the old done of Gym is now terminated, the end of the task, or truncated, a time limit"
    return MisfitError(f"{call}() returned {found} instead of ({', '.join(_RESULTS[call])}){hint}")


def fit(value, shape, dtype, name):
    """Returns `value` as an array of `shape` and `dtype`, or raises `MisfitError`.

    Float arrays take any real number. Integer arrays take bools and integers of other dtypes that fit.

    Args:
        value: a result of an environment.
        shape, dtype: the shape and dtype of its space.
        name: text for the error, such as "the observation".
    """
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):  # a list of lists of unequal lengths, for example
        raise MisfitError(f"{name} is {describe(value)}, which is not an array") from None
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
    """Describes a value in a few words, for errors."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    # `repr` of NumPy 2 would be "np.float32(1.0)".
    text = " ".join((str(value) if isinstance(value, np.number) else repr(value)).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def join_path(path, key):
    """Returns the path of a part, such as "a/b"."""
    return f"{path}/{key}" if path else str(key)


def name_part(name, path):
    """Returns the name of a part of the nest `name` for errors, such as "the observation's 'a/b'"."""
    return f"{name}'s '{path}'" if path else name


def make_arrays(layout, batch_size, make_buffer=bytearray, rows=slice(None)):
    """Makes the `Arrays` of `batch_size` environments in one buffer.

    Args:
        layout: `Layout` of an environment.
        batch_size: int, B.
        make_buffer: callable (size in bytes) -> buffer, such as shared memory.
        rows: slice, the environments that the returned arrays show.
    """
    observations, actions = leaves(layout.observation_space), leaves(layout.action_space)
    fields = [((), np.int32), (layout.reward_shape, np.float32), ((), np.float32)]
    fields += [((len(layout.info_keys),), np.float32)]
    fields += [(leaf.shape, leaf.dtype) for leaf in (*observations, *actions)]
    fields = [((batch_size, *shape), np.dtype(dtype)) for shape, dtype in fields]
    sizes = [dtype.itemsize * math.prod(shape) for shape, dtype in fields]
    # Each array begins at a multiple of _ALIGNMENT. The offsets follow from the layout and B, whatever the
    # rows, so processes that share the buffer need not tell each other.
    offsets = [0, *itertools.accumulate(math.ceil(size / _ALIGNMENT) * _ALIGNMENT for size in sizes)]
    buffer = make_buffer(offsets[-1])
    # Each array keeps the buffer alive. Rows are views: writing into them writes into the buffer.
    made = [np.ndarray(shape, dtype, buffer, offset)[rows] for (shape, dtype), offset in zip(fields, offsets)]
    return Arrays(*made[:4], made[4 : 4 + len(observations)], made[4 + len(observations) :])


def share(file, size):
    """Maps shared memory, which a process that this one forks does not get; returns `mmap.mmap`."""
    memory = mmap.mmap(file, size)
    if hasattr(mmap, "MADV_DONTFORK"):  # Linux
        memory.madvise(mmap.MADV_DONTFORK)
    return memory


def detach(memory):
    """Puts memory of this process alone, of zeros, in the place of an `mmap.mmap` that is shared.

    Arrays in it stay where they are.
    """
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    function = ctypes.CDLL(None).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long
    function(address, len(memory), mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0)


def make_writer(space, arrays, name, path=""):
    """Makes a function (row, observation) that writes into `arrays`, an iterator with one for each leaf."""
    parts = children(space)
    whole = name_part(name, path)
    if parts is None:
        return make_leaf_writer(next(arrays), whole)
    writers = [(key, make_writer(part, arrays, name, join_path(path, key))) for key, part in parts]
    is_tuple = isinstance(space, spaces.Tuple)

    def write(row, observation):
        key = None
        try:
            if is_tuple and len(observation) != len(writers):
                raise MisfitError(
                    f"{whole} is {describe(observation)}, its space is a Tuple of {len(writers)}"
                )
            for key, write_part in writers:
                write_part(row, observation[key])
        except (LookupError, TypeError):
            raise MisfitError(f"{whole} is {describe(observation)}, its space has the part {key!r}") from None

    return write


def make_leaf_writer(array, name):
    """Makes a function (row, value) that writes a value into `array`, or raises MisfitError if it misfits."""
    # The usual types are compared first, because `fit` would take most of the time of a cheap environment.
    shape, dtype = array.shape[1:], array.dtype
    if shape == ():
        types = NUMBERS if dtype.kind == "f" else {dtype.type, *([int] if dtype == np.int64 else [])}

        def write(row, value):
            try:
                array[row] = value if type(value) in types else fit(value, shape, dtype, name)
            except OverflowError:  # an int of more than 64 bits
                fit(value, shape, dtype, name)

        return write

    def write(row, value):
        try:
            # NumPy has one object for each usual dtype. If an equal one is another object, only the slower
            # check comes. Bools fit any dtype.
            fits = value.shape == shape and (value.dtype is dtype or value.dtype is _BOOL)
        except AttributeError:
            fits = False
        array[row] = value if fits else fit(value, shape, dtype, name)

    return write


def make_action_reader(space):
    """Makes a function from an iterator over arrays to B actions, copies that environments may keep."""
    parts = children(space)
    if parts is None:
        # Copies, because the owner writes the next actions into the same memory, and an environment may still
        # have the last one.
        if isinstance(space, spaces.Discrete):
            return lambda arrays: next(arrays).tolist()
        return lambda arrays: list(next(arrays).copy())
    keys, readers = [key for key, _ in parts], [make_action_reader(part) for _, part in parts]
    is_dict = isinstance(space, spaces.Dict)

    def read(arrays):
        rows = zip(*[reader(arrays) for reader in readers], strict=True)
        return [dict(zip(keys, row, strict=True)) for row in rows] if is_dict else list(rows)

    return read
