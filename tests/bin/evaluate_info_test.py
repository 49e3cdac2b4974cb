# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The command that evaluates prints the figures of the environment's info."""

import json
import os
import subprocess
import sys

import gin

from alf.training import Experiment, Trainer
from alf.training.config import own_config

CONFIG = """
import alf.learner.optimizers
Experiment.env_ctor = @alf.environments.load
Experiment.num_envs = 1
Experiment.unroll_length = 4
alf.environments.load.name = "registers_info_env:Info-v0"
alf.environments.load.batch_size = 2
alf.environments.load.num_workers = 0
alf.environments.load.info_keys = ("step", "deep/even", "never")
ActorCriticNetwork.fc_layer_params = (8,)
alf.Learner.optimizer = @Adam()
Adam.learning_rate = 0.01
StopCriteria.num_iterations = 2
"""
MODULE = """
import gymnasium
gymnasium.register("Info-v0", "tests.workers.envs:InfoEnv", kwargs={"number": 3})
"""


def test_it_prints_the_info(tmp_path, monkeypatch):
    (tmp_path / "registers_info_env.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    with own_config():
        gin.parse_config(CONFIG)
        Trainer(str(tmp_path / "run"), Experiment().make_driver()).train()
    command = [sys.executable, "-m", "alf.bin.evaluate", f"--root_dir={tmp_path / 'run'}"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(
        [*command, "--num_episodes=4", "--json"], capture_output=True, text=True, env=env, timeout=300
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["info/step"]["mean"] == 3 and figures["info_last/step"]["mean"] == 5
    assert figures["info/deep/even"]["max"] == 3
    assert "info_last/deep/even" not in figures and "info/never" not in figures
