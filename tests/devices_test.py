# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Settings of devices that are wrong; training on several devices is in devices_program_test.py."""

import pytest

from alf.drivers import AsyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import Learner
from alf.testing.fakes import FrozenPolicy, RecordingLearner, make_counting_envs
from tests.builders import build_driver
from tests.example_runs import EXAMPLES, build


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
        build_driver(AsyncOffPolicyDriver, envs, learner, **{"actor_device": "CPU:0", **settings})
