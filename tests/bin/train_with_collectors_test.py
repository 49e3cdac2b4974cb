# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf-train with collectors and evaluation on Ray: the learner is killed, a run goes on, a signal ends it."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.bin.conftest import write_config

pytest.importorskip("ray")

SETTINGS = {
    "Experiment.num_envs": 0,
    "Experiment.num_collectors": 1,
    "RayCollectors.num_envs": 1,
    "Trainer.evaluator_ctor": "@Evaluator",
    "Evaluator.interval_seconds": 0.1,
    "Evaluator.num_episodes": 1,
    "Evaluator.place": '"cluster"',
    "RayEvaluator.num_cpus": 0,
    "StopCriteria.num_iterations": 10**9,
    "Trainer.checkpoint_interval": 0.0,
}
SECONDS = 120  # for what takes a few


def start(gin_file, root_dir):
    params = [f"--gin_param={name}={value}" for name, value in SETTINGS.items()]
    command = [
        sys.executable,
        "-m",
        "alf.bin.train",
        f"--gin_file={gin_file}",
        f"--root_dir={root_dir}",
        *params,
    ]
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_until(done):
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def newest(root_dir):
    """The number of the newest checkpoint; 0 without one."""
    return max((int(path.stem[5:]) for path in root_dir.glob("checkpoints/ckpt-*.complete")), default=0)


def best(root_dir):
    """Whether an evaluation has ended."""
    return (root_dir / "checkpoints" / "best" / "evaluation.json").exists()


def find_children(process):
    """All that the process has started."""
    return psutil.Process(process.pid).children(recursive=True)


def test_the_learner_dies_and_the_run_goes_on(tmp_path):
    gin_file, root_dir = write_config(tmp_path, "own"), tmp_path / "run"
    process = start(gin_file, root_dir)
    try:
        wait_until(lambda: newest(root_dir) >= 5 and best(root_dir))
        names = "CollectorActor", "EvaluationActor"
        actors = [child for child in find_children(process) if any(name in child.name() for name in names)]
        assert len(actors) == 2
    finally:
        process.kill()
        process.communicate()
    assert not psutil.wait_procs(actors, SECONDS)[1], "an actor outlives the learner"
    before = newest(root_dir)
    process = start(gin_file, root_dir)
    try:
        wait_until(lambda: newest(root_dir) > before)
        children = find_children(process)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM and "stopped by SIGTERM" in out, out
    assert f"continues from {root_dir}/checkpoints/ckpt-{before}: " in out
    assert not psutil.wait_procs(children, SECONDS)[1]
    assert json.loads((root_dir / "done.json").read_text())["status"] == "INTERRUPTED"
