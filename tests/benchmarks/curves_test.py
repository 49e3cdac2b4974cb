# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The figures that `benchmarks.curves` reads from the progress files of runs, and its command."""

import json

import pytest

from alf.plots.runs import read_run
from tests.benchmarks.conftest import import_program
from tests.programs import run_module

pytestmark = pytest.mark.programs

curves = import_program("benchmarks.curves")


def write_run(root_dir, returns):
    """Writes what a run leaves: 50 episodes in 1000 steps and 2 seconds before each return."""
    root_dir.mkdir(parents=True)
    rows = [f"{1000 * i},{2 * i},{value},{50 * i}\n" for i, value in enumerate(returns, 1)]
    header = "env_steps,seconds,metrics/AverageReturn,metrics/NumberOfEpisodes\n"
    (root_dir / "progress.csv").write_text(header + "".join(rows))


def test_a_target_is_reached_with_100_episodes(tmp_path):
    write_run(tmp_path / "run", [9.0, 5.0, 7.0, 8.0])
    run = read_run(str(tmp_path / "run"))
    assert [curves.reached(run, target) for target in (5.0, 7.0, 7.5, 9.0)] == [1, 2, 3, None]


def test_a_target_that_float32_rounds_down_is_reached(tmp_path):
    write_run(tmp_path / "run", [0.5, 0.949999988])
    assert curves.reached(read_run(str(tmp_path / "run")), 0.95) == 1


def test_prints_the_figures_of_all_runs_of_a_label(tmp_path):
    for seed in range(2):
        write_run(tmp_path / "ppo" / f"seed{seed}", [3.0, 5.0, 4.0 + seed])
    write_run(tmp_path / "dqn", [1.0])
    done = run_module("benchmarks.curves", "--target=5", f"PPO={tmp_path}/ppo", f"{tmp_path}/dqn")
    assert done.status == 0, done.err[-2000:]
    figures = json.loads(done.out)
    first, second = figures["PPO"]
    assert first == {
        "run": "seed0",
        "end": {"env_steps": 3000, "seconds": 6.0, "return": 4.0},
        "target": {"env_steps": 2000, "seconds": 4.0, "return": 5.0},
    }
    assert (second["run"], second["end"]["return"], second["target"]["env_steps"]) == ("seed1", 5.0, 2000)
    assert figures["dqn"][0]["target"] is None


@pytest.mark.parametrize("exists", [False, True], ids=["no folder", "no run"])
def test_a_directory_without_a_run_is_one_line(exists, tmp_path):
    root_dir = tmp_path / "none"
    if exists:
        (root_dir / "train").mkdir(parents=True)
    done = run_module("benchmarks.curves", f"PPO={root_dir}")
    assert done.status == 1
    last = done.err.splitlines()[-1]  # TensorFlow may have said something before
    assert last == f"error: there is no average return in {root_dir}: name the root_dir of a run"
