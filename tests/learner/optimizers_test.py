# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optimizers: every setting in gin by Keras' name for it; groups of variables."""

import functools
import itertools

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.learner import optimizers
from alf.learner.optimizers import GroupOptimizer
from alf.schedules import LinearSchedule, Progress

LEGACY = tf.keras.optimizers.legacy


OPTIMIZERS = [
    (optimizers.Adam, dict(learning_rate=0.5, beta_1=0.25, beta_2=0.75, epsilon=0.125, amsgrad=True)),
    (optimizers.RMSprop, dict(learning_rate=0.5, rho=0.75, momentum=0.25, epsilon=0.125, centered=True)),
    (optimizers.SGD, dict(learning_rate=0.5, momentum=0.25, nesterov=True)),
]
CLIPS = [{}, {"clipnorm": 2.0}, {"clipvalue": 3.0}, {"global_clipnorm": 4.0}]


def test_gin_sets_every_setting(subtests):
    for (make, settings), clip in itertools.product(OPTIMIZERS, CLIPS):
        settings = {**settings, **clip, "decay": 0.0625, "name": "mine"}
        gin.clear_config()
        for name, value in settings.items():
            gin.bind_parameter(f"{make.__name__}.{name}", value)
        with subtests.test(make=make, clip=clip):
            assert make().get_config() == settings


def test_the_config_file_of_a_run_has_the_defaults(subtests):
    for make, _ in OPTIMIZERS:
        make()
        with subtests.test(make=make):
            assert f"{make.__name__}.learning_rate = 0.0" in gin.operative_config_str()


def test_a_momentum_that_keras_refuses_is_a_wrong_setting(subtests):
    for make, momentum in itertools.product((optimizers.RMSprop, optimizers.SGD), (-1.0, 1.5, "much")):
        message = f"^{make.__name__}.momentum is {momentum!r}: .* at least 0 and at most"
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            make(momentum=momentum)


WRONG_ARGUMENTS = [
    (
        "Adam.beta_1 = @LinearSchedule()",
        "Adam.beta_1 is LinearSchedule .*: it must be a number at least 0 and",
    ),
    (
        "Adam.clipnorm = @LinearSchedule()",
        "Adam.clipnorm is LinearSchedule .*: it must be a number above 0, or None",
    ),
    (
        "Adam.learning_rate = @SGD()",
        "Adam.learning_rate is an object of SGD: it must be a number .* or a Schedule",
    ),
    ("Adam.learning_rate = @SGD", "Adam.learning_rate is SGD: it must be a number .* or a Schedule"),
    ("Adam.learning_rate = '1e-3'", "Adam.learning_rate is '1e-3': it must be a number at least 0 and"),
    ("Adam.learning_rate = -1", "Adam.learning_rate is -1: it must be a number at least 0"),
    ("Adam.name = 1.5", "Adam.name is 1.5: it must be a text"),
    # TensorFlow would refuse them in the first update.
    ("Adam.name = 'my adam'", "Adam.name is 'my adam': it must be a text of letters, digits, '_', .* begins"),
    ("Adam.name = '_adam'", "Adam.name is '_adam': it must be a text of letters, digits"),
    ("Adam.beta_1 = 1", "Adam.beta_1 is 1: it must be a number at least 0 and at most 0.99"),
    ("Adam.beta_2 = 'a'", "Adam.beta_2 is 'a'"),
    ("RMSprop.rho = 1.0", "RMSprop.rho is 1.0"),
    ("SGD.momentum = 'a'", "SGD.momentum is 'a'"),
    ("Adam.clipnorm = 'a'", "Adam.clipnorm is 'a': it must be a number above 0"),
    ("Adam.clipvalue = 0", "Adam.clipvalue is 0"),
    ("Adam.global_clipnorm = -1", "Adam.global_clipnorm is -1"),
    ("Adam.decay = -1", "Adam.decay is -1"),
    ("Adam.epsilon = ''", "Adam.epsilon is '': it must be a number above 0"),
    ("Adam.epsilon = {}", "Adam.epsilon is {}"),
    ("Adam.epsilon = ()", r"Adam.epsilon is \(\)"),
    ("Adam.epsilon = @SGD()", "Adam.epsilon is an object of SGD"),
    ("Adam.epsilon = 0", "Adam.epsilon is 0"),
    ("Adam.amsgrad = 'False'", "Adam.amsgrad is 'False': it must be True or False"),
    ("SGD.nesterov = 1", "SGD.nesterov is 1"),
    ("RMSprop.centered = None", "RMSprop.centered is None"),
]


def test_a_wrong_argument_from_gin_is_named(subtests):
    schedule = ["LinearSchedule.start = 1.0", "LinearSchedule.end = 0.5", "LinearSchedule.over = 5"]
    for binding, message in WRONG_ARGUMENTS:
        gin.clear_config()
        gin.parse_config([binding, *schedule])
        with subtests.test(binding), pytest.raises(ConfigError, match=f"^{message}"):
            getattr(optimizers, binding.partition(".")[0])()


def make_groups():
    return {"actor": [tf.Variable([3.0, 4.0]), tf.Variable(5.0)], "critic": [tf.Variable([[1.0], [2.0]])]}


def make_progress():
    return Progress(*(tf.Variable(0, dtype=tf.int64) for _ in Progress._fields))


def gradients_of(groups, scale=1.0):
    return {name: [scale * 0.5 * v for v in variables] for name, variables in groups.items()}


@pytest.mark.parametrize(
    "make",
    [
        functools.partial(LEGACY.SGD, 0.1, momentum=0.9),
        functools.partial(LEGACY.Adam, 0.1),
        functools.partial(LEGACY.RMSprop, 0.1, momentum=0.5),
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


@pytest.mark.parametrize("name, settings", [("Adam", {"epsilon": 1e-3}), ("SGD", {"momentum": 0.9})])
def test_a_current_optimizer_of_keras_makes_the_updates_of_the_legacy_one(name, settings):
    results = []
    for module in (LEGACY, tf.keras.optimizers):
        groups = make_groups()
        optimizer = GroupOptimizer(getattr(module, name)(0.1, **settings), groups, make_progress())
        for scale in (1.0, -2.0):
            optimizer.apply(gradients_of(groups, scale))
        results.append([v.numpy() for v in tf.nest.flatten(groups)])
    for x, y in zip(*results, strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_limit_holds_for_each_group_of_variables():
    groups, progress = make_groups(), make_progress()
    gradients = {
        "actor": [tf.constant([3.0, 0.0]), tf.constant(4.0)],
        "critic": [tf.constant([[0.0], [12.0]])],
    }
    for optimizer in (LEGACY.SGD(), {"actor": LEGACY.SGD(), "critic": LEGACY.SGD()}):
        limiting = GroupOptimizer(optimizer, groups, progress, max_grad_norm=6.0)
        np.testing.assert_allclose(limiting.norms(gradients), [5.0, 12.0])
        limited = limiting.limit(gradients, limiting.norms(gradients))
        np.testing.assert_allclose(limited["actor"][0], [3.0, 0.0])
        np.testing.assert_allclose(limited["critic"][0], [[0.0], [6.0]])


def test_a_variable_without_a_gradient_stays():
    groups = make_groups()
    optimizer = GroupOptimizer(LEGACY.SGD(1.0), groups, make_progress(), max_grad_norm=1.0)
    gradients = {"actor": [None, tf.constant(0.5)], "critic": [None]}
    optimizer.apply(optimizer.limit(gradients, optimizer.norms(gradients)))
    np.testing.assert_array_equal(groups["actor"][0], [3.0, 4.0])
    assert float(groups["actor"][1]) == 4.5


def test_schedules_follow_the_progress():
    schedule = LinearSchedule(1.0, 0.0, over=100)
    groups, progress = make_groups(), make_progress()
    optimizers_of_groups = {"actor": LEGACY.SGD(schedule), "critic": LEGACY.SGD(0.5)}
    optimizer = GroupOptimizer(optimizers_of_groups, groups, progress)
    progress.env_steps.assign(75)
    assert optimizer.learning_rates() == {"learning_rate_actor": 0.25, "learning_rate_critic": 0.5}
    optimizer.apply({"actor": [None, tf.constant(1.0)], "critic": [tf.ones((2, 1))]})
    assert float(groups["actor"][1]) == 4.75
    np.testing.assert_array_equal(groups["critic"][0], [[0.5], [1.5]])


SAME = LEGACY.SGD(0.1)


MISFITS = [
    ({"actor": LEGACY.SGD()}, r"has the keys \['actor'\]: .* for each .* \['actor', 'critic'\]"),
    ({}, r"has the keys \[\]"),
    ({"actor": LEGACY.SGD(), "value": LEGACY.SGD()}, r"has the keys \['actor', 'value'\]"),
    ({"all": LEGACY.SGD()}, r"has the keys \['all'\]"),
    ({"actor": SAME, "critic": SAME}, "holds one optimizer twice: .* different instances"),
    ({"actor": LEGACY.SGD(), "critic": "adam"}, r"Learner.optimizer\['critic'\] is 'adam'"),
    ({"actor": LEGACY.SGD(), "critic": None}, r"Learner.optimizer\['critic'\] is None"),
    (tf.keras.optimizers.Lion(), "Learner.optimizer is Lion, which has no counterpart"),
    ("adam", "Learner.optimizer is 'adam': .* in gin, @Adam\\(\\)"),
    (LEGACY.SGD, "Learner.optimizer is .*SGD"),
]


def test_optimizers_that_do_not_fit_the_groups_are_errors(subtests):
    for optimizer, message in MISFITS:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            GroupOptimizer(optimizer, make_groups(), make_progress())


def test_a_learning_rate_that_float32_cannot_hold_is_refused():
    with pytest.raises(ConfigError, match=r"SGD.learning_rate is 1e\+39: .* at most 3.4"):
        optimizers.SGD(1e39)
    GroupOptimizer(optimizers.SGD(3e38), {"all": [tf.Variable(1.0)]}, None)
