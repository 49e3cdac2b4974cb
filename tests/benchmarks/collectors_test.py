# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The benchmark of the way from collectors to the learn queue."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*args):
    done = subprocess.run([sys.executable, *args], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_table(settings):
    """The lines of the program's table. Ray may print others while its processes end."""
    lines = run("-m", "benchmarks.collectors", *settings).splitlines()
    return [line for line in lines if line.startswith("|")]


def test_a_row_for_each_number_of_collectors():
    settings = ["--collectors=1,2", "--step_ms=20", "--seconds=1", "--rounds=1", "--observation_dim=3"]
    head, _, *rows = run_table(settings)
    assert head.startswith("| collectors | steps/s | of the ideal |")
    for num_collectors, row in zip((1, 2), rows, strict=True):
        count, rate, share, *_ = (float(cell.replace(",", "")) for cell in row.strip("| ").split(" | "))
        # 16 environments with 50 steps a second; unrolls of 0.64 s come in whole numbers.
        assert count == num_collectors and 0 < rate < 3 * 800 * num_collectors
        assert share == pytest.approx(rate / (800 * num_collectors), abs=0.01)


def test_a_row_without_ray_and_at_full_speed():
    settings = ["--collectors=0,1", "--step_ms=0", "--seconds=1", "--rounds=1", "--max_joined_answers=2"]
    _, _, *rows = run_table(settings)
    assert [row.strip("| ").split(" | ")[0] for row in rows] == ["0", "1"]
    assert all(row.strip("| ").split(" | ")[2] == "-" for row in rows)


def test_real_collectors_sleep_and_have_memory_of_their_own():
    settings = ["--collectors=1", "--real", "--step_ms=20", "--seconds=1", "--rounds=1"]
    *_, row = run_table(settings)
    _, rate, share, *_, memory = (float(cell.replace(",", "")) for cell in row.strip("| ").split(" | "))
    # Unrolls of 0.64 s come in whole numbers, and the first one may have waited.
    assert 0 < rate < 3 * 800 and share == pytest.approx(rate / 800, abs=0.01)
    assert memory > 100  # TensorFlow's


def test_stand_ins_do_not_import_tensorflow():
    assert run("-c", "import sys, benchmarks.stand_in; print('tensorflow' in sys.modules)") == "False\n"
