# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Offline buffers: replayers that are made from files."""

import glob
import os
from collections.abc import Sequence

import tensorflow as tf

from alf.core.files import find_path
from alf.core.nest_utils import add_leading_dims
from alf.data_structures import NO_VERSION
from alf.errors import ConfigError
from alf.replay.buffer_archive import (
    describe_specs,
    open_archive,
    raise_difference,
    read_ranges,
)
from alf.replay.buffer_file import load_part
from alf.replay.buffer_replayer import UniformReplayer
from alf.replay.minari_data import MINARI, find_minari_file
from alf.replay.storage import TooLittleMemory


def find_files(offline_buffer):
    """Lists the files that `Experiment.offline_buffer` names, each once.

    Args:
        offline_buffer: a path, a glob, "minari:" and the id of a data set, or a list or tuple of these.

    Raises:
        ConfigError: if there is no such file or data set.
    """
    names = [offline_buffer] if isinstance(offline_buffer, str) else offline_buffer
    if not names:
        raise ConfigError(f"Experiment.offline_buffer is {offline_buffer!r}: it must name files")
    paths = {}
    for name in names:
        if name.startswith(MINARI):
            paths[find_minari_file(name.removeprefix(MINARI))] = None
            continue
        name = find_path(name)
        is_glob = glob.has_magic(name) and not os.path.exists(name)
        found = sorted(glob.glob(_escape_folder(name), recursive=True)) if is_glob else [name]
        if not any(map(os.path.exists, found)):
            raise ConfigError(f"Experiment.offline_buffer: there is no file {name!r}")
        paths |= dict.fromkeys(found)
    return list(paths)


def _escape_folder(pattern):
    """Returns a pattern of paths in which the characters of folders that exist have no other meaning."""
    folder = pattern
    while not os.path.exists(folder):  # it ends at "/", because the path is absolute
        folder = os.path.dirname(folder)
    return glob.escape(folder) + pattern[len(folder) :]


def read_layout(paths, length=None):
    """Reads from files the arguments with which a `BufferReplayer` holds exactly their content.

    If their batches differ in size, each sub-environment becomes a batched environment of its own.

    Args:
        paths: list of str.
        length: int, environment steps of each sub-environment that are kept; None keeps all.

    Returns:
        the arguments `unroll_spec`, `num_groups` and `capacity`.

    Raises:
        ConfigError: if a file is damaged or missing or has other specs than the first one, or if `length` is
            too small.
    """
    headers, lengths = [], []
    for path in paths:
        with open_archive(path) as (archive, header):
            begin, end = read_ranges(archive, "")
            headers.append(header)
            # n steps have n + 1 time steps.
            lengths.append(int((end - begin).max()) - 1)
        theirs, ours = (describe_specs(x["row_spec"], x["unroll_length"]) for x in (header, headers[0]))
        raise_difference(f"the replay buffer {path!r}", f"in {paths[0]!r}", theirs, ours)
    sizes = {header["batch_size"] for header in headers}
    batch_size = sizes.pop() if len(sizes) == 1 else 1
    num_groups = sum(header["num_groups"] * header["batch_size"] for header in headers) // batch_size
    row_spec, state_spec = headers[0]["row_spec"]._replace(state=()), headers[0]["row_spec"].state
    # With recurrent states, sequences must start where unrolls did. Without, any time step will do.
    unroll_length = headers[0]["unroll_length"] if tf.nest.flatten(state_spec.train) else 1
    if length is not None and length < unroll_length:
        raise ConfigError(
            f"offline_buffer_length is {length}: it must be at least {unroll_length}, one unroll, because "
            f"there is a recurrent state in {paths[0]!r}"
        )
    # All environments get as many slots as the longest one needs, because a replayer has one capacity.
    max_steps = max(unroll_length, *lengths)
    max_steps = max_steps if length is None else min(max_steps, length)
    unroll_spec = add_leading_dims(row_spec, unroll_length + 1, batch_size, keep_bounds=True)
    unroll_spec = unroll_spec._replace(state=add_leading_dims(state_spec, batch_size, keep_bounds=True))
    return unroll_spec, num_groups, max_steps * num_groups * batch_size


def read_row_spec(path):
    """Reads the specs of one time step, an `Experience` of specs with bounds.

    Raises:
        ConfigError: if the file is damaged or missing.
    """
    with open_archive(path) as (_, header):
        return header["row_spec"]


def load_replayer(paths: Sequence[str], context: int = 0, length: int | None = None) -> UniformReplayer:
    """Makes a `UniformReplayer` that holds the experience of files. No environments are needed.

    The files must have the same specs, which become its `row_spec`; their numbers of environments may differ.
    Its environments are the environments of the first file, then of the second, and so on. Its memory is
    allocated once. Every `policy_version` becomes NO_VERSION, because the versions in the files count the
    updates of other runs.

    Args:
        paths: str, or list of str.
        context: int, the number of time steps in front of a sequence that data transformers need.
        length: int, the number of environment steps that are loaded from each sub-environment of each file,
            the newest ones; None loads all.

    Raises:
        ConfigError: if a file is damaged or missing or has other specs than the first one, or if the machine
            has too little memory.
    """
    paths = [paths] if isinstance(paths, str) else paths
    unroll_spec, num_groups, capacity = read_layout(paths, length)
    try:
        replayer = UniformReplayer(unroll_spec, num_groups, context, capacity)
    except TooLittleMemory as error:
        hint = "Experiment.offline_buffer_length can limit what is loaded"
        raise ConfigError(f"the offline buffer is too large, {hint}: {error}") from None
    column = 0
    for path in paths:
        # One file after another into the same memory: only a part of one array is held besides it
        # (`CHUNK_BYTES`).
        column += load_part(path, replayer, column)
    # The versions count the updates of other runs, so they say nothing about the policy lag in this one.
    version = tf.constant(NO_VERSION, tf.int64)
    replayer.rows.policy_version.assign(tf.fill(replayer.rows.policy_version.shape, version))
    return replayer
