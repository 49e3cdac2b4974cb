# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Atari, EnvPool and MuJoCo: the contract, the settings, and the errors for missing packages."""

import importlib
import os
import sys

import gymnasium
import numpy as np
import pytest

from alf.data_structures import LAST
from alf.environments import GymnasiumEnvironment, PythonEnvironment, load, load_atari
from alf.errors import ConfigError
from alf.testing import EnvironmentContract, rollout
from tests.extras import NEEDS_ENVPOOL


class TestAtari(EnvironmentContract):
    num_steps = 60

    def make_env(self, seed):
        return load("ALE/Pong-v5", 2, seed=seed, max_episode_frames=120)


@NEEDS_ENVPOOL
class TestEnvPool(EnvironmentContract):
    def make_env(self, seed):
        return load("envpool:CartPole-v1", 3, seed=seed)


@NEEDS_ENVPOOL
def test_envpool_is_made_again_with_another_seed():
    def observe(seed, *others):
        env = load("envpool:CartPole-v1", 3, seed=seed)
        for other in others:
            env.seed(other)
        observation = env.reset().observation
        assert not np.array_equal(env.reset().observation, observation)  # seeded once
        env.close()
        return observation

    np.testing.assert_array_equal(observe(1, 2), observe(2))
    assert not np.array_equal(observe(1), observe(2))


@pytest.mark.parametrize(
    "name, key, per_step",
    [
        ("ALE/Pong-v5", "episode_frame_number", 4),
        pytest.param("envpool:CartPole-v1", "elapsed_step", 1, marks=NEEDS_ENVPOOL),
    ],
)
def test_info_of_native_environments(name, key, per_step):
    """The frames or steps of each episode, counted in C++."""
    env = load(name, 2, seed=0, info_keys=(key, "no"))
    env.reset()
    start = env.get_info()[key]
    for _ in range(3):
        env.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(env.get_info()[key], start + 3 * per_step)
    assert np.isnan(env.get_info()["no"]).all()
    env.close()


@NEEDS_ENVPOOL
class TestEnvPoolContinuous(EnvironmentContract):
    num_steps = 30

    def make_env(self, seed):
        return load("envpool:Pendulum-v1", 2, seed=seed, max_episode_steps=20)


class TestMuJoCo(EnvironmentContract):
    num_steps = 40

    def make_env(self, seed):
        return load("HalfCheetah-v5", 2, seed=seed, max_episode_steps=30, num_workers=0)


@pytest.mark.parametrize("name", ["Pong", "pong", "ALE/Pong-v5"])
def test_names_of_games(name):
    env = load_atari(name, 1)
    assert env.observation_spec().shape == (4, 84, 84) and env.observation_spec().dtype == np.uint8
    assert env.action_spec().maximum == 5
    env.close()


@pytest.mark.parametrize(
    "name, settings",
    [
        pytest.param("ALE/Pong-v5", {}, id="ALE"),
        pytest.param("ALE/Pong-v5", {"render_mode": "rgb_array"}, id="ALE, rendered"),
        pytest.param("envpool:CartPole-v1", {}, id="EnvPool", marks=NEEDS_ENVPOOL),
    ],
)
def test_closed_games_have_no_threads(name, settings):
    """Also while something refers to the environment. At the end of a program ale-py names what is left."""
    env = load(name, 4, **settings)
    env.reset()
    before = count_threads()
    env.close()
    assert count_threads() < before


def count_threads():
    """Counts the threads of this process, those of C++ among them."""
    return len(os.listdir("/proc/self/task"))


def test_settings_of_atari():
    env = load_atari("MsPacman", 2, screen_size=42, num_stack=2, full_action_space=True)
    assert env.observation_spec().shape == (2, 42, 42)
    assert env.action_spec().maximum == 17
    env.close()


def play_pong(actions, **settings):
    """Plays a game for each action, which it repeats in all steps; returns the observations, [T, B, ...]."""
    env = load_atari("Pong", len(actions), seed=0, num_stack=1, **settings)
    steps = [env.reset(), *(env.step(np.array(actions)) for _ in range(20))]
    env.close()
    return np.stack([t.observation for t in steps])


def test_colours_of_atari_are_the_channels_of_one_image():
    screens = play_pong([2, 3], grayscale=False)
    assert screens.shape == (21, 2, 84, 84, 3) and screens.dtype == np.uint8
    gray = play_pong([2, 3])[:, :, 0]
    # Where something moves, the brighter one of two frames is chosen for each colour, or for the gray.
    assert np.abs(screens @ np.array([0.299, 0.587, 0.114]) - gray).mean() < 1
    assert (screens.max(axis=-1) > screens.min(axis=-1) + 50).any()

    env = load_atari("Pong", 1, seed=0, grayscale=False, num_stack=3)
    frames = [env.reset(), *(env.step([2]) for _ in range(3))]
    env.close()
    assert env.observation_spec().shape == (84, 84, 9) and env.observation_spec().dtype == np.uint8
    for before, after in zip(frames, frames[1:]):  # the newest frame is the last one
        np.testing.assert_array_equal(before.observation[..., 3:], after.observation[..., :6])
    assert (frames[-1].observation[..., 6:] != frames[-1].observation[..., 3:6]).any()


def test_sticky_actions_repeat_the_action_before():
    """With probability 1 no action but the first no-op is ever taken."""
    sticky, free = (play_pong([0, 2], sticky_actions=p, noop_max=1) for p in (1.0, 0.0))
    np.testing.assert_array_equal(sticky[:, 0], sticky[:, 1])
    assert (free[:, 0] != free[:, 1]).any()


def test_no_ops_part_the_games():
    first, parted = (play_pong([0] * 3, noop_max=noop_max)[-1] for noop_max in (1, 30))
    assert (first == first[0]).all()
    assert (parted != parted[0]).any()


def test_rewards_of_atari_are_the_games_own():
    env = load_atari("MsPacman", 2, seed=0)
    rewards = np.stack([t.reward for t in rollout(env, 100)])
    env.close()
    assert rewards.max() >= 10


@pytest.mark.parametrize("frame_skip", [2, 4])
def test_a_time_limit_of_atari_is_a_truncation(frame_skip):
    env = load_atari("Pong", 1, seed=0, max_episode_frames=40, frame_skip=frame_skip, noop_max=1)
    steps = rollout(env, 24)
    env.close()
    first_end = next(i for i, t in enumerate(steps) if (t.step_type == LAST).any())
    assert 40 / frame_skip - 2 <= first_end <= 40 / frame_skip  # no-ops are frames of the episode, too
    ends = [t for t in steps if (t.step_type == LAST).any()]
    assert all((t.discount[t.step_type == LAST] == 1).all() for t in ends)


@pytest.mark.parametrize(
    "name, module, function",
    [
        ("ALE/Pong-v5", "ale_py.vector_env", "AtariVectorEnv"),
        pytest.param("envpool:CartPole-v1", "envpool", "make", marks=NEEDS_ENVPOOL),
    ],
)
def test_the_number_of_threads_reaches_the_suite(monkeypatch, name, module, function):
    """The suites do not say how many threads they have, and those of closed environments end later."""
    suite = importlib.import_module(module)
    make, asked = getattr(suite, function), []

    def record(*args, num_threads, **kwargs):
        asked.append(num_threads)
        return make(*args, num_threads=num_threads, **kwargs)

    monkeypatch.setattr(suite, function, record)
    for num_threads in (0, 3):
        load(name, 2, num_threads=num_threads).close()
    assert asked == [0, 3]


def test_a_lost_life_ends_an_episode_if_one_asks_for_it():
    def num_ends(episodic_life):
        env = load_atari("Breakout", 2, seed=0, episodic_life=episodic_life)
        steps = rollout(env, 200)
        env.close()
        ends = np.stack([t.step_type == LAST for t in steps])
        assert (np.stack([t.discount for t in steps])[ends] == 0).all()
        return ends.sum()

    assert num_ends(True) > 2 * num_ends(False)


def test_mujoco_steps_in_workers():
    env = load("HalfCheetah-v5", 2)
    assert isinstance(env, PythonEnvironment)
    env.close()
    env = load("ALE/Pong-v5", 1)
    assert isinstance(env, GymnasiumEnvironment)
    env.close()


def no_mujoco():
    raise gymnasium.error.DependencyNotInstalled("MuJoCo is not installed")


def test_missing_mujoco_is_said_with_its_extra(monkeypatch):
    monkeypatch.setattr(
        gymnasium.spec("HalfCheetah-v5"), "entry_point", "gymnasium.envs.mujoco.no_such_module:Env"
    )
    monkeypatch.setattr(gymnasium, "make", lambda *args, **kwargs: no_mujoco())
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ConfigError, match=r'pip install "alf-tf\[mujoco\]"'):
        load("HalfCheetah-v5", 1, num_workers=0)


@pytest.mark.parametrize(
    "name, settings, message",
    [
        ("ALE/Pongg-v5", {}, "no Atari game 'ALE/Pongg-v5'"),
        pytest.param(
            "envpool:CartPol-v1",
            {},
            "EnvPool has no 'CartPol-v1'. Close matches: .*CartPole-v1",
            marks=NEEDS_ENVPOOL,
        ),
        ("ALE/Pong-v5", {"num_workers": 2}, "num_workers does not apply to 'ALE/Pong-v5'"),
        ("ALE/Pong-v5", {"max_episode_steps": 2}, "set max_episode_frames"),
        ("ALE/Pong-v5", {"frame_skip": 0}, "load_atari.frame_skip is 0"),
        ("ALE/Pong-v5", {"noop_max": -1}, "load_atari.noop_max is -1"),
        ("ALE/Pong-v5", {"num_threads": -1}, "load_atari.num_threads is -1"),
        ("ALE/Pong-v5", {"grayscale": "no"}, "load_atari.grayscale is 'no'"),
        ("ALE/Pong-v5", {"episodic_life": 3}, "load_atari.episodic_life is 3"),
        ("ALE/Pong-v5", {"full_action_space": None}, "load_atari.full_action_space is None"),
        ("ALE/Pong-v5", {"sticky_actions": 2.0}, "load_atari.sticky_actions is 2.0"),
        pytest.param(
            "envpool:Pong-v5",
            {"num_threads": -1},
            "load_envpool.num_threads is -1",
            marks=NEEDS_ENVPOOL,
        ),
    ],
)
def test_what_is_wrong_is_named(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        load(name, 1, **settings)
