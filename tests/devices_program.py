# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: trains on three logical CPU devices, which must be there before TensorFlow starts.

`devices_program.py learner` has all weights on CPU:1, away from the queues, as on a machine with a GPU;
`devices_program.py auto` has the learner there, and leaves the place of the actors to ALF.
`devices_program.py actors` has the actors there alone. `devices_program.py settings` has the learner on CPU:1
and the actors on CPU:2, by the settings for it. It prints a line of JSON for each run.
`devices_program.py prefetch` has the learner on CPU:1, where the batches are loaded before it takes them.
`devices_program.py checkpoints DIR` continues a run with these settings, without, and with them again.
"""

import functools
import json
import sys

import numpy as np
import tensorflow as tf

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.learner import UnrollLearner, optimizers
from alf.replay import UnrollReplayer
from alf.training import Experiment
from tests.builders import build_driver, build_learner, driver_of
from tests.example_runs import EXAMPLES, build
from tests.learner.replicas_program import parts, replay

COPIES = functools.partial(build_driver, AsyncOffPolicyDriver, parameter_update_period=1)
SAME = functools.partial(build_driver, AsyncOffPolicyDriver, actor_device="CPU:1")
RUNS = {
    "learner": [
        ("ppo", SAME),
        ("impala", functools.partial(SAME, parameter_update_period=2)),
        ("dqn", SAME),
        ("sac", functools.partial(build_driver, SyncOffPolicyDriver, actor_device="CPU:1")),
    ],
    "auto": [("impala", AsyncOffPolicyDriver), ("dqn", AsyncOffPolicyDriver), ("sac", SyncOffPolicyDriver)],
    "actors": [("impala", functools.partial(build_driver, AsyncOffPolicyDriver, actor_device="CPU:1"))],
    "prefetch": [("impala", functools.partial(COPIES, prefetch=True))],
    "settings": [
        ("ppo", functools.partial(COPIES, actor_device="CPU:2")),
        ("dqn", functools.partial(COPIES, actor_device="CPU:2")),
        ("ppo", functools.partial(build_driver, SyncOffPolicyDriver, actor_device="CPU:2")),
    ],
}
SETTINGS = ["Experiment.learner_device = 'CPU:1'", "DriverSettings.actor_device = 'CPU:2'"]


def make_learner(algorithm, replayer, **settings):
    if isinstance(replayer, UnrollReplayer):
        make = functools.partial(UnrollLearner, replayer=replayer, num_epochs=2, num_minibatches=2)
    else:
        make = replay(replayer)
    return build_learner(algorithm, optimizers.Adam(), make, **settings)


def train(kind, driver_class, learner_device):
    """Trains for a few iterations; returns what was where."""
    driver = driver_of(
        Experiment(
            **parts(kind),
            unroll_length=8,
            seed=0,
            driver=driver_class,
            learner=make_learner,
            learner_device=learner_device,
        )
    )
    policy = getattr(driver, "_acting", driver.policy)
    places = note_devices(policy)
    results, batches, newest = set(), set(), []

    def observe(experience):
        # Whose memory it is. Functions of TensorFlow return int32 in main memory, whatever the device.
        leaves = [x for x in tf.nest.flatten(experience) if x.dtype != tf.int32]
        batches.update(x.backing_device[-5:] for x in leaves)
        driver.learner.observe(experience)

    driver.start()
    for _ in range(20):
        for experience in driver.collect():
            observe(experience)
        pairs = zip(policy.variables, driver.policy.variables, strict=True)
        newest.append(all(np.array_equal(ours, theirs) for ours, theirs in pairs))
        results |= {x.device[-5:] for x in driver.learner.train().values() if tf.is_tensor(x)}
    driver.stop()
    return {
        "acted with the newest weights": all(newest),
        "updates": int(driver.learner.progress.updates),
        "learner": devices_of(driver.learner.trainable_variables),
        "batches": sorted(batches),
        "updated on": sorted(results),
        "actors": devices_of(policy.trainable_variables),
        "rollout": sorted(places),
        "buffer": devices_of(tf.nest.flatten(getattr(driver.learner.replayer, "rows", ()))),
    }


def devices_of(variables):
    return sorted({v.device[-5:] for v in variables})


def note_devices(policy):
    """Returns a set that gets the devices that are chosen for `rollout_step`, "" where none is."""
    devices, rollout_step = set(), policy.rollout_step

    def note(time_step, state):
        devices.add(tf.identity(time_step.reward).device[-5:])
        return rollout_step(time_step, state)

    policy.rollout_step = note
    return devices


def continue_run(root_dir, num_iterations, changes):
    """Trains an example in its directory until `num_iterations`; returns where, and the weights around it."""
    stop = f"StopCriteria.num_iterations = {num_iterations}"
    changes = [stop, "DriverSettings.parameter_update_period = 1", *changes]
    trainer = build(EXAMPLES / "impala_cartpole.gin", root_dir, changes)
    variables = trainer.learner.variables
    before = [np.asarray(v) for v in variables]
    assert trainer.train() == (True, f"num_iterations={num_iterations} reached")
    return devices_of(trainer.learner.trainable_variables), before, [np.asarray(v) for v in variables]


def continue_with_and_without(root_dir):
    """Continues a run with settings of devices and without; returns the devices and whether it went on."""
    on_1, _, saved = continue_run(root_dir, 2, SETTINGS)
    on_0, restored, saved_again = continue_run(root_dir, 4, [])
    on_1_again, restored_again, _ = continue_run(root_dir, 6, SETTINGS)
    pairs = zip([*saved, *saved_again], [*restored, *restored_again], strict=True)
    return {"devices": [on_1, on_0, on_1_again], "goes on": all(np.array_equal(a, b) for a, b in pairs)}


def main():
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
    which = sys.argv[1]
    if which == "checkpoints":
        print(json.dumps(continue_with_and_without(sys.argv[2])))
        return
    learner_device = "CPU:0" if which == "actors" else "CPU:1"
    for kind, driver_class in RUNS[which]:
        print(json.dumps(train(kind, driver_class, learner_device)), flush=True)


if __name__ == "__main__":
    main()
