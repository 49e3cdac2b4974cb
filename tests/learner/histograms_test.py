# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Histograms on demand: what they hold in each kind of update, and that nothing is there by default."""

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.data_structures import FIRST, LossInfo
from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.learner.jit_compile_test import make_learner as make_algorithm_learner
from tests.learner.learner_test import LEGACY, Quadratic, make_experience, make_learner, train

SHOWN = dict(debug_summaries=True, summarize_grads_and_vars=True)
ALGORITHMS = {"impala": ImpalaAlgorithm, "ppo": PPOAlgorithm, "dqn": DqnAlgorithm, "sac": SacAlgorithm}


def list_operations(graph):
    """The names of all operations, those of the functions that the graph calls included."""
    definition = graph.as_graph_def(add_shapes=False)
    names = [node.name for node in definition.node]
    return names + [node.name for function in definition.library.function for node in function.node_def]


def trace_update(kind, **settings):
    """The names of the operations of an update, and what the learner made of it as histograms."""
    env = MatchObservationEnvironment(4, episode_length=3)
    learner = make_algorithm_learner(ALGORITHMS[kind], EnvSpecs([env]), None, **settings)
    driver = SyncOffPolicyDriver([env], learner, unroll_length=4)
    driver.start()
    try:
        driver.collect()
        driver.collect()
        learner.train()
    finally:
        driver.stop()
    traced = learner._training._train_on._function._list_all_concrete_functions()
    return [name for function in traced for name in list_operations(function.graph)], learner


@pytest.mark.parametrize("kind", ["impala", "dqn"])
def test_by_default_the_update_has_no_further_operation(kind):
    before, learner = trace_update(kind)
    assert learner.histograms() == {}
    after, other = trace_update(kind, **SHOWN)
    added = [name for name in after if "keep_last" in name]
    assert not [name for name in before if "keep_last" in name]
    # An operation for each histogram keeps it.
    kept = [name for name in other.histograms() if not name.startswith("variables/")]
    assert len(added) >= len(kept) > 3
    assert len(before) < len(after)


def test_histograms_hold_the_last_update():
    learner = make_learner(optimizer=LEGACY.SGD(0.1), max_grad_norm=1.0, **SHOWN)
    assert train(learner, reward=2.0, observation=5.0)["gradient_norm"] == 10.0
    found = learner.histograms()
    assert {name: x.tolist() for name, x in found.items()} == {
        "debug/observation": [5.0],
        "debug/action": [0.0],
        "debug/reward": [0.0],
        "gradients/all/Variable_1": [6.0, 8.0],  # before the limit
        "variables/all/Variable_1": [pytest.approx(3.0 - 0.06), pytest.approx(4.0 - 0.08)],
        "variables/all/Variable": 7.0,  # unused: there is no gradient
    }
    train(learner, reward=1.0, t=3, b=2)
    assert learner.histograms()["debug/observation"].shape == (6,)


def test_steps_that_do_not_count_are_not_shown():
    experience = make_experience(t=3, b=1, observation=5.0)
    step_type = np.array(experience.step_type)
    step_type[0, 2] = FIRST  # no transition leads from row 1 to it
    observation = tf.reshape(tf.range(4.0), (1, 4, 1))
    reward = 10.0 * observation
    learner = make_learner(debug_summaries=True)
    learner.observe(
        experience._replace(
            step_type=tf.constant(step_type), observation=observation, action=observation, reward=reward
        )
    )
    learner.train()
    found = {name: x.tolist() for name, x in learner.histograms().items()}
    # The reward of an action arrives with the next row.
    assert found == {"debug/observation": [0, 2], "debug/action": [0, 2], "debug/reward": [10, 30]}


def test_a_setting_shows_its_own_part():
    learner = make_learner(summarize_grads_and_vars=True)
    train(learner)
    assert {name.partition("/")[0] for name in learner.histograms()} == {"gradients", "variables"}


def test_what_is_kept_is_in_no_checkpoint(tmp_path):
    variables, saved = [], []
    for settings in ({}, SHOWN):
        learner = make_learner(**settings)
        train(learner)
        path = tf.train.Checkpoint(learner=learner).save(str(tmp_path / "ckpt"))
        variables.append([v.name for v in learner.variables])
        saved.append(tf.train.list_variables(path))
    assert variables[0] == variables[1] and saved[0] == saved[1]


def test_sparse_gradients_and_equal_names():
    class Sparse(Quadratic):
        def __init__(self):
            super().__init__()
            self.table = tf.Variable([[1.0], [2.0], [3.0]])

        def calc_loss(self, experience, train_info):
            return LossInfo(tf.reduce_sum(tf.gather(self.table, [1, 1])) + tf.reduce_sum(self.weights))

    learner = make_learner(Sparse, summarize_grads_and_vars=True)
    train(learner)
    gradients = {k: x.tolist() for k, x in learner.histograms().items() if k.startswith("gradients/")}
    # In the order of the attributes' names: "table", "unused", which has no gradient, and "weights".
    assert gradients == {
        "gradients/all/Variable": [[0.0], [2.0], [0.0]],
        "gradients/all/Variable_2": [1.0, 1.0],
    }


@pytest.mark.parametrize("setting", SHOWN)
def test_wrong_settings(setting):
    with pytest.raises(ConfigError, match=f"Learner.{setting} is 1: "):
        make_learner(**{setting: 1})


@pytest.mark.parametrize("how", ["jit", "strategy", "minibatches"])
def test_other_kinds_of_updates(how):
    settings = {
        "jit": dict(jit_compile=True),
        "strategy": dict(strategy=tf.distribute.MirroredStrategy(["CPU:0"])),
        "minibatches": {},
    }[how]
    kind = "ppo" if how == "minibatches" else "impala"
    _, learner = trace_update(kind, **SHOWN, **settings)
    found = learner.histograms()
    gradients = {
        name.partition("/")[2]: x.shape for name, x in found.items() if name.startswith("gradients/")
    }
    variables = {
        name.partition("/")[2]: x.shape for name, x in found.items() if name.startswith("variables/")
    }
    assert gradients == variables and len(gradients) > 3
    assert all(x.any() for name, x in found.items() if name.startswith("gradients/") and "kernel" in name)
    assert len(found["debug/action"]) == len(found["debug/observation"]) == len(found["debug/reward"]) > 0
