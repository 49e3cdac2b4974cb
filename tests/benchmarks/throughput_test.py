# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The benchmark's command and the figures that it promises."""

import json
import subprocess
import sys

import pytest

from tests.benchmarks.conftest import import_program

throughput = import_program("benchmarks.throughput")

COMMAND = [sys.executable, "-m", "benchmarks.throughput", "--seconds=1", "--unroll_length=4"]


@pytest.mark.parametrize("workload", ["cartpole_vector", "toy"])
def test_prints_and_writes_one_json_object(workload, tmp_path):
    path = tmp_path / "result.json"
    command = [*COMMAND, f"--workload={workload}", "--batch_size=3", f"--result={path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(path.read_text())
    assert json.loads(done.stdout) == result
    assert (result["workload"], result["batch_size"], result["unroll_length"]) == (workload, 3, 4)
    costs = [1 / result[f"{part}_alone_steps_per_second_per_core"] for part in ("env", "forward", "train")]
    assert result["limit_steps_per_second"] == pytest.approx(result["cores"] / sum(costs))
    assert result["fraction_of_limit"] == pytest.approx(
        result["trained_steps_per_second"] / result["limit_steps_per_second"]
    )
    assert 0 < result["trained_steps_per_second"] < result["limit_steps_per_second"]
    assert result["rollout_only_steps_per_second"] > 0
    assert 0 < result["cpu_cores_used"] <= result["cores"] + 0.2
    assert result["peak_memory_mb"] > 100
    assert result["seconds_to_first_train_step"] > 0


def test_growth_of_memory_is_not_a_batch_in_flight():
    steady = [100.0 + 60.0 * (i % 5 == 0) for i in range(1000)]
    assert throughput._growth(steady) == 0
    assert throughput._growth([x + 0.02 * i for i, x in enumerate(steady)]) == pytest.approx(18, abs=1)


def test_refuses_an_unknown_workload():
    command = [sys.executable, "-m", "benchmarks.throughput", "--workload=chess"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "workload" in done.stderr and "cartpole_vector" in done.stderr
