# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Histograms on demand: what they hold in each kind of update, and that nothing is there by default."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm, ImpalaAlgorithm
from alf.data_structures import FIRST, LossInfo, PolicyState
from alf.errors import ConfigError
from alf.learner import UnrollLearner, optimizers
from alf.policies.data_transformers import Pipeline, RewardScaling, RewardWeighting
from alf.replay import UniformReplayer
from tests.builders import build_learner
from tests.learner import small_learners
from tests.learner.learner_test import (
    SPEC,
    UNROLL_SPEC,
    Quadratic,
    make_experience,
    make_learner,
    train,
)

SHOWN = dict(debug_summaries=True, summarize_grads_and_vars=True)
ALL_SHOWN = dict(rollout_summaries=True, **SHOWN)


def make_replay_learner(algorithm=Quadratic, **settings):
    algorithm = algorithm()
    pipeline = algorithm.policy.data_transformer
    reward = tf.TensorSpec((*UNROLL_SPEC.reward.shape, *pipeline.input_reward_spec.shape))
    spec = UNROLL_SPEC._replace(reward=reward, state=PolicyState(transformer=pipeline.state_spec))
    replayer = UniformReplayer(spec, num_groups=1, capacity=100)
    return build_learner(algorithm, optimizers.SGD(0.001), replayer=replayer, mini_batch_size=64, **settings)


def list_operations(learner):
    """The names of all operations of a learner's updates, those of the functions that they call included."""
    names = []
    for traced in learner._graph._function._list_all_concrete_functions():
        definition = traced.graph.as_graph_def(add_shapes=False)
        nodes = [*definition.node, *(node for f in definition.library.function for node in f.node_def)]
        names += [node.name for node in nodes]
    return names


@pytest.mark.parametrize("make", [make_learner, make_replay_learner])
def test_by_default_the_update_has_no_further_operation(make):
    plain, showing = make(), make(**SHOWN)
    for learner in (plain, showing):
        train(learner, t=2)
    before, after = list_operations(plain), list_operations(showing)
    assert plain.histograms() == {}
    added = [name for name in after if "keep_last" in name]
    assert not [name for name in before if "keep_last" in name]
    # An operation for each histogram keeps it.
    kept = [name for name in showing.histograms() if not name.startswith("variables/")]
    assert len(added) >= len(kept) > 3
    assert len(before) < len(after)
    assert find_debug(showing.histograms())[0]


def test_histograms_hold_the_last_update():
    learner = make_learner(optimizer=optimizers.SGD(0.1), max_grad_norm=1.0, **SHOWN)
    assert train(learner, reward=2.0, observation=5.0)["gradient_norm"] == 10.0
    found = learner.histograms()
    assert {name: x.tolist() for name, x in found.items()} == {
        "debug/observation": [5.0],
        "debug/action": [0.0],
        "debug/reward": [0.0],
        "debug/original_reward": [0.0],
        "gradients/all/Variable_1": [6.0, 8.0],  # before the limit
        "variables/all/Variable_1": [pytest.approx(3.0 - 0.06), pytest.approx(4.0 - 0.08)],
        "variables/all/Variable": 7.0,  # unused: there is no gradient
    }
    train(learner, reward=1.0, t=3, b=2)
    assert learner.histograms()["debug/observation"].shape == (6,)


def test_steps_that_do_not_train_are_not_shown():
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
    rewards = {"debug/reward": [10, 30], "debug/original_reward": [10, 30]}
    assert found == {"debug/observation": [0, 2], "debug/action": [0, 2], **rewards}


@pytest.mark.parametrize("weights", [None, [1.0, 10.0]])
def test_the_original_reward_is_shown_beside_the_transformed_one(weights):
    shape = (1, 3, 1, 2) if weights else (1, 3, 1)
    ctors = [functools.partial(RewardWeighting, weights=weights)] if weights else []
    ctors.append(functools.partial(RewardScaling, scale=0.5))
    reward = tf.reshape(tf.range(float(np.prod(shape))), shape)

    class Transforming(Quadratic):
        def __init__(self):
            super().__init__()
            self.policy.data_transformer = Pipeline(SPEC, tf.TensorSpec(shape[3:]), ctors)

    for make in (make_learner, make_replay_learner):
        learner = make(Transforming, debug_summaries=True)
        state = PolicyState(transformer=((),) * len(ctors))
        learner.observe(make_experience(t=2)._replace(reward=reward, state=state))
        learner.train()
        found = learner.histograms()
        original = np.unique(found["debug/original_reward"], axis=0)
        np.testing.assert_array_equal(original, reward[0, 1:, 0])
        expected = 0.5 * (original @ np.array(weights) if weights else original)
        np.testing.assert_allclose(np.unique(found["debug/reward"]), expected)


@pytest.mark.parametrize("continuous", [False, True])
def test_histograms_of_fresh_rollouts(continuous):
    env = small_learners.make_env(continuous=continuous)
    learner = small_learners.make_learner(ImpalaAlgorithm, env, rollout_summaries=True)
    assert learner.histograms() == {}
    experience = small_learners.collect(env, learner)
    learner.observe(experience)
    found = learner.histograms()
    parts = ["rollout/distribution/0", "rollout/distribution/1"] if continuous else ["rollout/distribution"]
    assert sorted(found) == sorted(["rollout/action", *parts, "rollout/entropy", "rollout/reward"])
    is_transition = experience.step_type[:, 1:].numpy() != FIRST
    assert 0 < is_transition.sum() < is_transition.size
    np.testing.assert_array_equal(found["rollout/reward"], experience.reward[:, 1:].numpy()[is_transition])
    np.testing.assert_array_equal(found["rollout/action"], experience.action[:, :-1].numpy()[is_transition])
    assert found["rollout/entropy"].shape == found["rollout/reward"].shape
    if not continuous:
        np.testing.assert_allclose(found["rollout/distribution"].sum(axis=-1), 1.0, rtol=1e-5)


def test_each_component_of_a_fresh_reward_is_shown():
    learner = make_learner(rollout_summaries=True)
    reward = tf.reshape(tf.range(6.0), (1, 3, 1, 2))
    learner._update.rollout = make_experience(t=2)._replace(reward=reward)
    found = {name: x.tolist() for name, x in learner.histograms().items()}
    assert found == {"rollout/action": [0, 0], "rollout/reward_0": [2, 4], "rollout/reward_1": [3, 5]}


@pytest.mark.parametrize("make", [make_learner, make_replay_learner])
def test_the_rollout_is_kept_for_who_needs_it(make):
    class WithoutHook(Quadratic):
        after_train_iter = Algorithm.after_train_iter

    learner, hooked = make(WithoutHook), make(Quadratic)
    experience = make_experience(t=2)
    for one in (learner, hooked):
        one.observe(experience)
        one.train()
    assert learner.rollout == ()
    assert [x.reward.shape for x in hooked.algorithm.iterations_seen] == [(1, 3, 1)]
    if make is make_replay_learner:
        assert hooked.rollout is experience
        hooked.train_from_replay()
        assert hooked.algorithm.iterations_seen[1:] == [()]
    else:
        assert hooked.rollout == (), "the training has the batch itself"
    learner.keep_rollout()
    learner.observe(experience)
    assert learner.rollout is experience


def test_a_setting_shows_its_own_part():
    learner = make_learner(summarize_grads_and_vars=True)
    train(learner)
    assert {name.partition("/")[0] for name in learner.histograms()} == {"gradients", "variables"}


def test_histograms_are_in_no_checkpoint(tmp_path):
    variables, saved = [], []
    for settings in ({}, ALL_SHOWN):
        learner = make_learner(**settings)
        train(learner)
        path = tf.train.Checkpoint(learner=learner).save(str(tmp_path / "ckpt"))
        variables.append([v.name for v in learner.variables])
        saved.append(tf.train.list_variables(path))
    assert variables[0] == variables[1] and saved[0] == saved[1]


def test_sparse_gradients_and_equal_names_are_shown():
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


def test_wrong_settings_are_named(subtests):
    for setting in ALL_SHOWN:
        with subtests.test(setting), pytest.raises(ConfigError, match=f"LearnerSettings.{setting} is 1: "):
            make_learner(**{setting: 1})


def find_debug(histograms):
    """What the histograms show of the last update's batch, lists of equal length."""
    parts = [histograms[f"debug/{name}"].tolist() for name in ("observation", "action", "reward")]
    assert len({len(part) for part in parts}) == 1
    return parts


@pytest.mark.parametrize("how", ["jit", "strategy", "minibatches"])
def test_every_kind_of_update_keeps_them(how):
    make = {
        "jit": lambda: make_learner(jit_compile=True, **SHOWN),
        "strategy": lambda: make_learner(strategy=tf.distribute.MirroredStrategy(["CPU:0"]), **SHOWN),
        "minibatches": lambda: make_learner(
            make=functools.partial(UnrollLearner, num_epochs=2, num_minibatches=2), **SHOWN
        ),
    }[how]
    learner = make()
    start = learner.algorithm.weights.numpy()
    train(learner, t=2, b=2, reward=0.5, observation=3.0)
    found = learner.histograms()
    observations, _, _ = find_debug(found)
    assert observations == [3.0] * (2 if how == "minibatches" else 4)
    variable, gradient = found["variables/all/Variable_1"], found["gradients/all/Variable_1"]
    assert gradient.shape == variable.shape == (2,)
    np.testing.assert_array_equal(variable, learner.algorithm.weights)
    if how != "minibatches":  # the reward may be in the part of another update
        assert gradient.any() and (variable != start).all()


def test_histograms_have_the_names_of_the_networks_variables():
    env = small_learners.make_env()
    learner = small_learners.make_learner(ImpalaAlgorithm, env, summarize_grads_and_vars=True)
    small_learners.without_graph(learner)
    learner.observe(small_learners.collect(env, learner))
    learner.train()
    found = learner.histograms()
    kinds = [
        {name.partition("/")[2]: x.shape for name, x in found.items() if name.startswith(kind)}
        for kind in ("gradients/", "variables/")
    ]
    assert kinds[0] == kinds[1] and len(kinds[0]) > 3
    kernels = [x for name, x in found.items() if name.startswith("gradients/") and "kernel" in name]
    assert kernels and all(kernel.any() for kernel in kernels)
