# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf.train: from an environment to an agent in one call."""

import importlib
import os
import re
import sys

import gin
import numpy as np
import pytest

import alf
from alf.config.registry import own_config
from alf.errors import ConfigError
from alf.runs.saved_run import SavedRun, load_agent, make_env
from alf.training.train import _name_env

SMALL = {"num_envs": 2, "num_groups": 1, "unroll_length": 8, "num_minibatches": 1, "recurrence": 8, "seed": 0}
OWN = """
import gymnasium, numpy as np

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), float(action), True, False, {}
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "corridor_of_train_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("corridor_of_train_test")
    sys.modules.pop("corridor_of_train_test")


def test_an_agent_and_its_run(tmp_path):
    gin.bind_parameter("Adam.learning_rate", 0.125)  # of the user's own: untouched, and not read
    try:
        agent, run = alf.train(
            "CartPole-v1", steps=64, root_dir=tmp_path / "run", learning_rate=0.25, **SMALL
        )
        assert gin.query_parameter("Adam.learning_rate") == 0.125
    finally:
        gin.clear_config()
    assert run.counters["env_steps"] >= 64 and run.finished
    config = (tmp_path / "run" / "operative_config.gin").read_text()
    assert "Adam.learning_rate = 0.25" in config and "Experiment.algorithm = 'ppo'" in config
    observation = np.full(4, 0.1, np.float32)
    assert agent.predict(observation)[0] == load_agent(tmp_path / "run").predict(observation)[0]
    _, again = alf.train("CartPole-v1", steps=96, root_dir=tmp_path / "run", learning_rate=0.25, **SMALL)
    assert again.restored and 96 <= again.counters["env_steps"] <= 128


def test_a_class_is_written_down_by_its_name(tmp_path, own_module):
    _, run = alf.train(own_module.Corridor, "impala", 32, tmp_path / "run", num_envs=2, num_groups=1)
    config = " ".join((tmp_path / "run" / "operative_config.gin").read_text().split())
    assert re.search(r"load.name = \\? ?'corridor_of_train_test:Corridor'", config)
    with own_config():
        SavedRun(run.root_dir).read_config()
        env = make_env(seed=0, batch_size=3)
    assert env.batch_size == 3 and env.observation_spec().shape == (1,)
    env.close()


def test_a_class_without_a_name_trains(tmp_path, own_module):
    class Local(own_module.Corridor):
        pass

    assert _name_env(Local) is Local
    agent, _ = alf.train(Local, "impala", 32, tmp_path / "run", num_envs=2, num_groups=1, num_workers=0)
    assert agent.predict(np.zeros(1, np.float32))[0] in (0, 1)


def test_without_a_directory_it_makes_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    roots = [alf.train("CartPole-v1", "impala", 32, num_envs=2, num_groups=1)[1].root_dir for _ in range(2)]
    assert [os.path.relpath(x) for x in roots] == ["runs/impala_CartPole-v1", "runs/impala_CartPole-v1_2"]


def test_a_gin_file_then_the_run_itself(tmp_path, own_module, monkeypatch):
    """As `alf train FILE.gin` and `alf train DIR` do; then the run is evaluated by its folder."""
    monkeypatch.chdir(tmp_path)
    gin_file = tmp_path / "mine.gin"
    gin_file.write_text(
        "import corridor_of_train_test\n"
        'alf.environments.load.name = "corridor_of_train_test:Corridor"\n'
        'Experiment.algorithm = "impala"\nAdam.learning_rate = %rate\nrate = 0.1\n'
    )
    _, run = alf.train(gin_file, steps=32, num_envs=2, num_groups=1, rate=0.25)
    assert os.path.relpath(run.root_dir) == "runs/mine"
    assert "\nrate = 0.25\n" in (tmp_path / "runs" / "mine" / "operative_config.gin").read_text()
    _, again = alf.train("runs/mine", steps=64)
    assert again.root_dir == run.root_dir and again.restored
    assert again.counters["env_steps"] >= 64
    episodes = alf.evaluate("runs/mine", num_episodes=3)
    assert len(episodes.returns) == 3 and set(episodes.returns) <= {0.0, 1.0}


def test_a_class_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "file_of_train_test.py").write_text(OWN)
    _, run = alf.train("file_of_train_test.py:Corridor", "impala", 32, num_envs=2, num_groups=1)
    assert os.path.basename(run.root_dir) == "impala_file_of_train_test.py-Corridor"
    assert "'file_of_train_test:Corridor'" in (tmp_path / run.root_dir / "operative_config.gin").read_text()
    sys.modules.pop("file_of_train_test")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"algorithm": "td3"}, "train.algorithm is 'td3': it must be one of 'ppo', 'impala', 'sac', 'dqn'"),
        ({"steps": 0}, "train.steps is 0: it must be an integer, at least 1"),
        ({"lerning_rate": 1}, "--lerning_rate: there is no such setting; did you mean learning_rate"),
        ({"learning_rate": "x"}, "Adam.learning_rate is 'x': it must be a number"),
    ],
)
def test_a_wrong_argument_is_one_line(tmp_path, arguments, error):
    with pytest.raises(ConfigError, match=error):
        alf.train("CartPole-v1", root_dir=tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()
