# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: two replicas draw in the loss. Prints JSON: their draws, and digests of deterministic runs.

`replica_draws_program.py FOLDER`: each run has a folder of its own in FOLDER.
"""

import functools
import json
import pathlib
import sys

import tensorflow as tf

import alf  # noqa: F401  (before TensorFlow)

(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

# The tests start TensorFlow while they are imported.
from alf.algorithms import PPOAlgorithm  # noqa: E402
from alf.learner import optimizers  # noqa: E402
from alf.learner.replicas import MirroredStrategy  # noqa: E402
from alf.ops import draws  # noqa: E402
from alf.ops.draws import LEARNERS, Stream  # noqa: E402
from alf.runs.digests import read_digests  # noqa: E402
from tests.builders import build_learner  # noqa: E402
from tests.learner.learner_test import Quadratic, make_learner, train  # noqa: E402
from tests.training import determinism_test  # noqa: E402


class Drawing(Quadratic):
    """Shows a number that each replica draws."""

    def train_step(self, experience, prepared):
        return super().train_step(experience, prepared), draws.normal(())

    def calc_loss(self, experience, train_info):
        return super().calc_loss(experience, train_info[0])

    def summarize_train(self, experience, train_infos, loss_info):
        return {f"noise_{i}": noise for i, (_, noise) in enumerate(train_infos)}


class NoisyPPO(PPOAlgorithm):
    """Its weights follow from what each replica draws."""

    def calc_loss(self, experience, train_info):
        info = super().calc_loss(experience, train_info)
        weights = tf.add_n([tf.reduce_sum(variable) for variable in self.policy.trainable_variables])
        return info._replace(loss=info.loss + 0.1 * draws.normal(()) * weights)


def draw(strategy, *key):
    """The numbers that each replica of a learner draws in two updates."""
    learner = make_learner(Drawing, strategy=strategy)
    learner.stream = Stream(*key)
    shown = [train(learner, b=2) for _ in range(2)]
    return [[summary[f"noise_{i}"] for summary in shown] for i in range(2)]


def run_deterministically(folder, strategy):
    """The digests of a run without a stop, and of one that stops and continues."""

    def make(algorithm, replayer):
        splits = {"num_epochs": 2, "num_minibatches": 2, "strategy": strategy}
        return build_learner(algorithm, optimizers.Adam(1e-2), replayer=replayer, **splits)

    parts = determinism_test.ppo("lockstep", algorithm=NoisyPPO, learner=make)
    run = functools.partial(determinism_test.train, parts=parts)
    run(folder / "whole")
    run(folder / "parts", callback=determinism_test.Interrupt(6))
    run(folder / "parts")
    return [list(read_digests(folder / name).values()) for name in ("whole", "parts")]


def main():
    # One for all: TensorFlow refuses a second one in a process.
    strategy = MirroredStrategy(["CPU:0", "CPU:1"])
    keys = (0, LEARNERS, 0), (0, LEARNERS, 0), (0, LEARNERS, 1)
    result = {
        "draws": [draw(strategy, *key) for key in keys],
        "digests": run_deterministically(pathlib.Path(sys.argv[1]), strategy),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
