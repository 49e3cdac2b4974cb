# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data sets of Minari as replay buffers, and back. Each test makes its own; nothing is downloaded."""

import functools
import shutil

import gin
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from alf.drivers import SyncOffPolicyDriver
from alf.environments import load
from alf.errors import ConfigError
from alf.replay import find_files, from_minari, load_replayer, to_minari
from alf.runs.experiment import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_trainer, driver_of
from tests.extras import NEEDS_MINARI

NESTED = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (40, 40, 3), np.uint8),
        "board": spaces.Box(0, 1, (2, 2), np.bool_),
        "rest": spaces.Tuple([spaces.Discrete(3, start=1), spaces.Box(-np.inf, np.inf, (2,), np.float64)]),
    }
)
VECTOR = spaces.Box(-1, 1, (3,))
TORQUE = spaces.Box(-2, 2, (1,))
# Episodes of 3, 1 and 4 steps; the third one has no end.
LENGTHS, ENDS = (3, 1, 4), ("terminations", "truncations", None)


def make_data_set(dataset_id, observation_space=VECTOR, action_space=TORQUE, seed=0):
    """Makes a data set of random episodes; returns them, a list of `EpisodeBuffer`."""
    import minari

    observation_space.seed(seed)
    action_space.seed(seed)
    episodes = []
    for number, (length, end) in enumerate(zip(LENGTHS, ENDS, strict=True)):
        flags = {name: np.zeros(length, bool) for name in ("terminations", "truncations")}
        if end is not None:
            flags[end][-1] = True
        episodes.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=stack([observation_space.sample() for _ in range(length + 1)]),
                actions=stack([action_space.sample() for _ in range(length)]),
                rewards=np.random.default_rng(seed + number).standard_normal(length),
                **flags,
            )
        )
    all_spaces = {"observation_space": observation_space, "action_space": action_space}
    minari.create_dataset_from_buffers(dataset_id, episodes, **all_spaces, jpeg_encoding=False)
    return episodes


def stack(samples):
    """The samples of a space, a list, as one nest of arrays."""
    first = samples[0]
    if isinstance(first, dict):
        return {key: stack([x[key] for x in samples]) for key in first}
    if isinstance(first, tuple):
        return tuple(stack([x[i] for x in samples]) for i in range(len(first)))
    return np.stack(samples)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path


pytestmark = pytest.mark.filterwarnings("ignore:`(code_permalink|author|algorithm_name|description|eval_env)")


@NEEDS_MINARI
def test_the_file_has_the_time_steps_of_the_episodes(folder):
    episodes = make_data_set("mine/nested-v0", NESTED, spaces.MultiDiscrete([2, 3]))
    from_minari("mine/nested-v0", str(folder / "file.npz"))
    with np.load(folder / "file.npz") as file:
        rows = {name: x[:, 0] for name, x in file.items() if x.ndim > 1}
        assert (file["begin"].tolist(), file["end"].tolist()) == ([0], [11])
    assert rows["step_type"].tolist() == [0, 1, 1, 2, 0, 2, 0, 1, 1, 1, 2]
    # Only a termination ends with a discount of 0; an episode without end counts as truncated.
    assert rows["discount"].tolist() == [1, 1, 1, 0, *[1] * 7]
    begin = 0
    for length, episode in zip(LENGTHS, episodes, strict=True):
        part = slice(begin, begin + length + 1)
        np.testing.assert_array_equal(rows["reward"][part], [0, *episode.rewards.astype(np.float32)])
        np.testing.assert_array_equal(rows["action"][part][:-1], episode.actions)
        np.testing.assert_array_equal(rows["prev_action"][part][1:], episode.actions)
        assert not rows["prev_action"][begin].any()
        observed = episode.observations
        for name, x in (
            ("image", observed["image"]),
            ("board", observed["board"]),
            ("rest/0", observed["rest"][0]),
            ("rest/1", observed["rest"][1]),
        ):
            np.testing.assert_array_equal(rows[f"observation/{name}"][part], x)
        begin += length + 1
    assert rows["observation/board"].dtype == np.uint8


@NEEDS_MINARI
def test_a_data_set_and_its_file_are_the_same(folder):
    """Also where the environments of a buffer are batches, and where it begins or ends within an episode."""
    import minari

    episodes = make_data_set("mine/nested-v0", NESTED, spaces.Discrete(4, start=-1))
    from_minari("mine/nested-v0", str(folder / "file.npz"))
    # Two columns; the first time step of both, and the last one, are gone.
    with np.load(folder / "file.npz") as file:
        arrays = {name: np.concatenate([x, x], 1) if x.ndim > 1 else x for name, x in file.items()}
    arrays["header"] = np.array(str(arrays["header"]).replace('"batch_size": 1', '"batch_size": 2'))
    np.savez(folder / "file.npz", **{**arrays, "begin": np.int64([1]), "end": np.int64([10])})
    made = to_minari(str(folder / "file.npz"), "mine/again-v0", author="me")
    assert made.spec.observation_space == spaces.Dict(
        {**NESTED.spaces, "board": spaces.Box(0, 1, (2, 2), np.uint8)}
    )
    assert made.spec.action_space == spaces.Discrete(4, start=-1)
    found = list(minari.load_dataset("mine/again-v0"))
    parts = (slice(1, 4), slice(0, 2), slice(0, 4)) * 2
    assert len(found) == 6
    for new, old, part in zip(found, episodes * 2, parts, strict=True):
        steps = slice(part.start, part.stop - 1)
        tf.nest.map_structure(np.testing.assert_array_equal, new.observations, cut(old.observations, part))
        np.testing.assert_array_equal(new.actions, old.actions[steps])
        np.testing.assert_allclose(new.rewards, old.rewards[steps], rtol=1e-6)
        np.testing.assert_array_equal(new.terminations, old.terminations[steps])
        assert new.truncations.tolist() == [*[False] * (len(new) - 1), not old.terminations[-1]]


@NEEDS_MINARI
def test_integers_without_bounds_get_those_of_their_type(folder):
    """Environments of TF-Agents may have such observations."""
    space = spaces.Box(0, 255, (2,), np.uint8)
    make_data_set("mine/bytes-v0", space)
    from_minari("mine/bytes-v0", str(folder / "file.npz"))
    with np.load(folder / "file.npz") as file:
        arrays = dict(file.items())
    header, bounds = str(arrays["header"]), ', "minimum": 0, "maximum": 255'
    assert bounds in header
    np.savez(folder / "file.npz", **{**arrays, "header": np.array(header.replace(bounds, ""))})
    assert to_minari(str(folder / "file.npz"), "mine/again-v0").spec.observation_space == space


def cut(nest, part):
    return tf.nest.map_structure(lambda x: x[part], nest)


@NEEDS_MINARI
@pytest.mark.parametrize("num_groups", [0, 1])
def test_a_run_learns_from_a_data_set(folder, num_groups):
    make_data_set("mine/torque-v0")  # as of Pendulum-v1
    gin.parse_config(f"""
        Experiment.num_groups = 1
        Experiment.num_envs = {None if num_groups else 0}
        Experiment.offline_buffer = "minari:mine/torque-v0"
        Experiment.policy = @SacPolicy
        Experiment.algorithm = @SacAlgorithm
        Experiment.exp_replayer = "uniform"
        ReplayLearner.mini_batch_size = 4
        ReplayLearner.optimizer = @Adam()
    """)
    env = functools.partial(load, "Pendulum-v1", 1, num_workers=0)
    driver = driver_of(Experiment(env=env, driver=SyncOffPolicyDriver))
    trainer = build_trainer(str(folder / "run"), driver, functools.partial(StopCriteria, num_iterations=2))
    assert trainer.train() == (True, "num_iterations=2 reached")
    assert int(driver.learner.progress.updates) == 2
    replayer = driver.learner.replayer
    offline = replayer.offline if num_groups else replayer
    assert offline.num_steps() == sum(LENGTHS) + len(LENGTHS) - 1


@NEEDS_MINARI
def test_it_is_one_of_several_files(folder):
    make_data_set("a-v0")
    make_data_set("b-v0", seed=3)
    from_minari("b-v0", str(folder / "b.npz"))
    files = find_files(["minari:a-v0", str(folder / "b.npz")])
    assert files[1] == str(folder / "b.npz") and load_replayer(files).num_steps() == 2 * (sum(LENGTHS) + 2)
    # It is read once, and again if it has changed.
    assert find_files("minari:a-v0") == files[:1]
    shutil.rmtree(folder / "minari" / "a-v0")
    make_data_set("a-v0", seed=5)
    (changed,) = find_files("minari:a-v0")
    assert not np.array_equal(np.load(changed)["reward"], np.load(files[0])["reward"])


@NEEDS_MINARI
@pytest.mark.parametrize(
    "space, change, message",
    [
        (spaces.Dict(a=spaces.Text(3)), {}, "the observation space's 'a' is Text: supported are"),
        (VECTOR, {"rewards": np.zeros(2)}, "the data set 'wrong-v0': the observation is an array of shape"),
    ],
)
def test_a_data_set_that_does_not_fit(folder, monkeypatch, space, change, message):
    import minari

    class DataSet:
        observation_space, action_space, total_steps, total_episodes = space, TORQUE, 3, 1

        def iterate_episodes(self):
            episode = minari.EpisodeData(
                0, np.zeros((4, 3)), np.zeros((3, 1)), np.zeros(3), [0] * 3, [0] * 3, {}
            )
            for name, value in change.items():
                object.__setattr__(episode, name, value)
            return [episode]

    monkeypatch.setattr(minari, "load_dataset", lambda dataset_id: DataSet())
    with pytest.raises(ConfigError, match=message):
        from_minari("wrong-v0", str(folder / "file.npz"))
    assert not (folder / "file.npz").exists()


@NEEDS_MINARI
def test_a_data_set_that_is_not_there():
    message = "the data set 'D4RL/door/human-v2' is not on this machine: minari download D4RL/door/human-v2$"
    with pytest.raises(ConfigError, match=message):
        find_files("minari:D4RL/door/human-v2")
