# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The strategy of a learner: its checkpoints and settings. `replicas_program_test` compares the updates."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import Experience
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.learner.replicas import MirroredStrategy, Replicas
from tests.builders import build_checkpointer, build_offline_driver
from tests.example_runs import EXAMPLES, build
from tests.learner.learner_test import make_learner, train


def test_checkpoints_do_not_depend_on_the_strategy(tmp_path):
    def run(strategy):
        """Goes on from the last checkpoint, if there is one; returns the variables before and after."""
        learner = make_learner(optimizer=optimizers.Adam(0.5), strategy=strategy)
        checkpointer = build_checkpointer(tmp_path, build_offline_driver(learner))
        checkpointer.restore()
        variables = [*learner.counters, *learner.list_learned()]
        before = [variable.numpy() for variable in variables]
        train(learner)
        checkpointer.counts.iterations += 1
        checkpointer.save()
        return before, [variable.numpy() for variable in variables]

    _, saved = run(MirroredStrategy(["CPU:0"]))
    for strategy in (None, MirroredStrategy(["CPU:0"])):
        restored, saved_again = run(strategy)
        assert all(np.array_equal(a, b) for a, b in zip(saved, restored, strict=True))
        assert not all(np.array_equal(a, b) for a, b in zip(saved, saved_again, strict=True))
        saved = saved_again


WRONG_DEVICES = [
    (["zz"], "MirroredStrategy.devices is 'ZZ': this process has CPU:0"),
    (["CPU:7"], "MirroredStrategy.devices is 'CPU:7': this process has CPU:0"),
    (["CPU:0", "CPU:0"], "it must be a list of different names"),
    (["CPU:0", "/cpu:0"], "it must be a list of different names"),
    ("CPU:0", "MirroredStrategy.devices is 'CPU:0': it must be a tuple or list, each a text"),
    (3, "MirroredStrategy.devices is 3: it must be a tuple or list"),
    ([], r"MirroredStrategy.devices is \[\]: it must be a list"),
    ([3], r"MirroredStrategy.devices\[0\] is 3: it must be a text"),
]


def test_devices_that_are_not_there_are_named(subtests):
    for devices, message in WRONG_DEVICES:
        with subtests.test(devices=devices), pytest.raises(ConfigError, match=message):
            MirroredStrategy(devices)


def test_a_device_may_be_written_as_tensorflow_does(subtests):
    full_name = "/job:localhost/replica:0/task:0/device:CPU:0"
    for name in ("/cpu:0", "/device:CPU:0", "device:cpu:0", full_name):
        with subtests.test(name):
            assert MirroredStrategy([name]).num_replicas_in_sync == 1


def build_with(*changes):
    return lambda tmp_path: build(EXAMPLES / "impala_cartpole.gin", tmp_path, changes)


MIRRORED = "Experiment.strategy = @MirroredStrategy"
WRONG_SETTINGS = [
    (build_with(f"{MIRRORED}()"), "write Experiment.strategy = @MirroredStrategy$"),
    (build_with("Experiment.strategy = @Adam"), "what Experiment.strategy makes .* must be"),
    (build_with(MIRRORED, "LearnerSettings.jit_compile = True"), "LearnerSettings.jit_compile is True: "),
    (lambda _: make_learner(strategy=3), "strategy is 3: it must be"),
    (
        lambda _: MirroredStrategy(["CPU:0"], cross_device_ops=3),
        "MirroredStrategy.cross_device_ops is 3: it must be a CrossDeviceOps",
    ),
]


@pytest.mark.parametrize("call, message", WRONG_SETTINGS)
def test_wrong_settings_are_named(tmp_path, call, message):
    with pytest.raises(ConfigError, match=message):
        call(tmp_path)


def test_all_policies_of_a_run_share_a_strategy(tmp_path):
    changes = ["Experiment.strategy = @MirroredStrategy", 'MirroredStrategy.devices = ["CPU:0"]']
    trainer = build(EXAMPLES / "selfplay_connect_four.gin", tmp_path, changes)
    trainer.driver.stop()
    learners = trainer.learner.learners.values()
    assert [type(x._update._compute.__self__) for x in learners] == [Replicas] * len(learners)


def test_replicas_get_equal_parts():
    extended = mock.Mock(worker_devices=("CPU:0", "CPU:1", "CPU:2"))
    strategy = mock.Mock(spec=tf.distribute.MirroredStrategy, extended=extended)
    batch = Experience(*[tf.zeros((5, 4))] * len(Experience._fields)), ()
    with pytest.raises(ConfigError, match="3 replicas: their number must divide the sequences .* 4$"):
        Replicas(strategy, None).compute(batch)
