# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.kill_collectors: what it takes away and when, and a whole run."""

import functools
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from alf.environments import load
from benchmarks import slow_steps
from tests.benchmarks.conftest import import_program

pytestmark = pytest.mark.programs

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parent.parent.parent


class FakeNodes:
    """Has a collector from the second time on that one is looked for."""

    def __init__(self, training):
        self.calls, self._training = [], training

    def kill_collector(self):
        self.calls.append("kill")
        return len(self.calls) > 1

    def replace_node(self):
        self.calls.append("replace")
        if self.calls.count("replace") == 2:
            self._training.kill()
        return True


def start_sleep():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


@pytest.fixture(scope="module")
def program():
    return import_program("benchmarks.kill_collectors")


def test_collectors_and_nodes_are_lost_in_turn_until_the_training_ends(program):
    training = start_sleep()
    nodes = FakeNodes(training)
    losses = program.take_away(nodes, training, interval=0.05, limit=100)
    assert nodes.calls == ["kill", "kill", "replace", "kill", "replace"]
    assert losses == ["kill_collector", "replace_node"] * 2
    assert training.wait(0) != 0


def test_the_limit_ends_it(program):
    training, start = start_sleep(), time.monotonic()
    try:
        assert program.take_away(FakeNodes(training), training, interval=100, limit=0.1) == []
        assert 0.1 <= time.monotonic() - start < 50
        program.end(training)
        assert training.returncode < 0
    finally:
        training.kill()


def test_the_outcome_is_read_from_the_run(program, tmp_path):
    log, done = tmp_path / "log", tmp_path / "done.json"
    log.write_text(
        "collector 0 of 2 has died: x: restart 1 of 9 within 600 s\nsteps\ny: restart 2 of 9 within\n"
    )
    outcome = program.describe(log, done, [], 1.0)
    assert not outcome["reached"] and outcome["reason"].endswith("restart 2 of 9 within\n")
    done.write_text(json.dumps({"status": "SUCCESS", "reason": "target_return=3 reached: 4"}))
    outcome = program.describe(log, done, ["kill_collector", "replace_node", "kill_collector"], 1.26)
    assert outcome == {
        "reached": True,
        "status": "SUCCESS",
        "reason": "target_return=3 reached: 4",
        "collectors_killed": 2,
        "nodes_replaced": 1,
        "collectors_replaced": 2,
        "seconds": 1.3,
    }


def test_a_slow_step_sleeps(monkeypatch):
    monkeypatch.setattr(slow_steps, "load", functools.partial(load, "CartPole-v1"))
    env = slow_steps.SlowSteps(seed=0, batch_size=3, ms=50.0)
    env.reset()
    start = time.monotonic()
    step = env.step(np.zeros(3, np.int64))
    assert time.monotonic() - start >= 0.05 and step.reward.shape == (3,)
    env.close()


@pytest.mark.slow
@pytest.mark.timeout(1300)  # longer than the time-out of the program
def test_a_run_reaches_its_target(tmp_path):
    # At most 4 * 32 / 0.02 = 6,400 steps a second: the 700,000 that it needs take longer than two intervals.
    # With shorter ones, two cores spend most of their time on starting collectors.
    settings = ["--interval=40", "--step_ms=20", "--limit=900", f"--log={tmp_path}/log"]
    settings += ["--param=RayCollectors.num_envs=32"]
    command = [sys.executable, "-m", "benchmarks.kill_collectors", *settings]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout[done.stdout.index("{") :])
    assert outcome["reached"] and outcome["status"] == "SUCCESS"
    assert outcome["collectors_killed"] >= 1 and outcome["nodes_replaced"] >= 1
    assert outcome["collectors_replaced"] >= 1 and "restart 1 of" in (tmp_path / "log").read_text()
