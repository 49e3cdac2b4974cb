# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: trains on two logical CPU devices, which must be there before TensorFlow starts.

`devices_program.py learner` has all weights on CPU:1, away from the queues, as on a machine with a GPU.
`devices_program.py actors` has the actors there alone. It prints a line of JSON for each run.
"""

import functools
import json
import sys

import tensorflow as tf

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.learner import Learner, UnrollTraining
from alf.training import Experiment
from tests.learner.replicas_program import parts, replay

RUNS = {
    "learner": [
        ("ppo", AsyncOffPolicyDriver),
        ("impala", functools.partial(AsyncOffPolicyDriver, parameter_update_period=2)),
        ("dqn", AsyncOffPolicyDriver),
        ("sac", SyncOffPolicyDriver),
    ],
    "actors": [
        ("impala", functools.partial(AsyncOffPolicyDriver, parameter_update_period=1, actor_device="CPU:1"))
    ],
}


def make_learner(algorithm, training):
    if isinstance(training, UnrollTraining):
        training = UnrollTraining(training.replayer, num_epochs=2, num_minibatches=2)
    else:
        training = replay(training.replayer)
    return Learner(algorithm, tf.keras.optimizers.legacy.Adam(), training)


def train(kind, driver_ctor, device):
    """Trains for a few iterations with the learner's weights on `device`; returns what was where."""
    with tf.device(device):
        driver = Experiment(
            **parts(kind), unroll_length=8, seed=0, driver_ctor=driver_ctor, learner_ctor=make_learner
        ).make_driver()
    policy = getattr(driver, "_policy", driver.learner.policy)
    places = note_devices(policy)
    driver.start()
    for _ in range(20):
        driver.collect()
        driver.learner.train()
    driver.stop()
    return {
        "updates": int(driver.learner.progress.updates),
        "learner": sorted({v.device[-5:] for v in driver.learner.policy.variables}),
        "actors": sorted({v.device[-5:] for v in policy.variables}),
        "rollout": sorted(places),
    }


def note_devices(policy):
    """Returns a set that gets the devices that are chosen for `rollout_step`, "" where none is."""
    devices, rollout_step = set(), policy.rollout_step

    def note(time_step, state):
        devices.add(tf.identity(time_step.reward).device[-5:])
        return rollout_step(time_step, state)

    policy.rollout_step = note
    return devices


def main():
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    device = {"learner": "CPU:1", "actors": "CPU:0"}[sys.argv[1]]
    for kind, driver_ctor in RUNS[sys.argv[1]]:
        print(json.dumps(train(kind, driver_ctor, device)), flush=True)


if __name__ == "__main__":
    main()
