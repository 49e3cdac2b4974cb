# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The benchmark of the way from collectors to the learn queue."""

import subprocess
import sys

import pytest

from alf.distributed.cluster import connect
from tests.benchmarks.conftest import import_program, parsed_flags
from tests.programs import ROOT

pytestmark = pytest.mark.programs

pytest.importorskip("ray")
collectors = import_program("benchmarks.collectors")


@pytest.fixture(scope="module", autouse=True)
def _ray():
    """One Ray for all tables, in place of that which the program would start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        ray = connect(log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def run_table(capsys):
    """A function that runs the program in this process; it returns the lines of the table."""

    def run(settings):
        with parsed_flags(collectors, *settings):
            collectors.main([])
        return capsys.readouterr().out.splitlines()

    return run


def test_a_row_for_each_number_of_collectors(run_table):
    settings = ["--collectors=1,2", "--step_ms=20", "--seconds=1", "--rounds=1", "--observation_dim=3"]
    head, _, *rows = run_table(settings)
    assert head.startswith("| collectors | steps/s | of the ideal |")
    for num_collectors, row in zip((1, 2), rows, strict=True):
        count, rate, share, *_ = (float(cell.replace(",", "")) for cell in row.strip("| ").split(" | "))
        # 16 environments with 50 steps a second; unrolls of 0.64 s come in whole numbers.
        assert count == num_collectors and 0 < rate < 3 * 800 * num_collectors
        assert share == pytest.approx(rate / (800 * num_collectors), abs=0.01)


def test_a_row_without_ray_and_at_full_speed(run_table):
    settings = ["--collectors=0,1", "--step_ms=0", "--seconds=1", "--rounds=1", "--max_joined_answers=2"]
    _, _, *rows = run_table(settings)
    assert [row.strip("| ").split(" | ")[0] for row in rows] == ["0", "1"]
    assert all(row.strip("| ").split(" | ")[2] == "-" for row in rows)


def test_real_collectors_sleep_and_have_memory_of_their_own(run_table):
    settings = ["--collectors=1", "--real", "--step_ms=20", "--seconds=1", "--rounds=1"]
    *_, row = run_table(settings)
    _, rate, share, *_, memory = (float(cell.replace(",", "")) for cell in row.strip("| ").split(" | "))
    # Unrolls of 0.64 s come in whole numbers, and the first one may have waited.
    assert 0 < rate < 3 * 800 and share == pytest.approx(rate / 800, abs=0.01)
    assert memory > 100  # TensorFlow's


def test_stand_ins_do_not_import_tensorflow():
    code = "import sys, benchmarks.stand_in; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=300)
