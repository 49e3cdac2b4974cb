# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tunables in algorithms, policies and optimizers: they count as numbers do, and checkpoints hold them."""

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import dqn, impala, ppo, sac  # noqa: F401  (names for gin)
from alf.policies.data_transformers import RewardShaping
from alf.schedules import Tunable, find_tunables
from alf.training import Experiment, Trainer
from alf.training.config import parse_config
from tests.bin.conftest import KINDS

SYNC = "Experiment.driver_ctor = @SyncOffPolicyDriver\nTrainer.save_git_state = False"
PPO = KINDS["cartpole"] + "Experiment.algorithm_ctor = @PPOAlgorithm\n"
SCALED = "\nExperiment.data_transformers = (@RewardScaling,)\nRewardScaling.scale = 0.5\n"
CASES = {
    "PPOAlgorithm.discount": (PPO, 0.5),
    "PPOAlgorithm.entropy_weight": (PPO, 0.5),
    "PPOAlgorithm.clip_range": (PPO + "UnrollTraining.num_epochs = 3\n", 1e-4),
    "RewardScaling.scale": (PPO + SCALED, 2.0),
    "ImpalaAlgorithm.discount": (KINDS["cartpole"], 0.5),
    "ImpalaAlgorithm.entropy_weight": (KINDS["cartpole"], 0.5),
    "Adam.learning_rate": (KINDS["sac"], 0.1),
    "DqnAlgorithm.discount": (KINDS["dqn"], 0.5),
    "alf.EpsilonGreedyPolicy.epsilon": (KINDS["dqn"], 0.9),
    "SacAlgorithm.discount": (KINDS["sac"], 0.5),
}
OTHER = 0.25  # than all the values above


def train(root_dir, config, binding, assign=None, iterations=3):
    """Trains with a binding, and after that with `assign` as its value; returns the trainer."""
    gin.clear_config()
    text = "\n".join(line.strip() for line in f"{config}\n{SYNC}\n{binding}".splitlines())
    parse_config([], [text, f"StopCriteria.num_iterations = {iterations}"])
    trainer = Trainer(str(root_dir), Experiment().make_driver())
    for tunable in find_tunables(trainer.learner).get("x", []) if assign is not None else ():
        tunable.assign(assign)
    trainer.train()
    return trainer


def as_tunable(name, value):
    return f'{name} = @x/Tunable()\nx/Tunable.value = {value}\nx/Tunable.setting = "x"'


def weights(trainer):
    return [variable.numpy() for variable in trainer.learner.trainable_variables]


def are_equal(some, others):
    return all(np.array_equal(x, y) for x, y in zip(some, others, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_is_assigned_counts_as_the_number_does(tmp_path, name):
    config, value = CASES[name]
    expected = weights(train(tmp_path / "number", config, f"{name} = {value}"))
    tunable = as_tunable(name, OTHER)
    assert are_equal(weights(train(tmp_path / "assigned", config, tunable, assign=value)), expected)
    assert not are_equal(weights(train(tmp_path / "other", config, tunable)), expected)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_has_the_value(tmp_path, name):
    config, value = CASES[name]
    train(tmp_path, config, as_tunable(name, OTHER), assign=value, iterations=1)
    trainer = train(tmp_path, config, as_tunable(name, OTHER), iterations=2)
    tunables = find_tunables(trainer.learner)["x"]
    assert {tunable.value for tunable in tunables} == {value}
    assert len(tunables) == (3 if name == "Adam.learning_rate" else 1)


def test_a_weight_of_the_reward_shaping_is_found():
    spec = tf.TensorSpec((), tf.float32)
    shaping = RewardShaping(spec, spec, weights={"energy": Tunable(-0.1, setting="energy"), "height": 1.0})
    (tunable,) = find_tunables(shaping)["energy"]
    assert tunable.value == -0.1 and tunable in shaping.submodules
