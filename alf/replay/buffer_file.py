# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Saves replay buffers to files and loads them. `alf.replay.buffer_archive` describes the format."""

import json
import math
import zipfile
from typing import Any, NamedTuple

import numpy as np

from alf.core.files import replace_file
from alf.core.nest_utils import list_leaves
from alf.core.spec_json import nest_to_json
from alf.data_structures import LIMITS
from alf.errors import ConfigError
from alf.replay.buffer_archive import (
    FORMAT,
    LAYOUT,
    VERSION,
    describe_specs,
    list_chunks,
    numpy_dtype,
    open_archive,
    open_array,
    open_new,
    raise_difference,
    read_array,
    read_ranges,
    write_array,
)
from alf.replay.storage import read_at, write_at

_MOST_STEPS = 1 << 62  # of an environment: an int64 still holds the positions that follow
_LARGEST_PRIORITY = 1e290  # a float64 still holds the sum of so many as a memory has


def save(path, replayer, priorities=None, compress=False):
    """Writes the content of a `BufferReplayer` to a file, which appears when it is complete.

    Another thread may write to the replayer meanwhile.

    Args:
        path: text; a file there is replaced.
        replayer: `BufferReplayer`.
        priorities: `SumTree` of the priorities of the sequences that start at the replayer's rows, or None.
        compress: bool, whether arrays of integers and bools, such as images, are compressed. Floats never
            are, because they would hardly become smaller.

    Raises:
        OSError: if the file cannot be written.
    """
    # `steps` must be read before the rows, and `steps_after_write` after them (see BufferReplayer, Threads):
    # between the two, the writer may have overwritten the oldest rows, and only those.
    last = replayer.steps.numpy()
    # The window is fixed now. Steps that arrive while the file is written are not in it.
    first = np.maximum(replayer.first.numpy(), last - replayer.max_steps)
    header = {"format": FORMAT, "version": VERSION, "row_spec": nest_to_json(replayer.row_spec)}
    header.update({key: getattr(replayer, key) for key in LAYOUT})
    tables = _make_tables(replayer, replayer.batch_size)
    # The archive ends first, with its list of members, and only then the file gets its name.
    with replace_file(path) as whole, zipfile.ZipFile(whole, "w", compresslevel=1) as archive:
        write_array(archive, "header", np.array(json.dumps(header)))
        write_array(archive, "position", last)
        for table in tables:
            rows, *_ = table.list_entries(table.count(first, last), last)
            for name, x in table.variables.items():
                shape = (*rows.shape, *x.shape[1:])
                layout = {"descr": numpy_dtype(x.dtype).str, "fortran_order": False, "shape": shape}
                deflates = compress and (x.dtype.is_integer or x.dtype.is_bool)
                with open_new(archive, name, deflates) as file:
                    # The header of a .npy file by hand: `np.save` would need the whole array in memory.
                    np.lib.format.write_array_header_1_0(file, layout)
                    for chunk in list_chunks(shape, x.dtype):
                        file.write(read_at(x, rows[chunk]).numpy().tobytes())
            if priorities is not None and not table.prefix:
                # These may be newer than the rows. `PrioritizedReplayer.load` drops the ones of rows where no
                # sequence of the file begins.
                write_array(archive, "priority", priorities.get(rows).numpy())
        # Rows were overwritten meanwhile. The ranges, written last, leave them out.
        first_intact = np.maximum(first, replayer.steps_after_write.numpy() - replayer.max_steps)
        for table in tables:
            end = np.cumsum(table.count(first, last))
            write_array(archive, f"{table.prefix}begin", end - table.count(first_intact, last))
            write_array(archive, f"{table.prefix}end", end)


def load(path, replayer, priorities=None):
    """Replaces the content of a `BufferReplayer` by a file's, or by its newest part if the file holds more.

    Args:
        path: text.
        replayer: `BufferReplayer`.
        priorities: its `SumTree`, or None. Priorities become 0 if the file has none.

    Raises:
        ConfigError: if the file is damaged or does not fit. The replayer has not changed then, unless reading
            fails after the file was checked: then it is empty.
    """
    with open_archive(path) as (archive, header):
        _check_specs(path, header, replayer)
        place = _find_place(archive, header, replayer)
        priority = None
        if priorities is not None and "priority.npy" in archive.namelist():
            priority = read_array(archive, "priority")
        _check_content(path, archive, place, replayer.row_spec, priority)
        # From here on a failed read leaves an empty replayer: a half-loaded one would look like a whole one.
        replayer.clear()  # priorities, too
        kept = _write_content(archive, place, replayer)
        if priority is not None:
            rows, keep = kept
            priorities.update(rows[keep].ravel(), priority[keep].ravel())


def load_part(path, replayer, first_column):
    """Loads a file into a part of a new `BufferReplayer`, without priorities.

    Args:
        path: text.
        replayer: `BufferReplayer`.
        first_column: int, the `env_id` in the replayer of the file's sub-environment 0.

    Returns:
        int, the number of the file's sub-environments.

    Raises:
        ConfigError: if the file is damaged.
    """
    with open_archive(path) as (archive, header):
        place = _find_place(archive, header, replayer, first_column)
        _check_content(path, archive, place, replayer.row_spec)
        _write_content(archive, place, replayer)
        return header["num_groups"] * header["batch_size"]


class _Place(NamedTuple):
    """The place of a file's content in a `BufferReplayer`.

    Attributes:
        envs: int64 [F, E]; for each of the file's F environments, the replayer's environments that it fills.
            There are several if the replayer's batches are smaller.
        first, last: int64 [F]; positions of the oldest time step that is kept, and of the newest one.
        tables: list of the file's `_Table`s.
    """

    envs: Any
    first: Any
    last: Any
    tables: list


class _Table(NamedTuple):
    """The arrays of a file for time steps, or for recurrent states. All have the same number of entries.

    Attributes:
        prefix: text, "" or "state_", of the names of the arrays begin and end.
        lag: int, environment steps from the last entry to the newest time step.
        stride: int, environment steps between two entries.
        row_of: callable (env, column, position) -> int64 [N, B], the replayer's rows of entries.
        columns: int64 [B].
        variables: dict from the name of an array to the replayer's variable, [num_rows, ...].
    """

    prefix: str
    lag: int
    stride: int
    row_of: Any
    columns: Any
    variables: dict

    def count(self, first, last):
        """Counts each environment's entries between two positions, int64 [E]."""
        return np.where(last > first, (last - self.lag - first) // self.stride + 1, 0)

    def list_entries(self, counts, last):
        """Lists the newest `counts` [E] entries up to `last` [E]: rows [N, B], envs [N], positions [N]."""
        env = np.repeat(np.arange(len(counts)), counts)
        # Entries lie one environment after the other, so each counts back from its environment's last entry.
        num_later = np.cumsum(counts)[env] - 1 - np.arange(len(env))
        position = (last - self.lag)[env] - num_later * self.stride
        return self.row_of(env[:, np.newaxis], self.columns, position[:, np.newaxis]), env, position


def _make_tables(replayer, batch_size, first_column=0):
    """Makes the `_Table`s of a file with batches of `batch_size` and the first env_id `first_column`."""

    def from_file(row_of):
        def find(env, column, position):
            column = first_column + env * batch_size + column
            return row_of(column // replayer.batch_size, column % replayer.batch_size, position)

        return find

    # Recurrent states exist only where unrolls begin, so their newest one is an unroll older than the newest
    # time step.
    columns, length = np.arange(batch_size), replayer.unroll_length
    rows, states = dict(list_leaves(replayer.rows)), dict(list_leaves({"state": replayer.states}))
    tables = [
        _Table("", 0, 1, from_file(replayer.row_of), columns, rows),
        _Table("state_", length, length, from_file(replayer.state_row_of), columns, states),
    ]
    return tables if states else tables[:1]


def _find_place(archive, header, replayer, first_column=0):
    """Returns the `_Place` in a replayer of a file whose first env_id becomes `first_column`."""
    num_groups, batch_size = header["num_groups"], header["batch_size"]
    begin, end = read_ranges(archive, "")
    per_env = batch_size // replayer.batch_size
    envs = first_column // replayer.batch_size + np.arange(num_groups * per_env).reshape(num_groups, per_env)
    # Positions go on by whole unrolls, as if the file had been observed, and so far that no slot keeps a time
    # step from before: a `Sequences` from before the load must not name a new one.
    num_unrolls = -(-(replayer.max_steps + 1) // replayer.unroll_length)
    last = replayer.steps.numpy()[envs[:, 0]] + num_unrolls * replayer.unroll_length
    # A new replayer takes the file's positions, so that a run that continues draws the same sequences.
    if not replayer.steps.numpy().any():
        last = read_array(archive, "position")
    first = last - np.clip(end - begin - 1, 0, replayer.max_steps)
    return _Place(envs, first, last, _make_tables(replayer, batch_size, first_column))


def _check_content(path, archive, place, row_spec, priority=None):
    """Raises ConfigError unless a file, with its priorities or None, is intact and its arrays fit its header.

    All of it is checked before anything is written, so that a bad file changes nothing.
    """
    # Float actions may lie beyond their bounds: so do those of a Gaussian policy.
    limits = dict(LIMITS)
    for name, spec in list_leaves({"action": row_spec.action}):
        if spec.dtype.is_integer and hasattr(spec, "minimum"):
            limits[name] = spec.minimum, spec.maximum
    bad = archive.testzip()
    if bad is not None:
        raise ConfigError(f"the replay buffer {path!r} is damaged: wrong checksum of {bad}")
    position = read_array(archive, "position")
    fine = (position.shape, position.dtype) == (place.first.shape, np.int64)
    fine = fine and bool(np.all((position >= 0) & (position < _MOST_STEPS) & (place.first >= 0)))
    fine = fine and all(_fits(archive, table, place.first, place.last) for table in place.tables)
    table = place.tables[0]
    if priority is not None:
        _, end = read_ranges(archive, "")
        fine = fine and (priority.shape, priority.dtype) == ((end[-1], len(table.columns)), np.float64)
        fine = fine and bool(np.all((priority >= 0) & (priority <= _LARGEST_PRIORITY)))  # NaN is not
    if not fine:
        raise ConfigError(f"the replay buffer {path!r} is damaged: its arrays do not fit its header")
    # Not `info`, which is the policy's own: the logits of masked actions may be infinite. And not `env_info`,
    # in which NaN may say that an environment has no number for a key.
    checked = {
        name: x.dtype for name, x in table.variables.items() if not name.startswith(("info", "env_info"))
    }
    for name, dtype in checked.items():
        wrong = _find_wrong_value(archive, name, dtype, limits.get(name))
        if wrong is not None:
            raise ConfigError(f"the replay buffer {path!r}: a value of {name} is {wrong}")


def _write_content(archive, place, replayer):
    """Writes a file's content to its place. Returns its rows, [N, B], and which are kept, bool [N]."""
    # The order that readers in other threads rely on: `steps_after_write`, the content, `steps`.
    _assign_at(replayer.steps_after_write, place.envs, place.last)
    kept = []
    for table in place.tables:
        _, end = read_ranges(archive, table.prefix)
        rows, env, position = table.list_entries(np.diff(end, prepend=0), place.last)
        keep = position >= place.first[env]
        kept.append((rows, keep))
        for name, x in table.variables.items():
            shape = (*rows.shape, *x.shape[1:])
            with open_array(archive, name) as (file, *_):
                for chunk in list_chunks(shape, x.dtype):
                    content = file.read(len(rows[chunk]) * math.prod(shape[1:]) * x.dtype.size)
                    entries = np.frombuffer(content, x.dtype.as_numpy_dtype).reshape(-1, *shape[1:])
                    write_at(x, rows[chunk][keep[chunk]], entries[keep[chunk]])
    _assign_at(replayer.steps, place.envs, place.last)
    _assign_at(replayer.first, place.envs, place.first)
    # Of the first table, of time steps, to which priorities belong.
    return kept[0]


def _assign_at(variable, envs, values):
    """Assigns `values` [F] to the elements `envs` [F, E] of a small variable."""
    # Replaces the whole variable in one assignment, so that a reader never sees only a part of the change.
    content = variable.numpy()
    content[envs] = values[:, np.newaxis]
    variable.assign(content)


def _check_specs(path, header, replayer):
    """Raises ConfigError unless the file and the replayer have the same specs and environments."""
    theirs, ours = header, {"row_spec": replayer.row_spec, **{key: getattr(replayer, key) for key in LAYOUT}}
    theirs, ours = (
        describe_specs(x["row_spec"], x["unroll_length"]) | {k: x[k] for k in ("num_groups", "batch_size")}
        for x in (theirs, ours)
    )
    raise_difference(f"the replay buffer {path!r}", "here", theirs, ours, ". load_replayer takes any file")


def _fits(archive, table, first, last):
    """Returns whether the arrays of a table have the shapes, dtypes and ranges that a load needs."""
    begin, end = read_ranges(archive, table.prefix)
    fine = begin.shape == end.shape == first.shape and begin.dtype == end.dtype == np.int64
    fine = fine and bool(np.all((np.append(0, end[:-1]) <= begin) & (begin <= end)))
    fine = fine and bool(np.all(end - begin >= table.count(first, last)))
    for name, x in table.variables.items():
        with open_array(archive, name) as (_, *layout):
            shape = (end[-1], len(table.columns), *x.shape[1:])
            fine = fine and layout == [shape, False, numpy_dtype(x.dtype)]
    return fine


def _find_wrong_value(archive, name, dtype, limits):
    """Returns a text about a number of an array that nobody can learn from, or None.

    Args:
        archive: `zipfile.ZipFile`.
        name: text, of the array.
        dtype: `tf.DType` of the tensors that the array stores.
        limits: the smallest and the largest value, arrays or numbers; None: any finite number is fine.
    """
    if limits is None and not dtype.is_floating:
        return None
    with open_array(archive, name) as (file, shape, *_):
        for chunk in list_chunks(shape, dtype):
            count = len(range(*chunk.indices(shape[0])))
            content = file.read(count * math.prod(shape[1:]) * dtype.size)
            # In the tensor's dtype: the file calls a bfloat16 uint16, in which nothing is infinite.
            values = np.frombuffer(content, dtype.as_numpy_dtype).reshape(count, *shape[1:])
            if not np.isfinite(values).all():
                return "not finite"
            if limits is not None and not ((values >= limits[0]) & (values <= limits[1])).all():
                return f"not between {limits[0]} and {limits[1]}"
    return None
