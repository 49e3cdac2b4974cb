# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf train with collectors and evaluation on Ray: the learner is killed, a run goes on, a signal ends it."""

import json
import signal

import psutil
import pytest

from tests.bin.conftest import write_config
from tests.bin.forks import SECONDS
from tests.programs import ALF

pytestmark = pytest.mark.programs

pytest.importorskip("ray")

SETTINGS = {
    "Experiment.num_envs": 0,
    "Experiment.num_collectors": 1,
    "RayCollectors.num_envs": 2,
    "RayCollectors.num_groups": 1,
    "Trainer.evaluator": "@Evaluator",
    "Evaluator.interval_seconds": 0.1,
    "Evaluator.num_episodes": 1,
    "Evaluator.place": '"cluster"',
    "RayEvaluator.num_cpus": 0,
    "StopCriteria.num_iterations": 10**9,
    "Checkpoints.interval": 0.0,
}


def newest(root_dir):
    """The number of the newest checkpoint; 0 without one."""
    return max((int(path.name[5:]) for path in root_dir.glob("checkpoints/ckpt-*")), default=0)


def best(root_dir):
    """Whether an evaluation has ended."""
    return any(root_dir.glob("checkpoints/best/ckpt-*/evaluation.json"))


def find_children(fork):
    """All that the process has started."""
    return psutil.Process(fork.pid).children(recursive=True)


@pytest.mark.timeout(900)  # several time-outs of its own
def test_the_learner_dies_and_the_run_goes_on(tmp_path, forks):
    root_dir = tmp_path / "run"
    params = [f"--{name}={value}" for name, value in SETTINGS.items()]
    flags = write_config(tmp_path, "own"), f"--output={root_dir}", "--ray_address=local"
    program = ALF, "train", *flags, *params
    with forks.start(*program, cwd=tmp_path) as fork:
        fork.wait_until(lambda: newest(root_dir) >= 5 and best(root_dir))
        names = "CollectorActor", "EvaluationActor"
        actors = [child for child in find_children(fork) if any(name in child.name() for name in names)]
        assert len(actors) == 2
    assert fork.poll() == -signal.SIGKILL
    assert not psutil.wait_procs(actors, SECONDS)[1], "an actor outlives the learner"
    before = newest(root_dir)
    with forks.start(*program, cwd=tmp_path) as fork:
        fork.wait_until(lambda: newest(root_dir) > before)
        children = find_children(fork)
        fork.send_signal(signal.SIGTERM)
        done = fork.finish()
    assert done.status == 128 + signal.SIGTERM and "stopped by SIGTERM" in done.out, done
    assert f"continues from {root_dir}/checkpoints/ckpt-{before}: " in done.err
    assert not psutil.wait_procs(children, SECONDS)[1]
    assert json.loads((root_dir / "done.json").read_text())["status"] == "INTERRUPTED"
