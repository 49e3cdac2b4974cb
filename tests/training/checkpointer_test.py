# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a checkpoint brings back, and what is refused."""

import functools
import os

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.data_structures import Experience
from alf.drivers import OfflineDriver
from alf.errors import ConfigError, DivergedError
from alf.learner import Learner
from alf.nest_utils import to_tensor_spec
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.policies.action_distributions import ActionInfo
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training.checkpointer import Checkpointer

SPECS = tuple(
    to_tensor_spec(s)
    for s in (
        MatchObservationEnvironment(1).observation_spec(),
        MatchObservationEnvironment(1).action_spec(),
    )
)


def make_driver(seed=0, units=8):
    """A driver that collects nothing, and its learner."""
    network_ctor = functools.partial(ActorCriticNetwork, fc_layer_params=(units,), seed=seed)
    policy = ActorCriticPolicy(*SPECS, network_ctor=network_ctor)
    optimizer = tf.keras.optimizers.legacy.Adam(0.01)
    driver = OfflineDriver(Learner(ImpalaAlgorithm(policy), optimizer, max_grad_norm=40.0))
    driver.optimizer = optimizer  # for `state`
    return driver


def train(driver, seed=0):
    rng = np.random.default_rng(seed)
    shape = (1, 4, 2)
    floats = lambda *more: tf.constant(rng.normal(size=(*shape, *more)), tf.float32)  # noqa: E731
    experience = Experience(
        step_type=tf.ones(shape, tf.int32),
        reward=floats(),
        discount=tf.ones(shape),
        observation=floats(3),
        prev_action=tf.zeros(shape, tf.int64),
        env_id=tf.zeros(shape, tf.int32),
        action=tf.constant(rng.integers(0, 3, shape)),
        info=ActionInfo(floats(3), tf.constant(rng.integers(0, 3, shape))),
        policy_version=tf.zeros(shape, tf.int64),
    )
    driver.learner.observe(experience)
    driver.learner.train()


def state(driver):
    """Every variable: weights, counters, then Adam's m and v of every weight."""
    optimizer, weights = driver.optimizer, driver.learner.trainable_variables
    optimizer._create_all_weights(weights)
    slots = [optimizer.get_slot(w, name) for name in ("m", "v") for w in weights]
    variables = [*driver.learner.variables, optimizer.iterations, *slots]
    assert len(slots) + 1 == len(optimizer.variables())
    return [v.numpy() for v in variables]


def metrics(driver):
    return {metric.name: metric for metric in driver.get_metrics()}


def test_a_checkpoint_brings_everything_back(tmp_path):
    driver = make_driver(seed=0)
    saved = Checkpointer(str(tmp_path), driver)
    assert saved.restore() is None
    for seed in range(3):
        train(driver, seed)
    saved.iterations = 3
    driver.learner.progress.env_steps.assign(77)
    metrics(driver)["NumberOfEpisodes"].set_state(5)
    metrics(driver)["AverageReturn"].set_state([1.0, 2.0, 3.5])
    path = saved.save()
    assert path.endswith("ckpt-3")

    other = make_driver(seed=1)
    restored = Checkpointer(str(tmp_path), other)
    assert restored.iterations == other.learner.progress.env_steps == 0
    assert restored.restore() == path
    assert restored.iterations == 3 and other.learner.progress.env_steps == 77
    assert metrics(other)["NumberOfEpisodes"].get_state() == 5
    assert metrics(other)["AverageReturn"].get_state() == [1.0, 2.0, 3.5]
    for a, b in zip(state(driver), state(other), strict=True):
        np.testing.assert_array_equal(a, b)
    # Adam's iterations, m and v among them, and not zeros.
    assert other.learner.train_step_counter.numpy() == other.optimizer.iterations.numpy() == 3
    assert all(slot.any() for slot in state(other)[-8:])
    # Both go on in the same way.
    train(driver, 9)
    train(other, 9)
    for a, b in zip(state(driver), state(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_restoring_before_the_slots_exist_is_enough(tmp_path):
    driver, other = make_driver(seed=0), make_driver(seed=1)
    train(driver)
    Checkpointer(str(tmp_path), driver).save()
    Checkpointer(str(tmp_path), other).restore()
    for x in (driver, other):
        train(x, 1)  # makes other's slots inside the graph
    for a, b in zip(state(driver), state(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_keeps_the_newest(tmp_path):
    checkpointer = Checkpointer(str(tmp_path), make_driver(), max_to_keep=2)
    for iterations in (1, 5, 9, 9):
        checkpointer.iterations = iterations
        checkpointer.save()
    names = {name for name in os.listdir(tmp_path) if name.endswith(".index")}
    assert names == {"ckpt-5.index", "ckpt-9.index"}
    assert Checkpointer(str(tmp_path), make_driver()).restore().endswith("ckpt-9")


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    Checkpointer(str(tmp_path), make_driver(units=8)).save()
    with pytest.raises(ConfigError, match="ckpt-0 does not fit this algorithm"):
        Checkpointer(str(tmp_path), make_driver(units=9)).restore()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_not_saved(tmp_path, value):
    driver = make_driver()
    checkpointer = Checkpointer(str(tmp_path), driver)
    before = checkpointer.save()
    variable = driver.learner.trainable_variables[0]
    variable.assign(tf.fill(variable.shape, value))
    checkpointer.iterations = 1
    with pytest.raises(DivergedError, match="not finite, so no checkpoint was written"):
        checkpointer.save()
    assert tf.train.latest_checkpoint(str(tmp_path)) == before
