# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tasks of dm_control's suite by their names: "dm_control:DOMAIN/TASK"."""

import sys
import types

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from alf.data_structures import LAST
from alf.environments import load
from alf.environments.load import find_env_fn, has_vector_entry
from alf.errors import ConfigError

NAME, ID = "dm_control:cartpole/balance", "dm_control/cartpole-balance-v0"


def make_balance(limit=5, **_):
    return gymnasium.wrappers.TimeLimit(CartPoleEnv(), limit)


@pytest.fixture
def packages(monkeypatch):
    """Stand-ins of the packages; the real shimmy registers the ids when it is imported."""
    for name in ("dm_control", "shimmy"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    before = gymnasium.registry.get(ID)
    gymnasium.register(ID, make_balance)
    yield
    del gymnasium.registry[ID]
    if before is not None:
        gymnasium.registry[ID] = before


def test_the_name_of_a_task(packages):
    with load(NAME, 2, num_workers=0, limit=3) as env:
        env.reset()
        step = [env.step(np.zeros(2, np.int64)) for _ in range(3)][-1]
        assert step.step_type.tolist() == [LAST, LAST] and step.discount.tolist() == [1, 1]
    assert not has_vector_entry(NAME)
    find_env_fn(NAME)().close()


def test_an_unknown_task_is_one_line(packages):
    with pytest.raises(ConfigError, match=rf"no Gymnasium environment .*; did you mean {ID} "):
        load("dm_control:cartpole/balanc")


@pytest.mark.parametrize("missing", ["dm_control", "shimmy"])
def test_a_missing_package_is_named(packages, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=rf'{missing} is not installed: pip install "alf-tf\[dm_control\]"'):
        load(NAME)


def test_a_task_of_the_real_package():
    pytest.importorskip("dm_control")
    pytest.importorskip("shimmy")
    with load(NAME, 2, seed=0) as env:
        assert set(env.observation_spec()) == {"position", "velocity"}
        env.reset()
        action = np.zeros((2, 1), env.action_spec().dtype)
        steps = [env.step(action) for _ in range(1000)]
    assert steps[-1].step_type.tolist() == [LAST, LAST], "a time limit"
    assert steps[-1].discount.tolist() == [1, 1] and 0 < np.mean([x.reward for x in steps]) < 1
