# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The file format of replay buffers, and how its arrays are read and written.

A file has the format of `numpy.savez` (`numpy.load(path)` reads it) and these arrays:

    header: str scalar, JSON: format, version, unroll_length T, num_groups G, batch_size B, and `row_spec`,
        the specs of one time step of one environment, an `Experience`.
    begin, end: int64 [G]; entries begin[i] to end[i] - 1 of each of the following arrays are the time steps
        of batched environment i, in order. The entries between end[i - 1] and begin[i] were overwritten while
        the file was written, and are not valid.
    step_type, reward, discount, observation, prev_action, action, info, policy_version, env_info:
        [R, B, ...]; a nest has one array for each leaf, for example "observation/position". `env_id` is
        i * B + column.
    position: int64 [G], the position of the newest time step of each environment in the buffer.
    priority: float64 [R, B], only in a prioritized buffer: the priority of the sequence that begins there,
        raised to alpha; 0 where no sequence begins.
    state: [U, B, ...], state_begin, state_end: int64 [G]; only if there is a recurrent state. Entries
        state_begin[i] to state_end[i] - 1 are the states at row 0 of the newest unrolls of environment i,
        in order. The last of these unrolls begins at entry end[i] - 1 - T.

bfloat16 is stored as its bits, uint16. Arrays may be compressed, as `numpy.savez_compressed` does.
"""

import contextlib
import json
import math
import zipfile

import numpy as np
import tensorflow as tf

from alf.core.files import open_regular
from alf.core.nest_utils import list_leaves
from alf.core.spec_json import nest_from_json
from alf.data_structures import Experience, PolicyState
from alf.errors import ConfigError

FORMAT = "ALF replay buffer"
VERSION = 1
LAYOUT = ("unroll_length", "num_groups", "batch_size")
CHUNK_BYTES = 1 << 24  # the largest part of an array that is in memory at a time


@contextlib.contextmanager
def open_archive(path):
    """Context manager that yields a file's `ZipFile` and its header, whose "row_spec" is an `Experience`.

    Errors of any kind within the context become a ConfigError that names the file.
    """
    try:
        with open_regular(path, "rb") as file, zipfile.ZipFile(file) as archive:
            header = json.loads(read_array(archive, "header").item())
            if header["format"] != FORMAT:
                raise ConfigError(f"the file {path!r} is not a replay buffer")
            if header["version"] != VERSION:
                version = f"version {header['version']}, this ALF reads {VERSION}"
                raise ConfigError(f"the replay buffer {path!r} has {version}")
            for name in LAYOUT:
                if type(header[name]) is not int or header[name] < 1:
                    raise ConfigError(
                        f"the replay buffer {path!r} is damaged: its {name} is {header[name]!r}, and must be "
                        "an integer above 0"
                    )
            row_spec = Experience(**nest_from_json(header["row_spec"])._asdict())
            header["row_spec"] = row_spec._replace(state=PolicyState(**row_spec.state._asdict()))
            yield archive, header
    except ConfigError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise nearly anything for a damaged file
        raise ConfigError(f"the replay buffer {path!r} cannot be read: {error!r}") from error


def open_new(archive, name, deflates=False):
    """Opens a new array in the archive for writing, compressed or not."""
    # `ZipFile` takes the compression of a new member from this attribute: `open` has no argument for it. And
    # the size is not known before the array is written: without `force_zip64` an array of more than 2 GiB
    # would fail at its end.
    archive.compression = zipfile.ZIP_DEFLATED if deflates else zipfile.ZIP_STORED
    return archive.open(f"{name}.npy", "w", force_zip64=True)


def write_array(archive, name, array):
    with open_new(archive, name) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def read_array(archive, name):
    with archive.open(f"{name}.npy") as file:
        # A file may come from anywhere, and a pickle in it could run any code.
        return np.lib.format.read_array(file, allow_pickle=False)


def read_ranges(archive, prefix):
    return read_array(archive, f"{prefix}begin"), read_array(archive, f"{prefix}end")


@contextlib.contextmanager
def open_array(archive, name):
    """Context manager that yields the file of an array's content, its shape, Fortran order and dtype."""
    with archive.open(f"{name}.npy") as file:
        np.lib.format.read_magic(file)
        # NumPy writes later versions of the header only for dtypes with many fields, which no buffer has. A
        # file with another version cannot be read here, and `open_archive` says so.
        yield file, *np.lib.format.read_array_header_1_0(file)


def list_chunks(shape, dtype):
    """Splits an array along its first dimension: slices of at most `CHUNK_BYTES`, but at least one entry."""
    size = max(1, CHUNK_BYTES // max(1, math.prod(shape[1:]) * dtype.size))
    return [slice(start, start + size) for start in range(0, shape[0], size)]


def numpy_dtype(dtype):
    """Returns the NumPy dtype that stores a tensor: uint16 for bfloat16, which NumPy lacks."""
    dtype = np.dtype(dtype.as_numpy_dtype)
    return dtype if dtype.kind in "biufc" else np.dtype(f"u{dtype.itemsize}")


def describe_specs(row_spec, unroll_length):
    """Returns a dict from the name of each stored array to its dtype and shape, as a text."""
    stored = list_leaves(row_spec._replace(env_id=(), state=row_spec.state.train))
    values = {k: f"{s.dtype.name} {tuple(s.shape)}" for k, s in stored}
    # Without a recurrent state, time steps mean the same for any length of unrolls.
    return {**values, "unroll_length": unroll_length} if tf.nest.flatten(row_spec.state.train) else values


def raise_difference(name, where, theirs, ours, hint=""):
    """Raises ConfigError if two descriptions differ: `theirs` of the file `name`, `ours` of `where`."""
    shown = [
        f"{k} is {theirs.get(k, 'not there')} in the file, {ours.get(k, 'not there')} {where}"
        for k in {**theirs, **ours}
        if theirs.get(k) != ours.get(k)
    ]
    if shown:
        raise ConfigError(f"{name} has other specs: {'; '.join(shown[:5])}{hint}")
