# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.tasks: what each task says of itself, and the tables of docs/measured.md."""

import importlib.util
import pathlib
import re

import gin
import pytest

from alf.config.gin_files import find_gin_file, list_tasks
from alf.config.parsing import parse_config
from alf.environments.load import find_env_fn
from alf.errors import ConfigError
from benchmarks.task_table import HEADER, describe, format_tables, replace_tables

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


def test_the_tables():
    rows = [make_row("CartPole-v1", score, "2026-11-26", "A") for score in (400, 500)]
    rows += [make_row("Ant-v5", 700, "2026-11-27", "A"), make_row("Ant-v5", 800, "2026-11-27", "B")]
    first, second, missing = split_tables(format_tables(rows))
    assert first[0] == "A, 2026-11-26, `python -m benchmarks.tasks --file=tasks.jsonl`:"
    start = "| CartPole-v1 | ppo | 100,000 | 450 (400 to 500) | 0.5 | 2 | 475, at which"
    assert len(first) == 5 and first[-1].startswith(start)
    assert second[0].startswith("B, 2026-11-27") and len(second) == 5
    assert second[-1].startswith("| Ant-v5 | ppo | 1,000,000 | 800 | 0.5 | 1 | 1,083, PPO after")
    assert "Acrobot-v1" in missing[0] and "CartPole-v1" not in missing[0]


def make_row(task, score, date, machine):
    return {"task": task, "score": score, "seconds": 30.0, "date": date, "machine": machine}


def split_tables(text):
    """The lines of each table with its caption, and of what comes after them."""
    *tables, missing = [part.splitlines() for part in re.split(r"\n\n(?!\|)", text)]
    return [*tables, missing]


def test_the_page_has_the_tables_of_all_tasks():
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "measured.md").read_text()
    changed = replace_tables(page, "NEW")
    assert "<!-- tasks -->\nNEW\n<!-- end of tasks -->\n\n## " in changed and len(changed) < len(page)
    old = page.partition("<!-- tasks -->")[2].partition("<!-- end of tasks -->")[0]
    header = HEADER.count("|")
    lines = [line for line in old.splitlines() if line.startswith("| ")]
    assert lines and all(line.count("|") == header for line in lines)
    assert not [task for task in list_tasks() if task not in old]


def test_an_unknown_task():
    with pytest.raises(ConfigError, match="did you mean alf:ALE-Pong-v5"):
        find_gin_file("alf:Pong-v5")
