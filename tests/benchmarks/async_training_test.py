# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.async_training: its configurations run, and its rows say what happened."""

import pytest

from benchmarks.one_run import Run, train
from tests.benchmarks.conftest import import_program

pytestmark = pytest.mark.programs

program = import_program("benchmarks.async_training")
DRIVERS, make_config, row = program.DRIVERS, program.make_config, program.row

TEXT = """Experiment.num_groups = 8
Experiment.algorithm = @PPOAlgorithm
StopCriteria.num_iterations = 5
alf.environments.load.name = "CartPole-v1"
Experiment.num_envs = 8
Experiment.unroll_length = 8  # steps
DriverSettings.learn_queue_cap = 1
UnrollLearner.num_epochs = 4
UnrollLearner.num_minibatches = 4
UnrollLearner.optimizer = @Adam()
LearnerSettings.max_grad_norm = 0.5
"""


@pytest.mark.parametrize("driver", ["sync", "async, collects while it waits"])
def test_a_run(driver, forks_python):
    run = train(make_config(TEXT, driver), seed=0, max_seconds=300, target=None)
    assert run.steps_per_second > 0 and run.lag >= 0
    assert run.seconds is run.env_steps is None, "there was no target"


def test_every_driver_gets_the_same_batch():
    for driver in DRIVERS:
        config = make_config(TEXT, driver)
        assert "Experiment.num_groups = 2" in config and "num_groups = 8" not in config
        assert "Experiment.unroll_length = 8  # steps\n" in config and "learn_queue_cap = 1" not in config


def test_a_row_tells_what_was_missed():
    runs = [Run(100.0, 2.0, 1000, 1.0), Run(300.0, None, None, 3.0), Run(200.0, 4.0, 3000, 2.0)]
    assert row("sync", runs) == "| sync | 200 | 3.0 (2 of 3) | 2,000 (2 of 3) | 2.0 |"
