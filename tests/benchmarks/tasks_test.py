# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.tasks: what each row trains, which runs a series makes, and the tables of docs/measured.md."""

import importlib.util
import pathlib
import re

import gin
import pytest

from alf.config.gin_files import find_gin_file, list_tasks
from alf.config.parsing import parse_config
from alf.environments.load import find_env_fn
from alf.errors import ConfigError
from benchmarks import report, task_pictures
from benchmarks.series import add_row
from benchmarks.task_list import Task, list_rows
from benchmarks.task_table import format_tables
from tests.benchmarks.conftest import import_program

pytestmark = pytest.mark.programs

tasks = import_program("benchmarks.tasks")

EXTRAS = {
    "atari": "ale_py",
    "box2d": "Box2D",
    "minatar": "minatar",
    "minigrid": "minigrid",
    "mujoco": "mujoco",
    "pettingzoo": "pettingzoo",
}


def test_what_a_task_says_of_itself(subtests):
    rows = {row.arguments: row for row in list_rows()}
    names = list_tasks()
    assert {"CartPole-v1", "ALE-Pong-v5", "HalfCheetah-v5", "MinAtar-Breakout-v1"} <= set(names)
    for task in names:
        with subtests.test(task):
            text = pathlib.Path(find_gin_file(f"alf:{task}")).read_text()
            extra = re.search(r"alf-tf\[(\w+)\]", text)
            if extra and importlib.util.find_spec(EXTRAS[extra[1]]) is None:
                continue
            _, algorithm, steps, reference, _ = rows[f"alf:{task}"]
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


def test_presets_are_rows_beside_the_tasks():
    """Each is a command that names its environment, algorithm and steps."""
    rows = [row for row in list_rows() if not row.arguments.startswith("alf:")]
    assert {row.algorithm for row in rows} >= {"apex", "qr_dqn", "dqn", "sac", "td3", "r2d2"}
    for row in rows:
        env, *arguments = row.arguments.split()
        assert arguments[-2:] == [f"--algorithm={row.algorithm}", f"--steps={row.steps:_}"]
        assert find_env_fn(env) is not None


def test_a_series_makes_the_runs_that_its_file_lacks(tmp_path, monkeypatch):
    """Three seeds of each row, and five of what takes under two minutes; again, if ALF has changed."""
    rows = [Task("short", "ppo", 1, ""), Task("long", "ppo", 1, "")]
    made = []

    def make_run(row, seed):
        made.append((row.arguments, seed))
        return {"score": 1.0, "seconds": 119.0 if row.arguments == "short" else 121.0}

    monkeypatch.setattr(tasks, "make_run", make_run)
    monkeypatch.setattr(tasks, "find_revision", lambda: "one")
    path = tmp_path / "tasks.jsonl"
    tasks.train_all(path, rows[:1], 1, "A")
    tasks.train_all(path, rows, 3, "A")
    assert sorted(made) == [("long", i) for i in range(3)] + [("short", i) for i in range(5)]
    tasks.train_all(path, rows, 3, "A")
    assert len(made) == 8
    tasks.train_all(path, rows[1:], 1, "B")
    monkeypatch.setattr(tasks, "find_revision", lambda: "two")
    tasks.train_all(path, rows[1:], 1, "A")
    assert made[8:] == [("long", 0), ("long", 0)]


def test_a_run_trains_and_evaluates(tmp_path, monkeypatch, forks_python):
    """Only the first run of a task is kept, in the place of an older one."""
    monkeypatch.setattr(tasks, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(tasks, "_EPISODES", 10)
    old = tmp_path / "runs" / "FrozenLake-v1" / "old"
    old.parent.mkdir(parents=True)
    old.touch()
    run = tasks.make_run(Task("alf:FrozenLake-v1 --steps=3_000", "ppo", 3000, ""), seed=1)
    assert run["steps"] >= 3000 and run["seconds"] > 0
    assert 0 <= run["score"] <= 1 and 0 <= run["training"] <= 1
    assert old.exists()
    monkeypatch.setattr(tasks, "train_once", lambda folder, *_: [(5, 1.0, 0.5)] if not old.exists() else None)
    monkeypatch.setattr(tasks, "evaluate_once", lambda x, _: {"return": float(x == str(old.parent))})
    assert tasks.make_run(Task("alf:FrozenLake-v1", "ppo", 5, ""), 0)["score"] == 1


def test_a_game_is_played_in_each_seat_against_random_play(monkeypatch):
    figures = {"agents/a/return": 0.0, "agents/b/return": 0.0, "agents/a/win": 0.5}
    played = []

    def evaluate_once(folder, num_episodes, *arguments):
        played.append(arguments)
        if not arguments:
            return figures
        is_first = arguments == ("--policy=a=main,b=random",)
        won, lost = (0.9, 0.0) if is_first else (0.6, 0.2)
        return {
            "policies/main/return": won - lost,
            "policies/main/win": won,
            "policies/random/win": lost,
        }

    monkeypatch.setattr(tasks, "evaluate_once", evaluate_once)
    scores = tasks.play_seats("folder")
    assert scores == {"score": pytest.approx(0.65), "seats": {"a": [0.9, 0.0], "b": [0.6, 0.2]}}
    assert played[1:] == [("--policy=a=main,b=random",), ("--policy=a=random,b=main",)]
    name = "alf:selfplay_connect_four.gin"
    assert [row.arguments for row in list_rows() if row.is_game] == [name, "alf:tictactoe_v3"]
    runs = [make_run(name, score, "2026-11-26", "A") | {"seats": scores["seats"]} for score in (0.5, 0.8)]
    cells = format_tables(runs).splitlines()[4].split(" | ")
    assert cells[3] == "0.65 (0.5 to 0.8); a won 90%, lost 0.0%; b won 60%, lost 20.0%"


def test_the_tables():
    rows = [make_run("alf:CartPole-v1", score, "2026-11-26", "A") for score in (400, 500)]
    rows += [make_run("alf:Ant-v5", score, "2026-11-27", "B") for score in (700, 800)]
    rows.insert(0, make_run("alf:CartPole-v1", 100, "2026-11-29", "A", "old"))  # another revision
    rows.append(make_run("alf:MinAtar-Breakout-v1", 7, "2026-11-28", "A", "new"))
    first, second, missing = split_tables(format_tables(rows))
    assert first[0] == "A, 2026-11-28, `python -m benchmarks.tasks --machine=NAME`:"
    start = "| `alf:CartPole-v1` | ppo | 100,000 | 450 (400 to 500) | 45 (40 to 50) | 0.5 | 2 | 475, at which"
    assert len(first) == 6 and first[4].startswith(start)
    assert first[5].startswith("| `alf:MinAtar-Breakout-v1` | ppo | 1,000,000 | 7 | 0.7 | 0.5 | 1 | no table")
    assert second[0].startswith("B, 2026-11-27") and len(second) == 5
    assert second[-1].startswith("| `alf:Ant-v5` | ppo | 1,000,000 | 750 (700 to 800) | 75 (70 to 80)")
    assert "`alf:Acrobot-v1`" in missing[0] and "CartPole-v1" not in missing[0]


def test_the_curve_of_a_run_is_kept_in_few_points():
    curve = [(float(i), i / 7, i / 3) for i in range(999)]
    thin = tasks.thin_curve(curve)
    assert len(thin) == 50 and thin[0] == [0, 0.0, 0.0] and thin[-1] == [998, 142.6, 332.667]
    assert tasks.thin_curve(curve[:2]) == [[0, 0.0, 0.0], [1, 0.1, 0.333]]


def test_a_picture_has_the_algorithms_of_a_family_of_environments(tmp_path):
    """A task and a preset in one environment share axes; runs without a curve have no picture."""
    dqn = "MinAtar/Breakout-v1 --algorithm=dqn --steps=1_000_000"
    rows = [make_run(name, 5, "2026-11-26", "A") for name in ("alf:MinAtar-Breakout-v1", dqn, dqn)]
    for row in rows:
        row["curve"] = [[1000, 1.0, 2.0], [2000, 2.0, 4.0]]
    rows += [make_run("alf:Ant-v5", 7, "2026-11-26", "A")]
    pictures = task_pictures.make_lines(rows)
    assert list(pictures) == ["minatar"]
    lines = {line.label: line for line in pictures["minatar"]}
    assert {name: len(line.curves) for name, line in lines.items()} == {"PPO": 1, "DQN": 2}
    assert {line.task for line in lines.values()} == {"MinAtar-Breakout-v1"}
    assert [list(x) for x in lines["DQN"].curves[1]] == [[1000, 2000], [1.0, 2.0], [2.0, 4.0]]
    task_pictures.write_pictures(rows, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["minatar.png"]


def make_run(arguments, score, date, machine, revision="new"):
    figures = {"score": score, "training": score / 10, "seconds": 30.0}
    return {"arguments": arguments, **figures, "date": date, "machine": machine, "revision": revision}


def split_tables(text):
    """The lines of each table with its caption, and of what comes after them."""
    *tables, missing = [part.splitlines() for part in re.split(r"\n\n(?!\|)", text)]
    return [*tables, missing]


def test_the_page_has_the_tables_of_all_runs():
    """As `benchmarks.report` writes them."""
    for path in report.PAGES:
        assert report.replace_tables(path.read_text()) == path.read_text()
    page = report.PAGE.read_text()
    assert (report.RESULTS / "tasks.jsonl").exists()
    region = page.partition("<!-- results: tasks -->")[2].partition("<!-- end of results -->")[0]
    assert not [row.arguments for row in list_rows() if f"`{row.arguments}`" not in region]
    changed = page.replace(region, "\nOLD\n")
    assert report.replace_tables(changed) == page


def test_each_region_has_the_table_of_its_file(tmp_path, monkeypatch):
    run = {"library": "ALF", "task": "ppo:Acrobot-v1:30", "seconds": 4.0, "curve": [[30, 3.0, -90.0]]}
    add_row(tmp_path / "defaults.jsonl", {**run, "machine": "A"})
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    page = "a\n<!-- results: defaults -->\nOLD\n<!-- end of results -->\nb\n"
    begin, *lines, end, after = report.replace_tables(page).splitlines()[1:]
    assert lines[-1] == "| ppo | Acrobot-v1 | 30 | -90, 4 s |  |  |  |  |" and "OLD" not in lines
    assert (begin, end, after) == ("<!-- results: defaults -->", "<!-- end of results -->", "b")


def test_an_unknown_task():
    with pytest.raises(ConfigError, match="did you mean alf:ALE-Pong-v5"):
        find_gin_file("alf:Pong-v5")
