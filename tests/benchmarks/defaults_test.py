# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.defaults: which runs a series makes, and the table of ALF beside other libraries."""

import pytest

from benchmarks.defaults_table import format_returns, format_tables
from benchmarks.peers.curve import Curve
from tests.benchmarks.conftest import import_program

pytestmark = pytest.mark.programs

defaults = import_program("benchmarks.defaults")


def test_a_series_makes_the_runs_that_its_file_lacks(tmp_path, monkeypatch):
    """In turn; the loop in PyTorch only has PPO."""
    made = []

    def train(library, task, seed):
        made.append((library, task.partition(":")[0], seed))
        return [[10, 0.5, 1.0]]

    monkeypatch.setattr(defaults, "train", train)
    tasks, path = ["ppo:Acrobot-v1:10", "sac:Pendulum-v1:10"], tmp_path / "defaults.jsonl"
    defaults.train_all(path, tasks, 1, ["ALF", "torch"], "A")
    assert made == [("ALF", "ppo", 0), ("torch", "ppo", 0), ("ALF", "sac", 0)]
    defaults.train_all(path, tasks, 2, ["ALF", "torch"], "A")
    assert made[3:] == [("ALF", "ppo", 1), ("torch", "ppo", 1), ("ALF", "sac", 1)]
    defaults.train_all(path, tasks[1:], 1, ["ALF"], "B")
    assert made[6:] == [("ALF", "sac", 0)]
    assert format_tables(defaults.read_rows(path)).count("| algorithm |") == 2


def test_the_table():
    runs = [row("ALF", [[10, 1.0, None], [20, 2.0, 5.0], [30, 3.0, 9.0]], seed) for seed in range(2)]
    runs += [
        row("sb3", [[30, 9.0, 4.0]], 0),
        row("sb3", [[30, 9.0, 6.0]], 1),
        row("sbx", [[30, 9.0, 1.0]], 0),
    ]
    lines = format_tables(runs).splitlines()
    assert lines[0] == "A, 2026-11-29, `python -m benchmarks.defaults --machine=NAME`:"
    assert lines[-1] == (
        "| ppo | Acrobot-v1 | 30 | 9 (9 to 9), 4 s | 5 (4 to 6), 4 s | 1, 4 s |  | 20 steps, 2 s |"
    )
    assert format_returns([{**runs[0], "machine": "B"}, *runs]).splitlines() == [
        "| environment | steps | ALF | Stable-Baselines3 | SBX | CleanRL's settings |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # not one of the tasks of the series
    runs = [{**run, "task": "ppo:Acrobot-v1:200_000"} for run in runs]
    assert format_returns([{**runs[0], "machine": "B"}, *runs]).splitlines()[-1] == (
        "| Acrobot-v1 | 200,000 | 9 (9 to 9) | 5 (4 to 6) | 1 |  |"
    )
    runs.append(row("torch", [[30, 9.0, 10.0]], 0) | {"task": "ppo:Acrobot-v1:200_000"})
    assert format_tables(runs).endswith("| 10, 4 s | 0 of 2 runs |")


def row(library, curve, seed):
    run = {"library": library, "task": "ppo:Acrobot-v1:30", "seed": seed, "seconds": 4.0, "curve": curve}
    return {**run, "date": "2026-11-29", "machine": "A"}


@pytest.mark.parametrize("library, script", [("sbx", "sb3.py"), ("torch", "torch_ppo.py")])
def test_the_scripts_get_the_task(monkeypatch, library, script):
    calls = []
    monkeypatch.setattr(defaults, "run", lambda *call: calls.append(call) or ('{"curve": [[1, 2, 3]]}', 0.0))
    assert defaults.train(library, "ppo:Hopper-v5:1_000", 2) == [[1, 2, 3]]
    ((command, _),) = calls
    python, path, *flags = map(str, command)
    assert f".peers/{library}/" in python and path.endswith(script)
    assert {"--env=Hopper-v5", "--steps=1_000", "--seed=2"} <= set(flags)
    assert ('"normalizes": true' in flags[-1]) == (library == "torch")


def test_a_curve_of_another_library():
    curve = Curve(steps=200, target=5.0)
    curve.advance(9, [1.0])
    curve.advance(10, [])
    curve.advance(29, [9.0] * 99)
    assert [x[::2] for x in curve.points] == [(10, None), (29, 9.0)] and not curve.reached
    curve.advance(30, [5.0] * 100)
    assert curve.reached and curve.points[-1][::2] == (30, 5.0)
    curve.advance(31, [4.0] * 100)
    assert not curve.reached and len(curve.points) == 3
