# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Atari, EnvPool and MuJoCo: the contract, the settings, and the errors for missing packages."""

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
        return load("HalfCheetah-v5", 2, seed=seed, max_episode_steps=30, num_workers=1)


@pytest.mark.parametrize("name", ["Pong", "pong", "ALE/Pong-v5"])
def test_names_of_games(name):
    env = load_atari(name, 1)
    assert env.observation_spec().shape == (4, 84, 84) and env.observation_spec().dtype == np.uint8
    assert env.action_spec().maximum == 5
    env.close()


def test_settings_of_atari():
    env = load_atari("MsPacman", 2, screen_size=42, num_stack=2, full_action_space=True)
    assert env.observation_spec().shape == (2, 42, 42)
    assert env.action_spec().maximum == 17
    env.close()


def test_rewards_of_atari_are_the_games_own():
    env = load_atari("MsPacman", 4, seed=0)
    rewards = np.stack([t.reward for t in rollout(env, 100)])
    env.close()
    assert rewards.max() >= 10


def test_a_time_limit_of_atari_is_a_truncation():
    env = load_atari("Pong", 2, seed=0, max_episode_frames=40, noop_max=1)
    steps = rollout(env, 12)
    env.close()
    ends = [t for t in steps if (t.step_type == LAST).any()]
    assert ends and all((t.discount[t.step_type == LAST] == 1).all() for t in ends)


def test_a_lost_life_ends_an_episode_if_one_asks_for_it():
    def num_ends(episodic_life):
        env = load_atari("Breakout", 4, seed=0, episodic_life=episodic_life)
        steps = rollout(env, 300)
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


@pytest.mark.parametrize(
    "name, module, extra",
    [
        ("ALE/Pong-v5", "ale_py.vector_env", "atari"),
        ("envpool:CartPole-v1", "envpool", "envpool"),
    ],
)
def test_a_missing_package_is_said_with_its_extra(monkeypatch, name, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf'pip install "alf-tf\[{extra}\]"'):
        load(name, 1)


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
    ],
)
def test_what_is_wrong_is_named(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        load(name, 1, **settings)
