# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Processes of Ray itself are killed: Ray then ends its clients without a word, but the run saves first."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.programs

pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

SECONDS = 300.0  # for what takes some 20


def wait_until(condition, process):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_a_run_saves_when_ray_has_ended(tmp_path, monkeypatch, name):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    root_dir, log = tmp_path / "run", tmp_path / "log"
    params = {
        "Experiment.algorithm": "@PPOAlgorithm",
        "Experiment.num_groups": 1,
        "Experiment.num_collectors": 1,
        "Experiment.unroll_length": 8,
        "Experiment.num_envs": 4,
        "UnrollLearner.optimizer": "@Adam()",
        # Ray ends a process at once that is in a call of the object store, which a broadcast takes.
        "RayCollectors.broadcast_interval": 10_000,
        "StopCriteria.max_seconds": SECONDS,
        "Summaries.interval": 1,
    }
    flags = [f"--{key}={value}" for key, value in params.items()]
    command = [sys.executable, "-m", "alf", "train", "CartPole-v1", f"--output={root_dir}", *flags]
    with open(log, "w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            wait_until(lambda: (root_dir / "progress.csv").exists(), process)
            (theirs,) = [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == name]
            theirs.send_signal(signal.SIGKILL)
            assert process.wait(SECONDS) == 1, log.read_text()
        finally:
            process.kill()
    done = json.loads((root_dir / "done.json").read_text())
    assert (done["status"], done["iterations"] > 0) == ("FAILURE", True)
    assert "Ray has ended on this machine" in done["reason"] and "error: Ray has ended" in log.read_text()
    assert f"ckpt-{done['iterations']}" in os.listdir(root_dir / "checkpoints")


@pytest.mark.slow
def test_a_signal_to_all_processes_of_a_run_leaves_it_time_to_save(tmp_path, monkeypatch):
    """As from a closed terminal or `timeout`, while Ray starts the process of an evaluation."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    root_dir, log = tmp_path / "run", tmp_path / "log"
    params = {
        "Trainer.evaluator": "@Evaluator",
        "Evaluator.interval_seconds": 1,
        "Evaluator.place": "cluster",
        "Summaries.interval": 1,
    }
    flags = [f"--{key}={value}" for key, value in params.items()]
    command = [sys.executable, "-m", "alf", "train", "CartPole-v1", "--algorithm=ppo", f"--output={root_dir}"]
    with open(log, "w") as file:
        process = subprocess.Popen([*command, *flags], stdout=file, stderr=file, start_new_session=True)
    try:
        wait_until((root_dir / "checkpoints" / "evaluated").exists, process)
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(SECONDS) == 128 + signal.SIGTERM, log.read_text()
    finally:
        process.kill()
    done = json.loads((root_dir / "done.json").read_text())
    assert (done["status"], done["iterations"] > 0) == ("INTERRUPTED", True)
    assert f"ckpt-{done['iterations']}" in os.listdir(root_dir / "checkpoints")
    assert not psutil.wait_procs(children, timeout=SECONDS)[1]
