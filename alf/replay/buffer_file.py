# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Files of replay buffers.

A file is what `numpy.savez` writes (`numpy.load(path)` reads it), with these arrays:

    header: str scalar, JSON: format, version, unroll_length T, num_envs E, batch_size B, and the specs of a
        row, an `Experience`.
    begin, end: int64 [E]; rows begin[i] to end[i] - 1 of every array below are the time steps of batched
        environment i, in order. Rows outside were overwritten while the file was written: they mean nothing.
    step_type, reward, discount, observation, prev_action, action, info, policy_version: [R, B, ...]; of nests
        one array for each leaf, "observation/position" for instance. `env_id` is i * B + column.
    priority: float64 [R, B], if draws are prioritized: the sequence that begins there is drawn in proportion
        to it; 0 where none does.
    state: [U, B, ...], state_begin, state_end: int64 [E]: if there is a recurrent state, which entered the
        newest unrolls of environment i, in order. The last of them begins at row end[i] - 1 - T.

bfloat16 is stored as its bits, uint16.
"""

import contextlib
import functools
import json
import os
import struct
import zipfile
import zlib
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec

from alf.data_structures import Experience, PolicyState
from alf.errors import ConfigError
from alf.replay.ring_buffer import stored_specs
from alf.replay.spec_json import from_json, to_json
from alf.replay.storage import read_rows, write_rows

_FORMAT = "ALF replay buffer"
_VERSION = 1
_PRIORITY = tf.TensorSpec((None,), tf.float64)
_CHUNK_BYTES = 1 << 24  # read and written at once
_DAMAGES = (
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def save(path, buffer, priorities=None):
    """Writes what a `RingBuffer` holds; another thread may go on writing to the buffer.

    The file appears, or replaces another one, when it is complete.

    Args:
        path: of the file.
        buffer: `RingBuffer`.
        priorities: `SumTree` of the sequences that start at the buffer's rows; None if there is none.

    Raises:
        OSError: if it cannot be written.
    """
    last = buffer.steps.numpy()
    first = np.maximum(buffer.first.numpy(), last - buffer.num_steps)
    counts = np.where(last > first, last - first + 1, 0)
    unrolls = np.where(counts > 0, (last - first) // buffer.unroll_length, 0)
    with _replace(path) as file, zipfile.ZipFile(file, "w") as archive:
        _write_array(archive, "header", np.array(json.dumps(_header_of(buffer))))
        for name, variable in buffer.rows.items():
            chunks = _read_steps(buffer, functools.partial(read_rows, variable), variable, first, counts)
            _stream(
                archive, name, (counts.sum(), buffer.batch_size, *variable.shape[1:]), variable.dtype, chunks
            )
        if priorities is not None:
            chunks = _read_steps(buffer, priorities.get, _PRIORITY, first, counts)
            _stream(archive, "priority", (counts.sum(), buffer.batch_size), _PRIORITY.dtype, chunks)
        for name, variable in buffer.states.items():
            chunks = _read_states(buffer, variable, last, unrolls)
            _stream(archive, name, (unrolls.sum(), *variable.shape[1:]), variable.dtype, chunks)
        # Only now is it known what was overwritten meanwhile: the oldest time steps.
        lost = np.clip(buffer.claimed.numpy() - buffer.num_steps - first, 0, counts)
        end = np.cumsum(counts)
        _write_array(archive, "begin", end - counts + lost)
        _write_array(archive, "end", end)
        if buffer.states:
            end = np.cumsum(unrolls)
            kept = np.clip((counts - lost - 1) // buffer.unroll_length, 0, unrolls)
            _write_array(archive, "state_begin", end - kept)
            _write_array(archive, "state_end", end)


def load(path, buffer, priorities=None):
    """Replaces what a `RingBuffer` holds by a file's content, the newest part if the file holds more.

    Args:
        path: of the file.
        buffer: `RingBuffer`.
        priorities: `SumTree` that gets the file's priorities, zeros if it has none; None if there is none.

    Raises:
        ConfigError: if the file is damaged or does not fit; the buffer has not changed then. (If the file
            cannot be read any more after it was checked, the buffer is empty.)
    """
    with _open(path) as archive:
        header = _read_header(path, archive)
        _check_fits(path, header, buffer)
        _check_content(path, archive, header)
        last = buffer.steps.numpy() + _distance(buffer)
        begin, end = _read_array(archive, "begin"), _read_array(archive, "end")
        counts = np.minimum(end - begin, buffer.num_steps + 1)
        buffer.clear()
        buffer.claimed.assign(last)

        def chunks(name, dtype):
            for env, rows, chunk in _read_stream(archive, name, dtype, end - counts, end):
                positions = last[env] + 1 - (end[env] - rows)
                yield buffer.row(env, positions[:, np.newaxis], np.arange(buffer.batch_size)), chunk

        for name, variable in buffer.rows.items():
            for index, chunk in chunks(name, variable.dtype):
                write_rows(variable, index, chunk)
        if buffer.states:
            _load_states(archive, buffer, last, np.maximum(counts - 1, 0) // buffer.unroll_length)
        if priorities is not None:
            priorities.assign(tf.zeros(buffer.num_rows, _PRIORITY.dtype))
            if _has_priorities(archive):
                for index, chunk in chunks("priority", _PRIORITY.dtype):
                    priorities.update(tf.reshape(index, (-1,)), chunk.reshape(-1))
        buffer.steps.assign(last)
        buffer.first.assign(last - np.maximum(counts - 1, 0))


def read_layout(path):
    """What a buffer needs to hold all of a file.

    Returns:
        unroll_spec: `Experience` of tensor specs of [T+1, B, ...], state [B, ...].
        num_envs: int.
        num_steps: int; of the environment with the most.

    Raises:
        ConfigError: if the file is damaged.
    """
    with _open(path) as archive:
        header = _read_header(path, archive)
        counts = _read_array(archive, "end") - _read_array(archive, "begin")
    batch = (header.batch_size,)
    rows = _with_dims(header.row_spec._replace(state=()), (header.unroll_length + 1, *batch))
    unroll_spec = rows._replace(state=_with_dims(header.row_spec.state, batch))
    return unroll_spec, header.num_envs, max(int(counts.max()) - 1, 0)


class _Header(NamedTuple):
    """A file's header.

    Fields:
        row_spec: `Experience` of unbatched tensor specs.
        unroll_length, num_envs, batch_size: ints.
    """

    row_spec: Any
    unroll_length: int
    num_envs: int
    batch_size: int


def _header_of(buffer):
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "unroll_length": buffer.unroll_length,
        "num_envs": buffer.num_envs,
        "batch_size": buffer.batch_size,
        "row_spec": to_json(buffer.row_spec),
    }


def _read_header(path, archive):
    """Returns the `_Header`; a ConfigError if there is none, or of a version that is not known."""
    header = json.loads(_read_array(archive, "header").item())
    if header["format"] != _FORMAT:
        raise ConfigError(f"the file {path!r} is no replay buffer")
    if header["version"] != _VERSION:
        raise ConfigError(
            f"the replay buffer {path!r} is of version {header['version']}, this ALF reads {_VERSION}"
        )
    row_spec = Experience(**from_json(header["row_spec"])._asdict())
    row_spec = row_spec._replace(state=PolicyState(**row_spec.state._asdict()))
    return _Header(row_spec, header["unroll_length"], header["num_envs"], header["batch_size"])


def _check_fits(path, header, buffer):
    theirs, ours = _leaves(header.row_spec), _leaves(buffer.row_spec)
    different = [k for k in {**theirs, **ours} if theirs.get(k) != ours.get(k)]
    if different:
        shown = "; ".join(
            f"{k} is {theirs.get(k, 'not there')} in the file, {ours.get(k, 'not there')} here"
            for k in different[:5]
        )
        raise ConfigError(f"the replay buffer {path!r} has other specs: {shown}")
    layout = (header.num_envs, header.batch_size)
    if layout != (buffer.num_envs, buffer.batch_size):
        raise ConfigError(
            f"the replay buffer {path!r} holds {layout[0]} environments of batch size {layout[1]}, here are "
            f"{buffer.num_envs} of {buffer.batch_size}; alf.replay.load_replayer takes any"
        )
    if buffer.states and header.unroll_length != buffer.unroll_length:
        raise ConfigError(
            f"the replay buffer {path!r} holds recurrent states of unrolls, with unroll_length "
            f"{header.unroll_length}; here it is {buffer.unroll_length}"
        )


def _leaves(row_spec):
    """Dict from the name of an array to what it holds, as text."""
    rows, states = stored_specs(row_spec)
    return {k: f"{s.dtype.name} {tuple(s.shape)}" for k, s in {**rows, **states}.items()}


def _check_content(path, archive, header):
    """Reads the whole file once, so that what comes after cannot fail."""
    bad = archive.testzip()
    if bad is not None:
        raise ConfigError(f"the replay buffer {path!r} is damaged: wrong checksum of {bad}")
    specs = stored_specs(header.row_spec)
    for leaves, prefix in zip(specs, ("", "state_")):
        if not leaves:
            continue
        begin, end = _read_array(archive, prefix + "begin"), _read_array(archive, prefix + "end")
        total = end[-1]
        starts = np.concatenate([[0], end[:-1]])
        fine = begin.shape == end.shape == (header.num_envs,)
        fine = fine and bool(np.all((starts <= begin) & (begin <= end)))
        for name, spec in leaves.items():
            with archive.open(f"{name}.npy") as file:
                shape, dtype = _read_array_header(file)
            expected = (total, header.batch_size, *spec.shape)
            fine = fine and shape == expected and dtype == _file_dtype(spec.dtype)
        if not prefix and _has_priorities(archive):
            priority = _read_array(archive, "priority")
            fine = fine and priority.shape == (total, header.batch_size) and priority.dtype == np.float64
            fine = fine and bool(np.all(np.isfinite(priority) & (priority >= 0)))
        if not fine:
            raise ConfigError(f"the replay buffer {path!r} is damaged: its arrays do not fit its header")


def _has_priorities(archive):
    return "priority.npy" in archive.namelist()


def _distance(buffer):
    """How far positions move when a buffer is loaded: no time step of before may seem to be held still."""
    unrolls = -(-2 * (buffer.num_steps + 1) // buffer.unroll_length)
    return unrolls * buffer.unroll_length


def _load_states(archive, buffer, last, counts):
    begin, end = _read_array(archive, "state_begin"), _read_array(archive, "state_end")
    counts = np.minimum(counts, end - begin)
    for name, variable in buffer.states.items():
        for env, unrolls, chunk in _read_stream(archive, name, variable.dtype, end - counts, end):
            positions = last[env] - (end[env] - unrolls) * buffer.unroll_length
            write_rows(variable, buffer.state_row(env, positions), chunk)


def _read_steps(buffer, read, spec, first, counts):
    """Yields what `read` says of the time steps of every environment, arrays of [n, B, ...], in order.

    Args:
        buffer: `RingBuffer`.
        read: callable (rows int64 [n, B]) -> [n, B, ...].
        spec: with the dtype and the shape [rows, ...] of what it reads from.
        first, counts: int64 [E]; where the time steps begin, and how many there are.
    """
    columns = np.arange(buffer.batch_size)
    at_once = _rows_at_once(spec.dtype, (buffer.batch_size, *spec.shape[1:]))
    for env in range(buffer.num_envs):
        end = first[env] + counts[env]
        for start in range(first[env], end, at_once):
            positions = np.arange(start, min(start + at_once, end))
            yield read(buffer.row(env, positions[:, np.newaxis], columns))


def _read_states(buffer, variable, last, unrolls):
    """Yields the recurrent states of the last unrolls of every environment, arrays of [n, B, ...]."""
    at_once = _rows_at_once(variable.dtype, variable.shape[1:])
    for env in range(buffer.num_envs):
        for start in range(0, unrolls[env], at_once):
            nth = np.arange(start, min(start + at_once, unrolls[env]))
            positions = last[env] - (unrolls[env] - nth) * buffer.unroll_length
            yield read_rows(variable, buffer.state_row(env, positions))


def _rows_at_once(dtype, shape):
    return max(1, _CHUNK_BYTES // max(1, dtype.size * int(np.prod(shape))))


def _with_dims(nest, dims):
    def add(spec):
        shape = (*dims, *spec.shape)
        if isinstance(spec, tensor_spec.BoundedTensorSpec):
            return tensor_spec.BoundedTensorSpec(shape, spec.dtype, spec.minimum, spec.maximum)
        return tf.TensorSpec(shape, spec.dtype)

    return tf.nest.map_structure(add, nest)


def _file_dtype(dtype):
    """How NumPy alone can read it."""
    dtype = np.dtype(dtype.as_numpy_dtype)
    return dtype if dtype.kind in "biufc" else np.dtype(f"u{dtype.itemsize}")


@contextlib.contextmanager
def _replace(path):
    """A file to write, which gets its name when it is complete."""
    unfinished = f"{path}.tmp"
    try:
        with open(unfinished, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        raise


@contextlib.contextmanager
def _open(path):
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except ConfigError:
        raise
    except _DAMAGES as error:
        raise ConfigError(f"the replay buffer {path!r} cannot be read: {error!r}") from error


def _write_array(archive, name, array):
    with archive.open(f"{name}.npy", "w") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _read_array(archive, name):
    with archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _stream(archive, name, shape, dtype, chunks):
    """Writes an array of which only a part is in memory at a time."""
    dtype = _file_dtype(dtype)
    header = {"descr": dtype.str, "fortran_order": False, "shape": tuple(int(n) for n in shape)}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk.numpy()).view(dtype).data)


def _read_array_header(file):
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"an array of version {version}")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    if fortran_order:
        raise ValueError("an array in Fortran order")
    return shape, dtype


def _read_stream(archive, name, dtype, begin, end):
    """Reads rows begin[i] to end[i] - 1 of an array, for every environment i.

    Yields:
        i, the rows' numbers, the rows.
    """
    with archive.open(f"{name}.npy") as file:
        shape, _ = _read_array_header(file)
        data = file.tell()
        row_bytes = dtype.size * int(np.prod(shape[1:]))
        at_once = _rows_at_once(dtype, shape[1:])
        for env in range(len(end)):
            file.seek(data + int(begin[env]) * row_bytes)
            for start in range(begin[env], end[env], at_once):
                rows = np.arange(start, min(start + at_once, end[env]))
                content = np.frombuffer(file.read(len(rows) * row_bytes), dtype.as_numpy_dtype)
                yield env, rows, content.reshape((len(rows), *shape[1:]))
