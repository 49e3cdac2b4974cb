# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learner.strategy: the update of replicas is that of one device, to rounding."""

import json
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience
from alf.errors import ConfigError
from alf.learner.replicas import MirroredStrategy, Replicas
from tests.example_runs import EXAMPLES, build

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = {2: ("ppo", "impala", "dqn", "sac"), 4: ("ppo",)}


@pytest.mark.parametrize("num_replicas", KINDS)
def test_an_update_is_that_of_one_device(num_replicas):
    # A process of its own: logical devices must be there before TensorFlow starts.
    command = [sys.executable, "-m", "tests.learner.replicas_program", str(num_replicas)]
    command += KINDS[num_replicas]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    for kind, result in json.loads(done.stdout.splitlines()[-1]).items():
        # A gradient of norm 1 has a rounding error of 1e-6 at most; 12 steps of 0.1 follow it.
        assert result["weights"] < 2e-5 and result["summary"] < 1e-4, (kind, result)
        assert result["moved"] > 0.01, (kind, result)
        assert result["devices"] == [f"device:CPU:{i}" for i in range(num_replicas)]


def test_checkpoints_do_not_depend_on_the_strategy(tmp_path):
    def train(num_iterations, *changes):
        stop = f"StopCriteria.num_iterations = {num_iterations}"
        trainer = build(EXAMPLES / "impala_cartpole.gin", tmp_path, [stop, *changes])
        before = [np.asarray(v) for v in trainer.learner.variables]
        assert trainer.train() == (True, f"num_iterations={num_iterations} reached")
        return before, [np.asarray(v) for v in trainer.learner.variables]

    with_strategy = "alf.Learner.strategy = @MirroredStrategy()", "MirroredStrategy.devices = ['CPU:0']"
    _, saved = train(2, *with_strategy)
    restored, saved_again = train(4)
    assert all(np.array_equal(a, b) for a, b in zip(saved, restored, strict=True))
    restored, _ = train(6, *with_strategy)
    assert all(np.array_equal(a, b) for a, b in zip(saved_again, restored, strict=True))


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (["zz"], "MirroredStrategy.devices is 'ZZ': this process has CPU:0"),
        (["CPU:7"], "MirroredStrategy.devices is 'CPU:7': this process has CPU:0"),
        (["CPU:0", "CPU:0"], "it must be a list of different names"),
        (["CPU:0", "/cpu:0"], "it must be a list of different names"),
        ("CPU:0", "MirroredStrategy.devices is 'CPU:0': it must be a list"),
        (3, "MirroredStrategy.devices is 3: it must be a list"),
        ([], r"MirroredStrategy.devices is \[\]: it must be a list"),
        ([3], r"MirroredStrategy.devices is \[3\]: it must be a list"),
    ],
)
def test_devices_that_there_are_not(devices, message):
    with pytest.raises(ConfigError, match=message):
        MirroredStrategy(devices)


@pytest.mark.parametrize(
    "name", ["/cpu:0", "/device:CPU:0", "device:cpu:0", "/job:localhost/replica:0/task:0/device:CPU:0"]
)
def test_a_device_may_be_written_as_tensorflow_does(name):
    assert MirroredStrategy([name]).num_replicas_in_sync == 1


def test_what_adds_no_gradients_up():
    with pytest.raises(ConfigError, match="MirroredStrategy.cross_device_ops is an object of int"):
        MirroredStrategy(["CPU:0"], cross_device_ops=3)


def test_wrong_settings(tmp_path):
    changes = ["alf.Learner.strategy = @MirroredStrategy"]
    with pytest.raises(ConfigError, match=r"Learner.strategy = @MirroredStrategy\(\)$"):
        build(EXAMPLES / "impala_cartpole.gin", tmp_path, changes)
    changes = ["alf.Learner.strategy = @MirroredStrategy()", "alf.Learner.jit_compile = True"]
    with pytest.raises(ConfigError, match="Learner.jit_compile is True: "):
        build(EXAMPLES / "impala_cartpole.gin", tmp_path, changes)


def test_replicas_get_equal_parts():
    extended = mock.Mock(worker_devices=("CPU:0", "CPU:1", "CPU:2"))
    strategy = mock.Mock(spec=tf.distribute.MirroredStrategy, extended=extended)
    batch = Experience(*[tf.zeros((5, 4))] * len(Experience._fields))
    with pytest.raises(ConfigError, match="3 replicas: their number must divide the sequences .* 4$"):
        Replicas(strategy, None).compute(batch)
