# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Frames of environments: of Gymnasium's, Atari's, EnvPool's and one's own."""

import threading

import gymnasium
import numpy as np
import pytest
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from alf.environments import (
    GymnasiumEnvironment,
    PythonEnvironment,
    load,
    load_atari,
    load_envpool,
    load_pettingzoo,
)
from alf.errors import ConfigError
from alf.testing.environment_contract import sample_action
from alf.testing.toy_environments import NullEnvironment
from tests.extras import NEEDS_ENVPOOL
from tests.workers.envs import DrawEnv, DrawModeEnv


def frames_of(env, num_steps, num_resets=1):
    """Returns the frames of resets, each with random steps after it, and the time steps."""
    rng, time_steps, frames = np.random.RandomState(0), [], []
    for _ in range(num_resets):
        time_steps.append(env.reset())
        frames.append(env.render())
        for _ in range(num_steps):
            time_steps.append(env.step(sample_action(env, rng)))
            frames.append(env.render())
    env.close()
    return frames, time_steps


@pytest.mark.parametrize(
    "name, shape, fps, settings",
    [
        ("CartPole-v1", (400, 600, 3), 50, {"num_workers": 2}),
        ("Pendulum-v1", (500, 500, 3), 30, {}),
        ("ALE/Pong-v5", (210, 160, 3), 15, {}),
        ("ALE/Pong-v5", (210, 160, 3), 30, {"frame_skip": 2}),
        pytest.param("envpool:Pong-v5", (210, 160, 3), 30, {}, marks=NEEDS_ENVPOOL),
    ],
)
def test_frames_of_an_id(name, shape, fps, settings):
    env = load(name, 2, seed=1, render_mode="rgb_array", **settings)
    assert env.render_fps == fps
    frames, _ = frames_of(env, 10)
    assert all(frame.shape == shape and frame.dtype == np.uint8 for frame in frames)
    assert any((a != b).any() for a, b in zip(frames, frames[1:]))


def to_gray(frame, size=84):
    """Makes a frame gray and smaller, by the mean over areas: first of rows, then of columns."""
    gray = 0.299 * frame[..., 0] + 0.587 * frame[..., 1] + 0.114 * frame[..., 2]
    for _ in range(2):
        height = len(gray)
        fine = np.repeat(gray, size // np.gcd(size, height), axis=0)
        gray = fine.reshape(size, -1, gray.shape[1]).mean(axis=1).T
    return gray


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sticky_actions": 0.25},
        {"episodic_life": True, "frame_skip": 3, "full_action_space": True},
        {"seed": None},
    ],
)
def test_frames_of_atari_are_those_of_the_observations(settings):
    """Also over the ends of episodes and resets, and for more than one game."""
    settings = {"seed": 5, **settings}
    env = load_atari("Breakout", 2, max_episode_frames=120, num_stack=2, render_mode="rgb_array", **settings)
    frames, time_steps = frames_of(env, 80, num_resets=2)
    assert sum(t.step_type[0] == ts.StepType.LAST for t in time_steps) >= 2
    observations = np.stack([t.observation[0, -1] for t in time_steps]).astype(float)
    ours = np.stack([to_gray(frame) for frame in frames])
    difference = np.abs(ours - observations).mean(axis=(1, 2))
    assert difference.max() < 1.5
    # The measure would see it if they were out of step.
    assert np.abs(ours[1:] - observations[:-1]).mean(axis=(1, 2)).max() > 3 * difference.max()


def test_without_a_render_mode_atari_has_no_second_games():
    env = load_atari("Pong", 1)
    assert type(env.gymnasium_env).__name__ == "AtariVectorEnv"
    env.close()


DRAWS = """
import sys
import gymnasium, numpy as np

class Draws(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def render(self):
        return np.full((1, 1, 3), "tensorflow" in sys.modules, np.uint8)
"""


class MinePy(py_environment.PyEnvironment):
    def __init__(self):
        super().__init__()
        self._env = DrawEnv()

    def observation_spec(self):
        return array_spec.ArraySpec((1,), np.float32)

    def action_spec(self):
        return array_spec.BoundedArraySpec((), np.int64, 0, 1)

    def _reset(self):
        return ts.restart(self._env.reset()[0])

    def _step(self, action):
        observation, reward, ends, _, _ = self._env.step(action)
        return ts.termination(observation, reward) if ends else ts.transition(observation, reward)

    def render(self, mode="rgb_array"):
        return self._env.render()


@pytest.mark.parametrize("env_class, fps", [(DrawEnv, 30), (DrawModeEnv, 7), (MinePy, 30)])
def test_frames_of_an_own_environment(env_class, fps):
    if env_class is MinePy:  # A worker would import TensorFlow.
        env_class = stay_here(MinePy)
    env = load(env_class, 2, num_workers=1, render_mode="rgb_array")
    assert isinstance(env, PythonEnvironment) and env.render_fps == fps
    frames, _ = frames_of(env, 6)
    assert [frame.max() for frame in frames] == [0, 1, 2, 3, 4, 0, 1]


def stay_here(env_class):
    """A class that cloudpickle cannot pickle, which keeps it in this process."""
    return type("Sub", (env_class,), {"lock": threading.Lock()})


@pytest.fixture
def register():
    """Registers a constructor, or its name; returns the id."""
    yield lambda constructor: gymnasium.register("AlfRender-v0", constructor) or "AlfRender-v0"
    del gymnasium.registry["AlfRender-v0"]


class WithSettings(DrawEnv):
    def __init__(self, **settings):
        self.settings = settings

    def render(self):
        assert self.settings == {"render_mode": "rgb_array"}
        return np.full((2, 3, 3), 9, np.uint8)


@pytest.mark.parametrize("env_class, expected", [(DrawEnv, [0, 1, 2]), (WithSettings, [9, 9, 9])])
def test_an_own_environment_that_is_registered(env_class, expected, register):
    frames, _ = frames_of(load(register(stay_here(env_class)), 1, render_mode="rgb_array"), 2)
    assert [frame.max() for frame in frames] == expected


def test_a_vector_environment():
    env = gymnasium.make_vec("CartPole-v1", 3, "vector_entry_point", render_mode="rgb_array")
    frames, _ = frames_of(GymnasiumEnvironment(env), 2)
    assert frames[0].shape == (400, 600, 3)


def test_graphics_libraries_of_an_id_are_not_beside_tensorflow(tmp_path, monkeypatch, register):
    (tmp_path / "draws_env.py").write_text(DRAWS)
    monkeypatch.syspath_prepend(tmp_path)
    env = load(register("draws_env:Draws"), 1, num_workers=0, render_mode="rgb_array")
    frames, _ = frames_of(env, 0)
    assert not frames[0].any()


def test_what_cannot_be_sent_to_a_worker_is_rendered_here(register):
    lock = threading.Lock()

    def make():
        assert lock
        return DrawEnv()

    frames, _ = frames_of(load(register(make), 1, render_mode="rgb_array"), 2)
    assert [frame.max() for frame in frames] == [0, 1, 2]


WRONG = [
    *(
        (load, name, mode)
        for name in ["CartPole-v1", "ALE/Pong-v5", "no such id"]
        for mode in ["human", True]
    ),
    (load_atari, "Pong", "human"),
    (load_pettingzoo, "mpe2.simple_spread_v3", "human"),
]


def test_a_wrong_render_mode(subtests):
    for function, name, mode in WRONG:
        message = rf"{function.__name__}\.render_mode is {mode!r}: it must be 'rgb_array', or"
        with subtests.test(f"{message} {name}"), pytest.raises(ConfigError, match=message):
            function(name, 1, render_mode=mode)


def load_half_cheetah():
    load("envpool:HalfCheetah-v4", 1, render_mode="rgb_array")


UNRENDERED = [
    pytest.param(
        lambda: load_envpool("CartPole-v1", 1, render_mode="human"),
        ConfigError,
        r"load_envpool\.render_mode is 'human'",
        marks=NEEDS_ENVPOOL,
    ),
    pytest.param(
        load_half_cheetah,
        ConfigError,
        "EnvPool cannot render 'HalfCheetah-v4'.* Gymnasium's",
        marks=NEEDS_ENVPOOL,
    ),
    (NullEnvironment(1).render, NotImplementedError, "NullEnvironment has no rendering"),
    (lambda: NullEnvironment(1).render("human"), NotImplementedError, "the mode 'human' is not supported"),
]


@pytest.mark.parametrize("render, error, message", UNRENDERED)
def test_what_cannot_be_rendered(render, error, message):
    with pytest.raises(error, match=message):
        render()
