# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Weights on another device than the queues, as on a machine with a GPU; actors on a device of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from alf.drivers import AsyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import Learner
from alf.testing.fakes import FrozenPolicy, RecordingLearner, make_counting_envs
from tests.example_runs import EXAMPLES, build

ROOT = Path(__file__).resolve().parent.parent


def run(*args):
    command = [sys.executable, "-m", "tests.devices_program", *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_the_learner_is_on_another_device_than_the_queues():
    results = run("learner")
    assert len(results) == 4
    for result in results:
        assert result["learner"] == result["actors"] == ["CPU:1"]
        assert result["updates"] > 0


def test_the_actors_are_on_a_device_of_their_own():
    (result,) = run("actors")
    assert result["learner"] == ["CPU:0"] and result["actors"] == result["rollout"] == ["CPU:1"]
    assert result["updates"] == 20 * 4


def test_learner_device_and_actor_device():
    ppo, dqn = run("settings")
    for result in ppo, dqn:
        assert result["learner"] == result["updated on"] == ["CPU:1"], result
        assert result["actors"] == result["rollout"] == ["CPU:2"], result
        assert result["updates"] > 0
    assert dqn["buffer"] == ["CPU:0"]


def test_checkpoints_do_not_depend_on_the_devices(tmp_path):
    (result,) = run("checkpoints", str(tmp_path))
    assert result == {"devices": [["CPU:1"], ["CPU:0"], ["CPU:1"]], "goes on": True}


def test_a_learner_device_that_is_not_there(tmp_path):
    changes = ["Experiment.learner_device = 'GPU:7'"]
    with pytest.raises(ConfigError, match="^Experiment.learner_device is 'GPU:7': this process has CPU:0"):
        build(EXAMPLES / "impala_cartpole.gin", tmp_path, changes)
    with pytest.raises(ConfigError, match="^Learner.device is 'GPU:7': this process has CPU:0"):
        Learner(None, device="GPU:7")


@pytest.mark.parametrize(
    "settings, message",
    [
        ({}, "actor_device is 'CPU:0': the weights must be copied there; set parameter_update_period"),
        (
            {"parameter_update_period": 1, "actor_device": "GPU:7"},
            "actor_device is 'GPU:7': this process has CPU:0",
        ),
    ],
)
def test_wrong_actor_devices(settings, message):
    envs = make_counting_envs(1)
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    with pytest.raises(ConfigError, match=message):
        AsyncOffPolicyDriver(envs, learner, **{"actor_device": "CPU:0", **settings})
