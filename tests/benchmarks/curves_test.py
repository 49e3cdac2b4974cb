# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The figures that `benchmarks.curves` reads from event files, and its command."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from benchmarks import lines
from tests.benchmarks.conftest import import_program

curves = import_program("benchmarks.curves")


def write_run(root_dir, returns, start, steps_before=0, episodes_before=0):
    """Writes an event file as a run does: 50 episodes in 1000 steps and 2 seconds before each return."""
    writer = EventFileWriter(str(root_dir / "train"), filename_suffix=f".{start}")
    for i, average_return in enumerate(returns, start=1):
        values = {
            "metrics/AverageReturn": average_return,
            "metrics/NumberOfEpisodes": episodes_before + 50.0 * i,
            "train/loss": -1.0,
        }
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=x) for tag, x in values.items()])
        step = steps_before + 1000 * i
        writer.add_event(Event(wall_time=start + 2.0 * i, step=step, summary=summary))
    writer.close()


@pytest.fixture(autouse=True)
def first_event_at(monkeypatch):
    """The event that opens a file has the time of day: put it where the test's times begin."""
    loader = curves.EventFileLoader

    class Loader(loader):
        def Load(self):
            opening, *events = loader.Load(self)
            opening.wall_time = events[0].wall_time - 2.0
            return iter([opening, *events])

    monkeypatch.setattr(curves, "EventFileLoader", Loader)


def test_reads_steps_seconds_returns_and_episodes(tmp_path):
    write_run(tmp_path, [3.0, 5.0, 4.0], start=100)
    curve = curves.read_curve(tmp_path)
    np.testing.assert_array_equal(curve.env_steps, [1000, 2000, 3000])
    np.testing.assert_array_equal(curve.seconds, [2, 4, 6])
    np.testing.assert_array_equal(curve.returns, [3, 5, 4])
    np.testing.assert_array_equal(curve.episodes, [50, 100, 150])


def test_a_run_that_was_continued_is_one_curve_without_the_pause(tmp_path):
    write_run(tmp_path, [3.0, 5.0], start=100)
    write_run(tmp_path, [6.0], start=900, steps_before=2000, episodes_before=100)
    curve = curves.read_curve(tmp_path)
    np.testing.assert_array_equal(curve.env_steps, [1000, 2000, 3000])
    np.testing.assert_array_equal(curve.seconds, [2, 4, 6])
    np.testing.assert_array_equal(curve.returns, [3, 5, 6])
    np.testing.assert_array_equal(curve.episodes, [50, 100, 150])


def test_a_target_is_reached_with_100_episodes(tmp_path):
    write_run(tmp_path, [9.0, 5.0, 7.0, 8.0], start=100)
    curve = curves.read_curve(tmp_path)
    assert [curves.reached(curve, target) for target in (5.0, 7.0, 7.5, 9.0)] == [1, 2, 3, None]


def test_a_target_that_float32_rounds_down_is_reached(tmp_path):
    write_run(tmp_path, [0.5, 0.95], start=100)
    assert curves.reached(curves.read_curve(tmp_path), 0.95) == 1


def test_mean_and_range_of_lines_of_different_lengths():
    xs = [np.array([0.0, 10.0]), np.array([2.0, 4.0])]
    ys = [np.array([0.0, 10.0]), np.array([6.0, 8.0])]
    x, mean, low, high = lines.mean_and_range(xs, ys, points=5)
    np.testing.assert_allclose(x, [2, 4, 6, 8, 10])
    np.testing.assert_allclose(low, [2, 4, 6, 8, 8])  # the second line stays at 8
    np.testing.assert_allclose(high, [6, 8, 8, 8, 10])
    np.testing.assert_allclose(mean, [4, 6, 7, 8, 9])


def run(*arguments):
    command = [sys.executable, "-m", "benchmarks.curves", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_draws_a_png_and_prints_the_figures(tmp_path):
    for seed in range(2):
        write_run(tmp_path / f"seed{seed}", [3.0, 5.0, 4.0 + seed], start=100)
    png = tmp_path / "curves.png"
    done = run(f"--png={png}", "--target=5", *(f"PPO={tmp_path}/seed{seed}" for seed in range(2)))
    assert done.returncode == 0, done.stderr[-2000:]
    assert png.read_bytes().startswith(b"\x89PNG")
    first, second = json.loads(done.stdout)["PPO"]
    assert (first["run"], first["end"]["env_steps"], first["end"]["return"]) == ("seed0", 3000, 4.0)
    assert (second["end"]["return"], second["target"]["env_steps"]) == (5.0, 2000)


@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_without_a_run_is_one_line(exists, tmp_path):
    root_dir = tmp_path / "none"
    if exists:
        (root_dir / "train").mkdir(parents=True)
    done = run(f"--png={tmp_path}/curves.png", f"PPO={root_dir}")
    assert done.returncode == 1
    assert f"error: there is no average return in {root_dir}/train" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "curves.png").exists()
