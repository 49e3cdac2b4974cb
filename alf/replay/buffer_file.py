# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Files of replay buffers.

A file is what `numpy.savez` writes (`numpy.load(path)` reads it), with these arrays:

    header: str scalar, JSON: format, version, unroll_length T, num_envs E, batch_size B, and `row_spec`, the
        specs of one time step of one environment, an `Experience`.
    begin, end: int64 [E]; entries begin[i] to end[i] - 1 of each of the following arrays are the time steps
        of batched environment i, in order. The entries before them, from end[i - 1] on, were overwritten
        while the file was written: they mean nothing.
    step_type, reward, discount, observation, prev_action, action, info, policy_version, env_info:
        [R, B, ...]; a nest has one array for each leaf, "observation/position" for instance. `env_id` is
        i * B + column.
    priority: float64 [R, B], only of a prioritized buffer: a sequence that begins there is drawn in
        proportion to it; 0 where no sequence begins.
    state: [U, B, ...], state_begin, state_end: int64 [E]; only if there is a recurrent state. Entries
        state_begin[i] to state_end[i] - 1 are the states that entered the newest unrolls of environment i,
        in order. The last of these unrolls begins at entry end[i] - 1 - T.

bfloat16 is stored as its bits, uint16. Arrays may be compressed, as `numpy.savez_compressed` does.
"""

import contextlib
import glob
import json
import math
import os
import zipfile
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from alf.core.files import find_path, replace_file
from alf.core.nest_utils import add_leading_dims, list_leaves
from alf.core.spec_json import nest_from_json, nest_to_json
from alf.data_structures import Experience, PolicyState
from alf.errors import ConfigError
from alf.replay.storage import read_at, write_at

_FORMAT = "ALF replay buffer"
_VERSION = 1
_LAYOUT = ("unroll_length", "num_envs", "batch_size")
_SCALARS = ("step_type", "discount", "env_id", "policy_version")
_CHUNK_BYTES = 1 << 24  # of an array, in memory at a time


def save(path, replayer, priorities=None, compress=False):
    """Writes what a `BufferReplayer` holds. Another thread may write to it meanwhile.

    The file appears, or replaces another one, when it is complete; OSError if it cannot be written.
    `priorities` is the `SumTree` of the sequences that start at the replayer's rows, or None. `compress` says
    whether the arrays of integers and bools, such as images, are compressed. Floats are never: they would
    hardly become smaller.
    """
    last = replayer.steps.numpy()
    first = np.maximum(replayer.first.numpy(), last - replayer.max_steps)
    header = {"format": _FORMAT, "version": _VERSION, "row_spec": nest_to_json(replayer.row_spec)}
    header.update({key: getattr(replayer, key) for key in _LAYOUT})
    tables = _make_tables(replayer, replayer.batch_size)
    with replace_file(path) as whole, zipfile.ZipFile(whole, "w", compresslevel=1) as archive:
        _write_array(archive, "header", np.array(json.dumps(header)))
        for table in tables:
            rows, *_ = table.list_entries(table.count(first, last), last)
            for name, x in table.variables.items():
                shape = (*rows.shape, *x.shape[1:])
                layout = {"descr": _file_dtype(x.dtype).str, "fortran_order": False, "shape": shape}
                deflates = compress and (x.dtype.is_integer or x.dtype.is_bool)
                with _open_new(archive, name, deflates) as file:
                    np.lib.format.write_array_header_1_0(file, layout)
                    for chunk in _list_chunks(shape, x.dtype):
                        file.write(read_at(x, rows[chunk]).numpy().tobytes())
            if priorities is not None and not table.prefix:
                _write_array(archive, "priority", priorities.get(rows).numpy())
        # Only now is it known which time steps were overwritten meanwhile: the oldest.
        first_intact = np.maximum(first, replayer.steps_after_write.numpy() - replayer.max_steps)
        for table in tables:
            end = np.cumsum(table.count(first, last))
            _write_array(archive, f"{table.prefix}begin", end - table.count(first_intact, last))
            _write_array(archive, f"{table.prefix}end", end)


def load(path, replayer, priorities=None):
    """Replaces what a `BufferReplayer` holds by a file's content, the newest part if the file holds more.

    `priorities` is as in `save`; it is zero where the file has none. ConfigError says that the file is
    damaged or does not fit; the replayer has not changed then. (If the file cannot be read any more after it
    was checked, the replayer is empty.)
    """
    with _open(path) as (archive, header):
        _check_specs(path, header, replayer)
        place = _find_place(archive, header, replayer)
        priority = None
        if priorities is not None and "priority.npy" in archive.namelist():
            priority = _read_array(archive, "priority")
        _check_content(path, archive, place, priority)
        replayer.clear()  # priorities, too
        kept = _write_content(archive, place, replayer)
        if priority is not None:
            rows, keep = kept
            priorities.update(rows[keep].ravel(), priority[keep].ravel())


def load_part(path, replayer, first_column):
    """Fills a part of a new `BufferReplayer` with a file's content, as `load` does, but for priorities.

    The sub-environments of the file become those of the replayer from `first_column` on; both count them as
    `env_id` does. Returns how many there are.
    """
    with _open(path) as (archive, header):
        place = _find_place(archive, header, replayer, first_column)
        _check_content(path, archive, place)
        _write_content(archive, place, replayer)
        return header["num_envs"] * header["batch_size"]


def find_files(offline_buffer):
    """Lists the paths that an `Experiment.offline_buffer` names: a path, a glob, or a list or tuple of these.

    Each path is listed once. ConfigError says that it is neither, or that no file fits a glob.
    """
    names = [offline_buffer] if isinstance(offline_buffer, str) else offline_buffer
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(n, str) for n in names):
        raise ConfigError(
            f"Experiment.offline_buffer is {offline_buffer!r}: it must be a path, a glob, or a list of these"
        )
    paths = {}
    for name in names:
        name = find_path("Experiment.offline_buffer", name)
        is_glob = glob.has_magic(name) and not os.path.exists(name)
        found = sorted(glob.glob(name, recursive=True)) if is_glob else [name]
        if not any(map(os.path.exists, found)):
            raise ConfigError(f"Experiment.offline_buffer: there is no file {name!r}")
        paths |= dict.fromkeys(found)
    return list(paths)


def read_layout(paths, length=None):
    """Reads what a `BufferReplayer` must be made with to just hold the content of some files.

    If their batches differ in size, each sub-environment becomes an environment of its own.

    Args:
        paths: list of str.
        length: int; environment steps kept of each sub-environment. None: as many as the longest one has.

    Returns:
        the arguments `unroll_spec`, `num_envs` and `capacity`.

    Raises:
        ConfigError: if a file is damaged or missing, or has other specs than the first one; or if `length` is
            too small.
    """
    headers, lengths = [], []
    for path in paths:
        with _open(path) as (archive, header):
            begin, end = _read_ranges(archive, "")
            headers.append(header)
            lengths.append(int((end - begin).max()) - 1)
        theirs, ours = (_describe(x["row_spec"], x["unroll_length"]) for x in (header, headers[0]))
        _raise_difference(f"the replay buffer {path!r}", f"in {paths[0]!r}", theirs, ours)
    sizes = {header["batch_size"] for header in headers}
    batch_size = sizes.pop() if len(sizes) == 1 else 1
    num_envs = sum(header["num_envs"] * header["batch_size"] for header in headers) // batch_size
    row_spec, state_spec = headers[0]["row_spec"]._replace(state=()), headers[0]["row_spec"].state
    # Only recurrent states say where unrolls began.
    unroll_length = headers[0]["unroll_length"] if tf.nest.flatten(state_spec.train) else 1
    if length is not None and length < unroll_length:
        raise ConfigError(
            f"offline_buffer_length is {length}: it must be at least {unroll_length}, one unroll, because "
            f"there is a recurrent state in {paths[0]!r}"
        )
    max_steps = max(unroll_length, *lengths)
    max_steps = max_steps if length is None else min(max_steps, length)
    unroll_spec = add_leading_dims(row_spec, unroll_length + 1, batch_size, keep_bounds=True)
    unroll_spec = unroll_spec._replace(state=add_leading_dims(state_spec, batch_size, keep_bounds=True))
    return unroll_spec, num_envs, max_steps * num_envs * batch_size


def read_row_spec(path):
    """Reads the specs of one time step, an `Experience` with bounds; errors are as in `read_layout`."""
    with _open(path) as (_, header):
        return header["row_spec"]


class _Place(NamedTuple):
    """Where a file's content goes in a `BufferReplayer`.

    Attributes:
        envs: int64 [F, E]; the replayer's environments that each of the file's F environments fills. There
            are several if the replayer's batches are smaller.
        first, last: int64 [F]; positions of the oldest time step that is kept, and of the newest one.
        tables: list of `_Table`s of the file.
    """

    envs: Any
    first: Any
    last: Any
    tables: list


class _Table(NamedTuple):
    """The arrays of a file that share their entries: either time steps or recurrent states.

    Attributes:
        prefix: of the names begin and end.
        lag, stride: environment steps from the last entry to the newest time step, and between entries.
        row_of: callable (env, column, position) -> int64 [N, B]; where the replayer has entries.
        columns: int64 [B].
        variables: dict from name to variable of the replayer, [num_rows, ...].
    """

    prefix: str
    lag: int
    stride: int
    row_of: Any
    columns: Any
    variables: dict

    def count(self, first, last):
        """Counts each environment's entries from one position to another; int64 [E]."""
        return np.where(last > first, (last - self.lag - first) // self.stride + 1, 0)

    def list_entries(self, counts, last):
        """Rows [N, B], environments, positions [N] of the newest `counts` [E] entries before `last` [E]."""
        env = np.repeat(np.arange(len(counts)), counts)
        num_later = np.cumsum(counts)[env] - 1 - np.arange(len(env))
        position = (last - self.lag)[env] - num_later * self.stride
        return self.row_of(env[:, np.newaxis], self.columns, position[:, np.newaxis]), env, position


def _make_tables(replayer, batch_size, first_column=0):
    """The tables of a file whose batches have a size of their own; see `load_part` for `first_column`."""

    def from_file(row_of):
        def find(env, column, position):
            column = first_column + env * batch_size + column
            return row_of(column // replayer.batch_size, column % replayer.batch_size, position)

        return find

    columns, length = np.arange(batch_size), replayer.unroll_length
    rows, states = dict(list_leaves(replayer.rows)), dict(list_leaves({"state": replayer.states}))
    tables = [
        _Table("", 0, 1, from_file(replayer.row_of), columns, rows),
        _Table("state_", length, length, from_file(replayer.state_row_of), columns, states),
    ]
    return tables if states else tables[:1]


def _find_place(archive, header, replayer, first_column=0):
    """Finds the `_Place` in a replayer for a file's content; `first_column` is as in `load_part`."""
    num_envs, batch_size = header["num_envs"], header["batch_size"]
    begin, end = _read_ranges(archive, "")
    per_env = batch_size // replayer.batch_size
    envs = first_column // replayer.batch_size + np.arange(num_envs * per_env).reshape(num_envs, per_env)
    # Positions advance by whole unrolls, and so far that none of them names an old time step.
    num_unrolls = -(-(replayer.max_steps + 1) // replayer.unroll_length)
    last = replayer.steps.numpy()[envs[:, 0]] + num_unrolls * replayer.unroll_length
    first = last - np.clip(end - begin - 1, 0, replayer.max_steps)
    return _Place(envs, first, last, _make_tables(replayer, batch_size, first_column))


def _check_content(path, archive, place, priority=None):
    """Raises ConfigError unless a file is whole and fits its header, with its priorities or None."""
    bad = archive.testzip()
    if bad is not None:
        raise ConfigError(f"the replay buffer {path!r} is damaged: wrong checksum of {bad}")
    fine = all(_fits(archive, table, place.first, place.last) for table in place.tables)
    table = place.tables[0]
    if priority is not None:
        _, end = _read_ranges(archive, "")
        fine = fine and (priority.shape, priority.dtype) == ((end[-1], len(table.columns)), np.float64)
        fine = fine and bool(np.all(np.isfinite(priority) & (priority >= 0)))
    if not fine:
        raise ConfigError(f"the replay buffer {path!r} is damaged: its arrays do not fit its header")
    for name, x in table.variables.items():
        if name.startswith(("reward", "observation")) and not _is_finite(archive, name, x.dtype):
            raise ConfigError(f"the replay buffer {path!r}: a value of {name} is not finite")


def _write_content(archive, place, replayer):
    """Writes a file's content to its place; returns the rows [N, B] of its time steps, and which are kept."""
    _assign_at(replayer.steps_after_write, place.envs, place.last)
    kept = []
    for table in place.tables:
        _, end = _read_ranges(archive, table.prefix)
        rows, env, position = table.list_entries(np.diff(end, prepend=0), place.last)
        keep = position >= place.first[env]
        kept.append((rows, keep))
        for name, x in table.variables.items():
            shape = (*rows.shape, *x.shape[1:])
            with _open_array(archive, name) as (file, *_):
                for chunk in _list_chunks(shape, x.dtype):
                    content = file.read(len(rows[chunk]) * math.prod(shape[1:]) * x.dtype.size)
                    entries = np.frombuffer(content, x.dtype.as_numpy_dtype).reshape(-1, *shape[1:])
                    write_at(x, rows[chunk][keep[chunk]], entries[keep[chunk]])
    _assign_at(replayer.steps, place.envs, place.last)
    _assign_at(replayer.first, place.envs, place.first)
    return kept[0]


def _assign_at(variable, envs, values):
    """Assigns `values` [F] to the elements `envs` [F, E] of a small variable."""
    content = variable.numpy()
    content[envs] = values[:, np.newaxis]
    variable.assign(content)


def _check_specs(path, header, replayer):
    """Raises ConfigError unless the file's specs and environments are those of the replayer."""
    theirs, ours = header, {"row_spec": replayer.row_spec, **{key: getattr(replayer, key) for key in _LAYOUT}}
    theirs, ours = (
        {**_describe(x["row_spec"], x["unroll_length"]), **{k: x[k] for k in ("num_envs", "batch_size")}}
        for x in (theirs, ours)
    )
    _raise_difference(f"the replay buffer {path!r}", "here", theirs, ours, ". load_replayer takes any file")


def _describe(row_spec, unroll_length):
    """Describes what a file or a replayer stores, a dict of texts by name."""
    stored = list_leaves(row_spec._replace(env_id=(), state=row_spec.state.train))
    values = {k: f"{s.dtype.name} {tuple(s.shape)}" for k, s in stored}
    return {**values, "unroll_length": unroll_length} if tf.nest.flatten(row_spec.state.train) else values


def _raise_difference(name, where, theirs, ours, hint=""):
    """Raises ConfigError that shows where two descriptions differ, of the file `name` and of `where`."""
    shown = [
        f"{k} is {theirs.get(k, 'not there')} in the file, {ours.get(k, 'not there')} {where}"
        for k in {**theirs, **ours}
        if theirs.get(k) != ours.get(k)
    ]
    if shown:
        raise ConfigError(f"{name} has other specs: {'; '.join(shown[:5])}{hint}")


def _fits(archive, table, first, last):
    """Says whether the arrays of a table have the shapes, dtypes and ranges that a load needs."""
    begin, end = _read_ranges(archive, table.prefix)
    fine = begin.shape == end.shape == first.shape and begin.dtype == end.dtype == np.int64
    fine = fine and bool(np.all((np.append(0, end[:-1]) <= begin) & (begin <= end)))
    fine = fine and bool(np.all(end - begin >= table.count(first, last)))
    for name, x in table.variables.items():
        with _open_array(archive, name) as (_, *layout):
            shape = (end[-1], len(table.columns), *x.shape[1:])
            fine = fine and layout == [shape, False, _file_dtype(x.dtype)]
    return fine


def _is_finite(archive, name, dtype):
    """Says whether all numbers of an array, which was made of tensors of `dtype`, are finite."""
    with _open_array(archive, name) as (file, shape, *_):
        for chunk in _list_chunks(shape, dtype) if dtype.is_floating else ():
            count = len(range(*chunk.indices(shape[0]))) * math.prod(shape[1:])
            content = np.frombuffer(file.read(count * dtype.size), dtype.as_numpy_dtype)
            if not np.isfinite(content.astype(np.float64)).all():
                return False
    return True


@contextlib.contextmanager
def _open(path):
    """Gives a file's `ZipFile`, and its header: a dict whose "row_spec" is an `Experience` of specs."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(_read_array(archive, "header").item())
            if header["format"] != _FORMAT:
                raise ConfigError(f"the file {path!r} is no replay buffer")
            if header["version"] != _VERSION:
                version = f"version {header['version']}, this ALF reads {_VERSION}"
                raise ConfigError(f"the replay buffer {path!r} is of {version}")
            layout = {key: header[key] for key in _LAYOUT}
            if not all(type(size) is int and 0 < size < 2**31 for size in layout.values()):
                raise ValueError(f"no buffer has {layout}")
            row_spec = Experience(**nest_from_json(header["row_spec"])._asdict())
            if any(getattr(row_spec, name).shape.rank for name in _SCALARS):
                raise ValueError(f"one of {_SCALARS} is no scalar")
            header["row_spec"] = row_spec._replace(state=PolicyState(**row_spec.state._asdict()))
            yield archive, header
    except ConfigError:
        raise
    except Exception as error:  # zipfile, zlib, NumPy and the header's keys raise nearly anything
        raise ConfigError(f"the replay buffer {path!r} cannot be read: {error!r}") from error


def _open_new(archive, name, deflates=False):
    """Opens the file of an array to write to, compressed or not."""
    archive.compression = zipfile.ZIP_DEFLATED if deflates else zipfile.ZIP_STORED
    return archive.open(f"{name}.npy", "w", force_zip64=True)


def _write_array(archive, name, array):
    with _open_new(archive, name) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def _read_array(archive, name):
    with archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _read_ranges(archive, prefix):
    return _read_array(archive, f"{prefix}begin"), _read_array(archive, f"{prefix}end")


@contextlib.contextmanager
def _open_array(archive, name):
    """Gives a file to read an array's content from, and the array's shape, Fortran order and dtype."""
    with archive.open(f"{name}.npy") as file:
        np.lib.format.read_magic(file)
        yield file, *np.lib.format.read_array_header_1_0(file)


def _list_chunks(shape, dtype):
    """Slices of an array's entries, each of at most `_CHUNK_BYTES` or of one entry."""
    size = max(1, _CHUNK_BYTES // max(1, math.prod(shape[1:]) * dtype.size))
    return [slice(start, start + size) for start in range(0, shape[0], size)]


def _file_dtype(dtype):
    """NumPy's own dtype as which a tensor is stored: for bfloat16, which NumPy lacks, its bits."""
    dtype = np.dtype(dtype.as_numpy_dtype)
    return dtype if dtype.kind in "biufc" else np.dtype(f"u{dtype.itemsize}")
