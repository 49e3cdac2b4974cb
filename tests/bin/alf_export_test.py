# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf-export: its flags, its exit status, what it prints.

Not in the process of the tests, where other commands have defined flags of the same names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.training import Experiment, Trainer
from alf.training.config import own_config
from alf.training.saved_run import load_agent

ROOT = str(Path(__file__).resolve().parent.parent.parent)
CONFIG = """
Experiment.env_ctor = @alf.environments.load
Experiment.num_envs = 1
Experiment.unroll_length = 4
alf.environments.load.name = "CartPole-v1"
alf.environments.load.batch_size = 2
ActorCriticNetwork.fc_layer_params = (8,)
alf.Learner.optimizer = @Adam()
Adam.learning_rate = 0.01
StopCriteria.num_iterations = {iterations}
"""
# Calls the command several times, and writes the status and the lines of each call.
SEVERAL_CALLS = """
import contextlib, io, json, sys
import gin
from absl import flags
from absl.testing import flagsaver
from alf.bin import export

sys.modules["tf2onnx"] = None  # as if it were not installed
results = []
for args in json.loads(sys.argv[1]):
    gin.clear_config()
    lines = io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stdout(lines), contextlib.redirect_stderr(lines):
        flags.FLAGS(["alf-export", *args])
        status = export.main(["alf-export"])
    results.append([status, lines.getvalue().splitlines()])
print(json.dumps(results))
"""


def run(*args):
    env = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def root_dir(tmp_path_factory):
    """A run with checkpoints 1 and 2."""
    root_dir = tmp_path_factory.mktemp("run")
    for iterations in (1, 2):
        with own_config():
            gin.parse_config(CONFIG.format(iterations=iterations))
            Trainer(str(root_dir), Experiment().make_driver()).train()
    return root_dir


def act(folder, observation):
    function = tf.saved_model.load(str(folder)).signatures["serving_default"]
    return function(observation=tf.constant(observation))["action"].numpy()


def test_flags(root_dir, tmp_path):
    before = sorted(path.stat().st_mtime_ns for path in root_dir.rglob("*"))
    newest, first, none = tmp_path / "newest", tmp_path / "first", tmp_path / "none"
    calls = [
        [f"--output={newest}"],
        [f"--output={newest}"],
        [f"--output={first}"],
        [f"--output={first}", "--overwrite", "--checkpoint=1", "--tflite", "--sample"],
        [f"--output={none}", "--onnx"],
        [f"--output={none}", "--gin_param=GRU.units=9"],
        [f"--output={none}", "--gin_param=ActorCriticNetwork.fc_layer_params=(9,)"],
    ]
    calls = [[f"--root_dir={root_dir}", *call] for call in calls]
    calls.append([f"--root_dir={tmp_path}", f"--output={none}"])
    calls.append([f"--root_dir={root_dir}"])
    calls.append([f"--root_dir={root_dir}", f"--output={tmp_path}/\udcff"])
    calls.append([f"--root_dir={root_dir}", f"--output={tmp_path}", "--overwrite"])
    done = run("-c", SEVERAL_CALLS, json.dumps(calls))
    assert done.returncode == 0, done.stderr
    statuses, lines = zip(*json.loads(done.stdout.splitlines()[-1]), strict=True)
    assert statuses == (0, 2, 0, 0, 2, 2, 2, 2, 2, 2, 2)
    assert lines[0] == [f"{root_dir}/checkpoints/ckpt-2 is exported to {newest}"]
    assert lines[1] == [f"error: --output={newest}: this exists; --overwrite replaces an earlier export"]
    assert lines[3] == [f"{root_dir}/checkpoints/ckpt-1 is exported to {first}"]
    assert lines[4][0].startswith("error: --onnx needs tf2onnx: pip install 'alf-tf[onnx]'")
    assert lines[5] == ["error: nothing reads the gin binding GRU.units"]
    assert "does not fit this policy" in lines[6][-1]
    assert "holds no run" in lines[7][-1]
    assert lines[8] == ["error: --output is missing: name the folder to write"]
    assert lines[9][-1].endswith("the name of each folder must be UTF-8") and "--output" in lines[9][-1]
    assert lines[10] == [f"error: --output '{tmp_path}' is no export: overwrite does not replace it"]
    assert not none.exists()
    assert before == sorted(path.stat().st_mtime_ns for path in root_dir.rglob("*"))

    observation = np.random.default_rng(0).normal(size=[50, 4]).astype(np.float32)
    np.testing.assert_array_equal(act(newest, observation), load_agent(root_dir).predict(observation)[0])
    assert tf.saved_model.load(str(first)).get_train_step() == 1
    assert set(act(first, np.zeros([300, 4], np.float32))) == {0, 1}  # it samples
    assert (first / "policy.tflite").exists() and not (newest / "policy.tflite").exists()
