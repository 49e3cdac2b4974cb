# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.hybrid_training: its demonstrations, its three ways to train, the figures it prints."""

import functools

import numpy as np
import pytest

from alf.data_structures import FIRST
from alf.learner import LearnerSettings
from tests.benchmarks.conftest import import_program

pytestmark = pytest.mark.programs

hybrid = import_program("benchmarks.hybrid_training")


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("demonstration") / "demonstration.npz")
    return path, hybrid.demonstrate(path, 1)


def test_the_demonstration_reaches_the_goal(demonstration):
    path, metrics = demonstration
    assert metrics["AverageReturn"] > 80 and metrics["AverageEpisodeLength"] < 200
    with np.load(path) as file:
        rows = slice(*(int(file[name][0]) for name in ("begin", "end")))
        velocity, action = file["observation"][rows, 0, 1], file["action"][rows, 0, 0]
        leads_on = file["step_type"][rows, 0][1:] != FIRST
    expected = np.where(velocity < 0, -1, 1)
    np.testing.assert_array_equal(action[:-1][leads_on], expected[:-1][leads_on])


@pytest.mark.parametrize("kind", hybrid.KINDS)
def test_each_kind_trains(kind, demonstration, monkeypatch):
    # Most of the time would go into episodes of 999 steps, and into XLA, once for each kind.
    monkeypatch.setattr(hybrid, "load", functools.partial(hybrid.load, max_episode_steps=50))
    if kind != "hybrid":
        monkeypatch.setattr(hybrid, "LearnerSettings", lambda jit_compile: LearnerSettings())
    path, _ = demonstration
    settings = dict(seed=0, num_updates=4, evaluate_every=2, updates_per_train_iter=2)
    updates, env_steps, seconds, returns = hybrid.run(kind, path, **settings)
    assert updates == [0, 2, 4]
    assert (env_steps == [0, 0, 0]) if kind == "offline" else (env_steps[-1] > 0)
    assert seconds == sorted(seconds) and len(returns) == 3


def test_summary():
    there = hybrid.summary(
        [[0, 10, 20, 30], [0, 100, 200, 300], [0.0, 1.0, 2.0, 3.0], [0.0, 95.0, 50.0, 92.0]]
    )
    assert there == {
        "updates": 10,
        "env_steps": 100,
        "seconds": 1.0,
        "share_at_target_since": 0.67,
        "last": 92.0,
    }
    assert hybrid.summary([[0, 10], [0, 0], [0.0, 1.0], [3.0, 2.0]]) == {"best": 3.0, "last": 2.0}
