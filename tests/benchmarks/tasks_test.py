# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.tasks: what each task says of itself, and the table of docs/tasks.md."""

import importlib.util
import pathlib
import re

import gin
import pytest

from alf.config.gin_files import find_gin_file, list_tasks
from alf.config.parsing import parse_config
from alf.environments.load import find_env_fn
from alf.errors import ConfigError
from benchmarks.task_table import describe, format_table

pytestmark = pytest.mark.programs

EXTRAS = {
    "atari": "ale_py",
    "box2d": "Box2D",
    "minatar": "minatar",
    "minigrid": "minigrid",
    "mujoco": "mujoco",
    "pettingzoo": "pettingzoo",
}


def test_what_a_task_says_of_itself(subtests):
    tasks = list_tasks()
    assert {"CartPole-v1", "ALE-Pong-v5", "HalfCheetah-v5", "MinAtar-Breakout-v1"} <= set(tasks)
    for task in tasks:
        with subtests.test(task):
            text = pathlib.Path(find_gin_file(f"alf:{task}")).read_text()
            extra = re.search(r"alf-tf\[(\w+)\]", text)
            if extra and importlib.util.find_spec(EXTRAS[extra[1]]) is None:
                continue
            algorithm, steps, reference = describe(task)
            assert algorithm in ("ppo", "impala", "dqn", "sac") and steps >= 10_000 and reference
            gin.clear_config()
            parse_config([f"alf:{task}"], [])
            assert gin.query_parameter("StopCriteria.num_env_steps") == steps
            chosen = gin.query_parameter("Experiment.algorithm")
            assert str(chosen) in (algorithm, f"@{algorithm.upper()}Algorithm")
            name = gin.query_parameter("alf.environments.load.name")
            if task.startswith("ALE-"):
                assert name == task.replace("-", "/", 1)
            elif task.startswith("MiniGrid-"):
                assert gin.query_parameter("make_minigrid.id") == task
            else:
                find_env_fn(name)  # raises ConfigError for an unknown id


def test_the_table():
    rows = [
        {"task": "CartPole-v1", "score": score, "seconds": 30.0, "date": "2026-11-26"} for score in (400, 500)
    ]
    (line,) = [line for line in format_table(rows).splitlines() if "CartPole" in line]
    start = "| CartPole-v1 | ppo | 100,000 | 450 (400 to 500) | 0.5 | 2 | 2026-11-26 | 475, at which"
    assert line.startswith(start)
    assert "| 500 | 0.5 | 1 |" in format_table(rows[1:])
    assert "| Ant-v5 | ppo | 1,000,000 | not run | | | | 1,083, PPO after" in format_table(rows)


def test_an_unknown_task():
    with pytest.raises(ConfigError, match="did you mean alf:ALE-Pong-v5"):
        find_gin_file("alf:Pong-v5")
