# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.gpu: its parts, their time limits, and that it goes on."""

import json

import pytest

from tests.benchmarks.conftest import import_program, parsed_flags

pytestmark = pytest.mark.programs

gpu = import_program("benchmarks.gpu")


def test_the_most_important_parts_come_first():
    names = [part.name for part in gpu.list_parts()]
    assert len(set(names)) == len(names)
    kinds = [name.split()[0] for name in names]
    assert list(dict.fromkeys(kinds)) == ["runs", "updates", "pong", "suite", "places"]
    assert [part.variables for part in gpu.list_parts() if "hidden" in part.name] == [gpu.HIDDEN] * 9


def run_main(path, *names, **settings):
    arguments = {"result": path, **settings}
    with parsed_flags(gpu, *(f"--{name}={value}" for name, value in arguments.items())):
        gpu.main(["gpu", *names])
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_goes_on_where_it_was_and_ends_parts_that_take_too_long(tmp_path, monkeypatch):
    ran = []

    def run_part(part, scale, seconds):
        ran.append((part.name, scale))
        assert 0 < seconds <= 60
        return {"part": part.name, "scale": scale}

    monkeypatch.setattr(gpu, "run_part", run_part)
    monkeypatch.setattr(gpu, "describe_machine", lambda: {"part": "machine", "gpus": [], "cores": 2})
    path = tmp_path / "gpu.jsonl"
    first = run_main(path, "runs impala", minutes=1.0, scale=0.5)
    assert [row["part"] for row in first] == ["machine", "runs impala CartPole-v1", "runs impala ALE/Pong-v5"]
    run_main(path, "runs", minutes=1.0, scale=0.5)
    assert len(ran) == len({name for name, _ in ran}) == len(gpu.RUNS)
    assert run_main(path, minutes=0.0) == run_main(path, "runs", minutes=1.0)


def test_a_part_runs_in_a_process_of_its_own(monkeypatch):
    parts = {part.name: part for part in gpu.list_parts()}
    row = gpu.run_part(parts["runs impala CartPole-v1"], 0.02, 60.0)
    assert row["learner"] == row["actors"] == "CPU:0" and row["env_steps"] > 0
    row = gpu.run_part(parts["runs impala CartPole-v1"], 1.0, 0.5)
    assert row["error"] == "not within 0 s"


@pytest.mark.parametrize("network", ["nature", "resnet"])
def test_updates(network):
    figures = gpu.measure_update(network, 2, 2, "float32", 0.01)
    assert figures["ms"] > 0 and figures["device"] == "CPU:0"
