# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""GroupOptimizer: one optimizer or several, limits, periods and names of groups."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.learner.group_optimizer import GroupOptimizer
from alf.learner.optimizers import SGD, Adam, RMSprop
from alf.schedules import LinearSchedule
from tests.learner.optimizers_test import make_progress


def make_groups():
    return {"actor": [tf.Variable([3.0, 4.0]), tf.Variable(5.0)], "critic": [tf.Variable([[1.0], [2.0]])]}


def gradients_of(groups, scale=1.0):
    return {name: [scale * 0.5 * v for v in variables] for name, variables in groups.items()}


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(SGD, 0.1, momentum=0.9),
        functools.partial(Adam, 0.1),
        functools.partial(RMSprop, 0.1, momentum=0.5),
        lambda: keras.optimizers.Lion(0.1),
    ],
)
def test_one_optimizer_for_all_groups_makes_the_updates_of_equal_ones_for_each(make):
    results = []
    for optimizer in (make(), {"actor": make(), "critic": make()}):
        groups = make_groups()
        group_optimizer = GroupOptimizer(optimizer, groups, make_progress(), max_grad_norm=0.5)
        before = [v.numpy() for v in tf.nest.flatten(groups)]
        for scale in (1.0, -2.0, 0.3):
            gradients = gradients_of(groups, scale)
            limited = group_optimizer.limit(gradients, group_optimizer.norms(gradients))
            group_optimizer.apply(limited)
        results.append([v.numpy() for v in tf.nest.flatten(groups)])
        assert all(np.all(x != y) for x, y in zip(results[-1], before, strict=True))
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_limit_holds_for_each_group_of_variables():
    groups, progress = make_groups(), make_progress()
    gradients = {
        "actor": [tf.constant([3.0, 0.0]), tf.constant(4.0)],
        "critic": [tf.constant([[0.0], [12.0]])],
    }
    for optimizer in (SGD(), {"actor": SGD(), "critic": SGD()}):
        limiting = GroupOptimizer(optimizer, groups, progress, max_grad_norm=6.0)
        np.testing.assert_allclose(limiting.norms(gradients), [5.0, 12.0])
        limited = limiting.limit(gradients, limiting.norms(gradients))
        np.testing.assert_allclose(limited["actor"][0], [3.0, 0.0])
        np.testing.assert_allclose(limited["critic"][0], [[0.0], [6.0]])


def test_a_variable_without_a_gradient_stays():
    groups = make_groups()
    optimizer = GroupOptimizer(SGD(1.0), groups, make_progress(), max_grad_norm=1.0)
    gradients = {"actor": [None, tf.constant(0.5)], "critic": [None]}
    optimizer.apply(optimizer.limit(gradients, optimizer.norms(gradients)))
    np.testing.assert_array_equal(groups["actor"][0], [3.0, 4.0])
    assert float(groups["actor"][1]) == 4.5


def test_schedules_follow_the_progress():
    schedule = LinearSchedule(1.0, 0.0, over=100)
    groups, progress = make_groups(), make_progress()
    optimizers_of_groups = {"actor": SGD(schedule), "critic": SGD(0.5)}
    optimizer = GroupOptimizer(optimizers_of_groups, groups, progress)
    progress.env_steps.assign(75)
    assert optimizer.learning_rates() == {"learning_rate_actor": 0.25, "learning_rate_critic": 0.5}
    optimizer.apply({"actor": [None, tf.constant(1.0)], "critic": [tf.ones((2, 1))]})
    assert float(groups["actor"][1]) == 4.75
    np.testing.assert_array_equal(groups["critic"][0], [[0.5], [1.5]])


SAME = SGD(0.1)


MISFITS = [
    ({"actor": SGD()}, r"has the keys \['actor'\]: .* for each .* \['actor', 'critic'\]"),
    ({}, r"has the keys \[\]"),
    ({"actor": SGD(), "value": SGD()}, r"has the keys \['actor', 'value'\]"),
    ({"all": SGD()}, r"has the keys \['all'\]"),
    ({"actor": SAME, "critic": SAME}, "holds one optimizer twice: .* different instances"),
    ({"actor": SGD(), "critic": 3}, r"optimizer\['critic'\] is 3"),
    ({"actor": SGD(), "critic": None}, r"optimizer\['critic'\] is None"),
    ("nope", "optimizer is 'nope': Keras has .*"),
    (SGD, "optimizer is .*SGD"),
]


def test_optimizers_that_do_not_fit_the_groups_are_errors(subtests):
    for optimizer, message in MISFITS:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            GroupOptimizer(optimizer, make_groups(), make_progress())


def test_a_step_of_one_group_leaves_the_others(subtests):
    groups, progress = make_groups(), make_progress()
    optimizer = GroupOptimizer({"actor": Adam(0.5), "critic": Adam(0.25)}, groups, progress)
    gradients = {"actor": [tf.ones(2), tf.constant(1.0)], "critic": [tf.ones((2, 1))]}

    @tf.function(autograph=False)
    def update(is_due):
        optimizer.apply(gradients, groups=["critic"])
        tf.cond(is_due, lambda: optimizer.apply(gradients, groups=["actor"]), lambda: None)

    for is_due in (False, False, True):  # a delayed actor, as in TD3
        update(tf.constant(is_due))
    # Adam's steps have the size of the learning rate where the gradient stays the same: each group counts its
    # own steps, or the only step of the actor would be another one.
    np.testing.assert_allclose(groups["actor"][0], [2.5, 3.5], rtol=1e-5)
    np.testing.assert_allclose(groups["critic"][0], [[0.25], [1.25]], rtol=1e-5)


@pytest.mark.parametrize("make", [SGD, lambda x: keras.optimizers.SGD(x)], ids=["alf", "keras"])
def test_a_group_with_a_period_changes_at_every_third_update(make):
    groups, progress = make_groups(), make_progress()
    optimizers = {"actor": make(1.0), "critic": make(1.0)}
    optimizer = GroupOptimizer(optimizers, groups, progress, update_periods={"actor": 3})
    gradients = {"actor": [tf.ones(2), tf.constant(1.0)], "critic": [tf.ones((2, 1))]}

    @tf.function(autograph=False)
    def update():
        optimizer.apply(gradients)
        progress.updates.assign_add(1)

    values = []
    for _ in range(7):
        update()
        values.append((float(groups["actor"][1]), float(groups["critic"][0][0, 0])))
    assert values == [(5, 0), (5, -1), (4, -2), (4, -3), (4, -4), (3, -5), (3, -6)]


def test_groups_are_named_that_no_optimizer_has_for_itself(subtests):
    progress, gradients = make_progress(), gradients_of(make_groups())
    optimizer = GroupOptimizer({"actor": Adam(), "critic": Adam()}, make_groups(), progress)
    one = GroupOptimizer(Adam(), make_groups(), progress, setting="ReplayLearner.optimizer")
    for wrong, name in ((optimizer, "value"), (one, "critic")):
        with subtests.test(name), pytest.raises(ConfigError, match=f"no optimizer has the group '{name}'"):
            wrong.apply(gradients, groups=[name])
    with pytest.raises(ConfigError, match="ReplayLearner.optimizer must be a dict with an optimizer"):
        one.apply(gradients, groups=["actor"])
    for wrong in ({"actor": Adam(), "critic": Adam()}, {"value": 2}), (Adam(), {"actor": 2}):
        message = r"^LearnerSettings\.update_periods: no optimizer has the group '\w+' for itself; .* dict"
        with pytest.raises(ConfigError, match=message):
            GroupOptimizer(wrong[0], make_groups(), progress, update_periods=wrong[1])
