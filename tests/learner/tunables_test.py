# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tunables in algorithms, policies and optimizers: they count as numbers do, and checkpoints hold them."""

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.core.nest_utils import zeros_from_spec
from alf.learner.optimizers import Adam
from alf.policies.data_transformers import RewardScaling, RewardShaping
from alf.schedules import Tunable, find_tunables
from tests.builders import build_checkpointer, build_offline_driver
from tests.learner.small_learners import collect, make_env, make_learner

ALGORITHMS = {"impala": ImpalaAlgorithm, "ppo": PPOAlgorithm, "dqn": DqnAlgorithm, "sac": SacAlgorithm}
SETTINGS = {
    "impala": {"ImpalaAlgorithm.discount": 0.5, "ImpalaAlgorithm.entropy_weight": 0.5},
    "ppo": {
        "PPOAlgorithm.discount": 0.5,
        "PPOAlgorithm.entropy_weight": 0.5,
        "PPOAlgorithm.clip_range": 1e-4,
        "RewardScaling.scale": 2.0,
    },
    "dqn": {"DqnAlgorithm.discount": 0.5, "alf.EpsilonGreedyPolicy.epsilon": 0.9},
    "sac": {"SacAlgorithm.discount": 0.5, "Adam.learning_rate": 0.1},
}
OTHER = 0.25  # than all the values above
GROUPS = ("actor", "critic", "alpha")  # of SAC, each with an optimizer of its own


def make(kind, bindings):
    """A learner of a kind with some bindings of gin, and its environment."""
    gin.clear_config()
    gin.parse_config(bindings)
    env = make_env(continuous=kind == "sac")
    transformers = (RewardScaling,) if kind == "ppo" else ()
    optimizer = {name: Adam() for name in GROUPS} if kind == "sac" else None
    return make_learner(ALGORITHMS[kind], env, None, optimizer, transformers), env


def make_with_numbers(kind):
    return make(kind, [f"{name} = {value}" for name, value in SETTINGS[kind].items()])


def make_with_tunables(kind):
    """All settings are Tunables, whose value is `OTHER`."""
    bindings = []
    for i, name in enumerate(SETTINGS[kind]):
        scope = f"x{i}/Tunable"
        bindings += [f"{name} = @{scope}()", f"{scope}.value = {OTHER}", f'{scope}.setting = "{name}"']
    return make(kind, bindings)


def assign(learner, values):
    for name, value in values.items():
        for tunable in find_tunables(learner)[name]:
            tunable.assign(value)


def list_state(learner):
    """The variables that an update reads or changes, without Tunables."""
    tunables = {id(v) for found in find_tunables(learner).values() for t in found for v in t.variables}
    return [v for v in [*learner.list_learned(), *learner.progress] if id(v) not in tunables]


def train_and_act(learner, experience, start):
    """Trains from the state `start` on an unroll; returns the variables after it, and actions."""
    for variable, value in zip(list_state(learner), start, strict=True):
        variable.assign(value)
    learner.replayer.clear()
    learner.observe(experience)
    learner.train()
    after = [variable.numpy() for variable in list_state(learner)]
    # The same random numbers each time, for many rows.
    tf.random.set_seed(0)
    rows = zeros_from_spec(learner.policy.time_step_spec, 100)
    state = zeros_from_spec(learner.policy.state_spec, 100)
    return [*after, learner.policy.rollout(rows, state).action.numpy()]


def are_equal(some, others):
    return all(np.array_equal(x, y) for x, y in zip(some, others, strict=True))


@pytest.mark.parametrize("kind", SETTINGS)
def test_an_assigned_value_counts_as_the_number_does(kind, subtests, monkeypatch):
    """Also where the graph of the update was traced before."""
    monkeypatch.setattr(tf.random, "shuffle", lambda x: tf.reverse(x, [0]))
    monkeypatch.setattr(tf.random, "normal", lambda shape: tf.fill(shape, 0.3))
    plain, env = make_with_numbers(kind)
    tunable, _ = make_with_tunables(kind)
    tunable.stream = plain.stream
    experience, start = collect(env, plain), [variable.numpy() for variable in list_state(plain)]
    expected = train_and_act(plain, experience, start)
    assert not are_equal(train_and_act(tunable, experience, start), expected)
    assign(tunable, SETTINGS[kind])
    assert are_equal(train_and_act(tunable, experience, start), expected)
    for name, value in SETTINGS[kind].items():
        with subtests.test(name):  # that each of them has an effect
            assign(tunable, {name: OTHER})
            assert not are_equal(train_and_act(tunable, experience, start), expected)
            assign(tunable, {name: value})


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_checkpoint_has_the_values(kind, tmp_path):
    learner, _ = make_with_tunables(kind)
    assign(learner, SETTINGS[kind])
    build_checkpointer(tmp_path, build_offline_driver(learner)).save()
    restored, _ = make_with_tunables(kind)
    build_checkpointer(tmp_path, build_offline_driver(restored)).restore()
    found = {name: [t.value for t in tunables] for name, tunables in find_tunables(restored).items()}
    counts = {"Adam.learning_rate": len(GROUPS)}
    assert found == {name: [value] * counts.get(name, 1) for name, value in SETTINGS[kind].items()}


def test_a_weight_of_the_reward_shaping_is_found():
    spec = tf.TensorSpec((), tf.float32)
    shaping = RewardShaping(spec, spec, weights={"energy": Tunable(-0.1, setting="energy"), "height": 1.0})
    (tunable,) = find_tunables(shaping)["energy"]
    assert tunable.value == -0.1 and tunable in shaping.submodules
