# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs in folders with any name, and environments that change the current directory."""

import os

import gymnasium
import numpy as np
import pytest

import alf
from alf.errors import ConfigError

SMALL = {
    "num_envs": 2,
    "num_groups": 1,
    "unroll_length": 8,
    "num_minibatches": 1,
    "recurrence": 8,
    "seed": 0,
    "num_workers": 0,
}


class Short(gymnasium.Env):
    """Its episodes have one step."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    num_made = 0

    def __init__(self):
        type(self).num_made += 1

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), float(action), True, False, {}


def weights_of(agent):
    return [x.numpy() for x in agent.policy.trainable_variables]


@pytest.mark.parametrize("name", ["lr=[1e-3]/a[1]", "what?*\\", "\u00e9 {a,b} $HOME ~"])
def test_a_run_in_a_folder_with_any_name(tmp_path, name):
    root = tmp_path / name
    agent, _ = alf.train(Short, steps=64, root_dir=root, **SMALL)
    np.testing.assert_equal(weights_of(alf.load_agent(root)), weights_of(agent))
    agent, run = alf.train(Short, steps=128, root_dir=root, **SMALL)
    assert run.restored and run.counters["env_steps"] >= 128
    np.testing.assert_equal(weights_of(alf.load_agent(root)), weights_of(agent))
    # Another run begins with its weights, and none is learned.
    other, _ = alf.train(
        Short,
        steps=16,
        root_dir=tmp_path / "other",
        initial_checkpoint=str(root),
        learning_rate=1e-30,
        **SMALL,
    )
    for found, expected in zip(weights_of(other), weights_of(agent), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert run.root_dir == str(root) and os.listdir(root / "train")


@pytest.mark.parametrize("root_dir", [os.fsdecode(b"a\xff"), os.fsdecode(b"a\xff/b")])
def test_a_name_that_is_not_utf_8_is_refused_before_an_environment_is_made(tmp_path, monkeypatch, root_dir):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Short, "num_made", 0)
    with pytest.raises(ConfigError, match="^the path .* is not UTF-8: choose another one$"):
        alf.train(Short, steps=64, root_dir=root_dir, **SMALL)
    assert Short.num_made == 0 and os.listdir(tmp_path) == []


class Moves(Short):
    """Changes the current directory whenever it can."""

    target = ""

    def __init__(self):
        super().__init__()
        os.chdir(self.target)

    def step(self, action):
        os.chdir(self.target)
        return super().step(action)


@pytest.mark.parametrize("root_dir", ["run", None])
def test_relative_paths_begin_where_the_program_was_started(tmp_path, monkeypatch, root_dir):
    start, other = tmp_path / "start", tmp_path / "other"
    start.mkdir()
    other.mkdir()
    monkeypatch.chdir(start)
    monkeypatch.setattr(Moves, "target", str(other))
    alf.train(Short, steps=64, root_dir="first", algorithm="ppo", **SMALL)
    settings = {"initial_checkpoint": "first", **SMALL}
    _, run = alf.train(Moves, steps=64, root_dir=root_dir, algorithm="ppo", **settings)
    assert os.path.dirname(run.root_dir) == str(start if root_dir else start / "runs")
    assert os.path.exists(os.path.join(run.root_dir, "done.json")) and os.listdir(other) == []
