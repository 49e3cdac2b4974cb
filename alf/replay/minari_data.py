# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Minari's data sets as files of replay buffers, and such files as data sets (https://minari.farama.org)."""

import functools
import json
import os
import tempfile
import zipfile
from typing import Any

import numpy as np
import tensorflow as tf

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from alf.core.array_spec import to_array_spec
from alf.core.files import replace_file
from alf.core.nest_utils import flatten_like, list_leaves, to_tensor_spec
from alf.core.spec_json import nest_to_json
from alf.data_structures import FIRST, LAST, MID, Experience
from alf.errors import ConfigError, import_extra
from alf.replay.buffer_archive import FORMAT, VERSION, open_archive, read_array, read_ranges, write_array
from alf.workers.arrays import MisfitError, fit, without_bools
from alf.workers.specs import space_from_spec, spec_from_space

MINARI = "minari:"  # the prefix of data sets in `Experiment.offline_buffer`


def find_minari_file(dataset_id: str) -> str:
    """Returns the path of a data set as a file of a replay buffer, which stays until this process ends.

    Raises:
        ConfigError: for the reasons that `from_minari` gives.
    """
    data_path = _load(dataset_id).spec.data_path
    return _convert(dataset_id, os.stat(data_path).st_mtime_ns)


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory(prefix="alf_minari_")


@functools.cache  # presets and the run ask for the same file
def _convert(dataset_id, changed_at):
    path = os.path.join(_folder().name, f"{dataset_id.replace('/', '_')}_{changed_at}.npz")
    from_minari(dataset_id, path)
    return path


def from_minari(dataset_id: str, path: str) -> None:
    """Writes a data set of Minari as the file of a replay buffer.

    Episodes follow one another in one environment. An episode that ended neither by termination nor by
    truncation counts as truncated. The data set is held in memory meanwhile.

    Args:
        dataset_id: id of the data set, such as "D4RL/door/human-v2".
        path: path of the file; an existing file is replaced.

    Raises:
        ConfigError: if Minari is not installed, the data set is not on this machine, its spaces are not
            supported, or its content does not fit its spaces.
    """
    dataset = _load(dataset_id)
    observation, action = (
        spec_from_space(space, name)
        for space, name in (
            (without_bools(dataset.observation_space), "observation"),
            (dataset.action_space, "action"),
        )
    )
    int32, int64, float32 = (tf.TensorSpec((), dtype) for dtype in (tf.int32, tf.int64, tf.float32))
    row_spec = Experience(int32, float32, float32, observation, action, int32, action, (), int64)
    row_spec = to_tensor_spec(row_spec)
    num_rows = dataset.total_steps + dataset.total_episodes
    # `env_id` follows from the place in the file, which has no array of it.
    stored = list_leaves(row_spec._replace(env_id=()))
    arrays = {name: np.zeros((num_rows, 1, *s.shape), s.dtype.as_numpy_dtype) for name, s in stored}
    end = 0
    try:
        for episode in dataset.iterate_episodes():
            begin, end = end, end + len(episode.rewards) + 1
            _fill({name: x[begin:end, 0] for name, x in arrays.items()}, episode, observation, action)
    except MisfitError as error:
        raise ConfigError(f"the data set {dataset_id!r}: {error}") from None
    layout = {"unroll_length": 1, "num_groups": 1, "batch_size": 1}
    header = {"format": FORMAT, "version": VERSION, "row_spec": nest_to_json(row_spec), **layout}
    with replace_file(path) as whole, zipfile.ZipFile(whole, "w") as archive:
        write_array(archive, "header", np.array(json.dumps(header)))
        places = {"begin": np.zeros(1, np.int64), "end": np.full(1, end), "position": np.full(1, end - 1)}
        for name, x in {**arrays, **places}.items():
            write_array(archive, name, x)


def _load(dataset_id):
    minari = import_extra("minari", "minari")
    try:
        return minari.load_dataset(dataset_id)
    except FileNotFoundError:
        raise ConfigError(
            f"Experiment.offline_buffer: the data set {dataset_id!r} is not on this machine: "
            f"minari download {dataset_id}"
        ) from None


def _fill(rows, episode, observation_spec, action_spec):
    """Writes an episode of n steps into arrays [n + 1, ...] by name."""
    n = len(episode.rewards)
    rows["step_type"][:] = [FIRST, *[MID] * (n - 1), LAST]
    rows["reward"][1:] = fit(episode.rewards, (n,), np.dtype(np.float32), "the reward")
    rows["discount"][:] = 1.0
    rows["discount"][-1] = 1.0 - episode.terminations[-1]
    observations = flatten_like(observation_spec, episode.observations)
    for name, x in zip(_list_names("observation", observation_spec), observations, strict=True):
        rows[name][:] = fit(x, rows[name].shape, rows[name].dtype, f"the {name}")
    actions = flatten_like(action_spec, episode.actions)
    for name, x in zip(_list_names("action", action_spec), actions, strict=True):
        action = fit(x, (n, *rows[name].shape[1:]), rows[name].dtype, f"the {name}")
        rows[name][:-1], rows[name][-1] = action, action[-1]  # the last one is never learned from
        rows[f"prev_{name}"][1:] = action


def _list_names(name, spec):
    """Lists the names of the arrays of "observation" or "action" in a file, in the order of `tf.nest`."""
    return [path for path, _ in list_leaves({name: spec})]


def to_minari(path: str, dataset_id: str, **kwargs: Any) -> Any:
    """Makes a data set of Minari from the file of a replay buffer.

    An episode that the buffer does not hold to its end counts as truncated; one that it holds without its
    beginning begins later. Numbers of the policy and of the info are left out. The file is held in memory
    meanwhile.

    Args:
        path: path of the file.
        dataset_id: id of the new data set, such as "mine/pendulum-v0".
        **kwargs: other arguments of `minari.create_dataset_from_buffers`, such as `env` and `author`.

    Returns:
        the `minari.MinariDataset`.

    Raises:
        ConfigError: if Minari is not installed, or the file is damaged or missing.
    """
    minari = import_extra("minari", "minari")
    with open_archive(path) as (archive, header):
        row_spec = header["row_spec"]
        specs = {name: getattr(row_spec, name) for name in ("observation", "action")}
        names = {name: _list_names(name, spec) for name, spec in specs.items()}
        needed = ["step_type", "reward", "discount", *names["observation"], *names["action"]]
        arrays = {name: read_array(archive, name) for name in needed}
        ranges = list(zip(*read_ranges(archive, "")))
    episodes = []
    for begin, end in ranges:
        for column in range(header["batch_size"]):
            rows = {name: x[begin:end, column] for name, x in arrays.items()}
            for start, stop in _find_episodes(rows["step_type"]):
                part = {name: x[start:stop] for name, x in rows.items()}
                episodes.append(_make_episode(minari, part, specs, names, len(episodes)))
    spaces = {
        f"{name}_space": space_from_spec(tf.nest.map_structure(to_array_spec, spec))
        for name, spec in specs.items()
    }
    # Without JPEG, which would change images.
    return minari.create_dataset_from_buffers(dataset_id, episodes, **spaces, jpeg_encoding=False, **kwargs)


def _find_episodes(step_type):
    """Returns [start, stop) of each episode with at least one step."""
    starts = np.flatnonzero(step_type == FIRST)
    bounds = np.unique([0, *starts, len(step_type)])
    return [(a, b) for a, b in zip(bounds[:-1], bounds[1:]) if b - a > 1]


def _make_episode(minari, rows, specs, names, number):
    """Makes an `EpisodeBuffer` of the arrays [n + 1, ...] of an episode of n steps."""
    observation, action = (
        tf.nest.pack_sequence_as(specs[name], [rows[leaf] for leaf in names[name]]) for name in specs
    )
    terminations = np.zeros(len(rows["reward"]) - 1, bool)
    truncations = terminations.copy()
    terminations[-1] = rows["step_type"][-1] == LAST and rows["discount"][-1] == 0.0
    truncations[-1] = not terminations[-1]
    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=observation,
        actions=tf.nest.map_structure(lambda x: x[:-1], action),
        rewards=rows["reward"][1:],
        terminations=terminations,
        truncations=truncations,
    )
