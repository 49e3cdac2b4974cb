# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replayers that are made from files."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import NO_VERSION, PolicyState
from alf.errors import ConfigError
from alf.replay import (
    Sequences,
    UniformReplayer,
    buffer_replayer,
    find_files,
    load_replayer,
)
from alf.testing.fakes import assert_equal_nests
from tests.replay.buffers import change_header, everything
from tests.replay.streams import Streams

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_an_offline_buffer_needs_nothing_but_the_file(path):
    streams = Streams(recurrent=True, num_groups=3)
    bounds = BoundedTensorSpec(streams.unroll_spec.action.shape, tf.int64, 0, 99, "action")
    spec = streams.unroll_spec._replace(action=bounds)
    replayer = UniformReplayer(spec, 3, capacity=10_000)
    replayer.observe(streams.next_unrolls([0, 0, 0, 2, 1]))
    replayer.save(path)
    offline = load_replayer(path, context=2)
    assert offline.num_steps() == replayer.num_steps()
    for (rows, states), (expected, expected_states) in zip(everything(offline), everything(replayer)):
        versions = np.full_like(expected.policy_version, NO_VERSION)  # they counted another run's updates
        assert_equal_nests(rows, expected._replace(policy_version=versions))
        assert_equal_nests(states, expected_states)
    assert offline.row_spec.observation == {
        "image": tf.TensorSpec((2, 3), tf.uint8),
        "flags": (tf.TensorSpec((2,), tf.bool),),
    }
    assert (offline.row_spec.action.minimum, offline.row_spec.action.maximum) == (0, 99)
    assert offline.row_spec.info == {"logits": tf.TensorSpec((3,), tf.float32)}
    assert isinstance(offline.row_spec.state, PolicyState)
    experience, *_ = offline.sample(4, 3, None)
    assert experience.reward.shape == (2 + 3 + 1, 4)
    with pytest.raises(ConfigError, match="context is -1"):
        load_replayer(path, context=-1)


def save_streams(path, envs, **kwargs):
    """Saves a buffer of the next unrolls of these environments; returns the steps of each environment."""
    streams = Streams(**kwargs)
    replayer = UniformReplayer(streams.unroll_spec, streams.num_groups, capacity=10_000)
    replayer.observe(streams.next_unrolls(envs))
    replayer.save(str(path))
    return streams.steps


def columns(path):
    """Rewards, recurrent states and their begins of each sub-environment in a file, in order."""
    with np.load(path) as file:
        for env in range(len(file["begin"])):
            rows = slice(file["begin"][env], file["end"][env])
            states = (
                slice(file["state_begin"][env], file["state_end"][env]) if "state_begin" in file else None
            )
            for column in range(file["reward"].shape[1]):
                reward = file["reward"][rows, column]
                yield reward, None if states is None else file["state/h"][states, column]


@pytest.mark.parametrize(
    "length, recurrent, batch_sizes",  # every two of them meet in all their values
    [
        (None, False, (2, 2)),
        (None, True, (2, 3)),
        (6, False, (2, 3)),
        (6, True, (2, 2)),
        (4, False, (2, 2)),
        (4, True, (2, 3)),
    ],
)
def test_several_files_become_one_buffer(tmp_path, length, recurrent, batch_sizes):
    paths = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
    kwargs = dict(recurrent=recurrent)
    save_streams(paths[0], [0, 0, 0, 1], batch_size=batch_sizes[0], num_groups=2, **kwargs)
    save_streams(paths[1], [0, 2, 2, 1], batch_size=batch_sizes[1], num_groups=3, seed=1, **kwargs)
    replayer = load_replayer(paths, length=length)
    assert replayer.max_steps == (length or 9)
    num_columns = 2 * batch_sizes[0] + 3 * batch_sizes[1]
    assert replayer.num_groups * replayer.batch_size == num_columns
    expected = [column for path in paths for column in columns(path)]
    total = 0
    for i, (reward, states) in enumerate(expected):
        env, column = divmod(i, replayer.batch_size)
        first, last = int(replayer.oldest()[env]), int(replayer.steps[env])
        kept = reward[-(length or 9) - 1 :]
        assert last - first == len(kept) - 1
        at = Sequences(*(tf.constant([x], tf.int64) for x in (env, column, first)))
        rows = replayer.read(at, 0, last - first)
        np.testing.assert_array_equal(rows.reward[:, 0], kept)
        np.testing.assert_array_equal(rows.env_id, np.full_like(rows.env_id, i))
        total += last - first
        if recurrent and last - first >= 3:  # the state that entered the newest unroll
            at = at._replace(start=tf.constant([last - 3], tf.int64))
            np.testing.assert_array_equal(replayer.read(at, 0, 0).state.train["h"][0], states[-1])
    assert replayer.num_steps() == total
    drawn, sequences, _ = replayer.sample(300, 3, None)
    assert {int(x) for x in drawn.env_id[0]} == set(range(num_columns))


def test_one_file_beside_others_of_another_unroll_length(tmp_path):
    paths = [str(tmp_path / name) for name in ("a.npz", "b.npz")]
    save_streams(paths[0], [0, 1])
    save_streams(paths[1], [0, 1], unroll_length=7)
    assert load_replayer(paths).num_steps() == 2 * 2 * (3 + 7)
    for path, unroll_length in zip(paths, (3, 7)):
        save_streams(path, [0, 1], unroll_length=unroll_length, recurrent=True)
    with pytest.raises(
        ConfigError, match=r"b.npz' has other .*unroll_length is 7 in the file, 3 in '.*a.npz"
    ):
        load_replayer(paths)
    with pytest.raises(ConfigError, match="offline_buffer_length is 2: it must be at least 3, one unroll"):
        load_replayer(paths[0], length=2)


def test_a_file_of_other_specs_is_named(tmp_path):
    paths = [str(tmp_path / f"{i}.npz") for i in range(3)]
    for path in paths:
        save_streams(path, [0])
    with np.load(paths[1]) as file:
        row_spec = json.loads(file["header"].item())["row_spec"]
    change_header(paths[1], row_spec=json.loads(json.dumps(row_spec).replace('"uint8"', '"int16"')))
    with pytest.raises(ConfigError) as error:
        load_replayer(paths)
    assert str(error.value) == (
        f"the replay buffer {paths[1]!r} has other specs: observation/image is int16 (2, 3) in the file, "
        f"uint8 (2, 3) in {paths[0]!r}"
    )
    with pytest.raises(ConfigError, match="no_file.npz"):
        load_replayer([paths[0], "no_file.npz"])
    os.truncate(paths[2], 500)
    with pytest.raises(ConfigError, match="2.npz"):
        load_replayer([paths[0], paths[2]])


def test_memory_for_files_is_allocated_once(tmp_path, monkeypatch):
    paths = [str(tmp_path / f"{i}.npz") for i in range(3)]
    for path in paths:
        save_streams(path, [0, 1, 1])
    sizes, allocate = [], buffer_replayer.allocate
    monkeypatch.setattr(
        buffer_replayer,
        "allocate",
        lambda setting, size, spec: sizes.append(size) or allocate(setting, size, spec),
    )
    load_replayer(paths)
    assert sizes == [3 * 2 * 2 * (6 + 1), 3 * 2 * 2 * 6]  # time steps; states, of which there are none here
    monkeypatch.setattr(os, "sysconf", lambda name: 10)
    with pytest.raises(
        ConfigError, match="offline buffer is too large, Experiment.offline_buffer_length can.* GB"
    ):
        load_replayer(paths)


def test_which_files_a_setting_names(tmp_path):
    for name in ("b/x.npz", "a/x.npz", "a/y[1].npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    a, b, odd = (str(tmp_path / name) for name in ("a/x.npz", "b/x.npz", "a/y[1].npz"))
    every = str(tmp_path / "*" / "x.npz")
    assert find_files(every) == find_files([every, b]) == find_files((a, b)) == [a, b]
    assert find_files([b, every]) == [b, a]
    assert find_files(odd) == [odd]
    for missing in ("nothing", "nothing*"):
        with pytest.raises(ConfigError, match="Experiment.offline_buffer: there is no file '.*nothing.*'"):
            find_files([a, str(tmp_path / missing)])
    with pytest.raises(ConfigError, match=r"Experiment.offline_buffer is \[\]: it must name files"):
        find_files([])
