# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optimizers: the formulas, PyTorch and Keras; settings in gin; groups of variables."""

import functools
import json

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.learner.group_optimizer import GroupOptimizer
from alf.learner.optimizers import SGD, Adam, AdamW, KerasOptimizer, RMSprop
from alf.networks import GRU, LSTM
from alf.networks.layers import Conv2D, Dense, LayerNorm
from alf.schedules import LinearSchedule, Progress
from tests.references import torch_training

STEPS = 100
SHAPES = [(3, 4), (5,), ()]


def adam(w, gradients, a=0.01, b1=0.9, b2=0.999, epsilon=1e-8, decay=0.0):
    m = v = 0.0
    for t, g in enumerate(gradients, 1):
        w = w - a * decay * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        w = w - a * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + epsilon)
    return w


def rmsprop(w, gradients, a=0.01, rho=0.99, momentum=0.0, epsilon=1e-8, centered=False):
    m = v = b = 0.0
    for g in gradients:
        m, v = rho * m + (1 - rho) * g, rho * v + (1 - rho) * g**2
        b = momentum * b + g / (np.sqrt(v - centered * m**2) + epsilon)
        w = w - a * b
    return w


def sgd(w, gradients, a=0.01, momentum=0.0, nesterov=False):
    b = 0.0
    for g in gradients:
        b = momentum * b + g
        w = w - a * (g + momentum * b if nesterov else b)
    return w


# The optimizer, the formula and its settings by ALF's names, a scale of the gradients.
FORMULAS = {
    "adam": (Adam, adam, dict(beta_1=0.8, beta_2=0.95, epsilon=1e-3), 1.0),
    "adam_small": (Adam, adam, {}, 1e-4),
    "adamw": (AdamW, adam, dict(beta_1=0.8, weight_decay=0.3), 1.0),
    "rmsprop": (RMSprop, rmsprop, dict(rho=0.9, epsilon=1e-3), 1.0),
    "rmsprop_centered": (RMSprop, rmsprop, dict(rho=0.9, epsilon=1e-2, momentum=0.5, centered=True), 1.0),
    "sgd": (SGD, sgd, {}, 1.0),
    "momentum": (SGD, sgd, dict(momentum=0.9), 1.0),
    "nesterov": (SGD, sgd, dict(momentum=0.9, nesterov=True), 1.0),
}
NAMES = {"beta_1": "b1", "beta_2": "b2", "weight_decay": "decay"}


def draw(scale):
    """Initial values of `SHAPES`, and the gradients of 100 updates."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=shape).astype(np.float32) for shape in SHAPES]
    gradients = [[scale * (x + rng.normal(size=x.shape)) for x in values] for _ in range(STEPS)]
    return values, [[g.astype(np.float32) for g in step] for step in gradients]


def update(optimizer, values, gradients, compiled=True):
    """The values after all updates, each in a graph."""
    variables = [tf.Variable(x) for x in values]
    optimizer.build(variables, make_progress())
    apply = tf.function(optimizer.apply, autograph=False) if compiled else optimizer.apply
    for step in gradients:
        apply([tf.constant(x) for x in step])
    return [v.numpy() for v in variables]


@pytest.mark.parametrize("name", FORMULAS)
def test_updates_are_the_formula(name):
    make, formula, settings, scale = FORMULAS[name]
    values, gradients = draw(scale)
    found = update(make(0.01, **settings), values, gradients)
    settings = {NAMES.get(key, key): value for key, value in settings.items()}
    for i, x in enumerate(found):
        expected = formula(
            values[i].astype(np.float64), [g[i].astype(np.float64) for g in gradients], **settings
        )
        np.testing.assert_allclose(x, expected, rtol=2e-5, atol=2e-6)
        assert np.all(np.abs(x - values[i]) > 1e-4)


# Keras adds epsilon elsewhere, so it is small here, and gradients are of order 1.
KERAS = {
    "Adam": (Adam, dict(beta_1=0.8, beta_2=0.95, epsilon=1e-8)),
    "AdamW": (AdamW, dict(weight_decay=0.1, epsilon=1e-8)),
    "RMSprop": (RMSprop, dict(rho=0.9, epsilon=1e-12, momentum=0.5)),
    "SGD": (SGD, dict(momentum=0.9, nesterov=True)),
}


@pytest.mark.parametrize("name", KERAS)
def test_updates_are_those_of_keras(name):
    make, settings = KERAS[name]
    values, gradients = draw(1.0)
    expected = update(KerasOptimizer(name, {"learning_rate": 0.01, **settings}), values, gradients)
    for x, y in zip(update(make(0.01, **settings), values, gradients), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


TORCH = json.loads(torch_training.FILE.read_text())
TORCH_NAMES = {"lr": "learning_rate", "eps": "epsilon", "alpha": "rho"}


@pytest.mark.parametrize("name", torch_training.CASES)
def test_100_updates_of_a_network_are_those_of_pytorch(name):
    optimizer, settings, rnn_name, scale = torch_training.CASES[name]
    settings = {TORCH_NAMES.get(key, key): value for key, value in settings.items()}
    if "betas" in settings:
        settings["beta_1"], settings["beta_2"] = settings.pop("betas")
    make = {"Adam": Adam, "AdamW": AdamW, "RMSprop": RMSprop, "SGD": SGD}[optimizer]
    weights, images, targets = torch_training.draw()
    conv, dense = Conv2D(2, 3, 3, 1.0, 0, activation="relu"), Dense(48, 5, 1.0, 0, "tanh")
    norm, head = LayerNorm(5), Dense(4, 2, 1.0, 0)
    rnn = {"GRU": GRU, "LSTM": LSTM}[rnn_name](5, 4)
    variables = {
        "conv/kernel": conv.kernel,
        "conv/bias": conv.bias,
        "dense/kernel": dense.kernel,
        "dense/bias": dense.bias,
        "norm/gamma": norm.gamma,
        "norm/beta": norm.beta,
        "head/kernel": head.kernel,
        "head/bias": head.bias,
        f"{rnn_name}/input_kernel": rnn._input_layer.kernel,
        f"{rnn_name}/input_bias": rnn._input_layer.bias,
        f"{rnn_name}/kernel": rnn._weights[0],
    }
    if rnn_name == "GRU":
        variables["GRU/candidate_bias"] = rnn._weights[1]
    for key, variable in variables.items():
        variable.assign(weights[key])
    state = tf.nest.map_structure(lambda s: tf.zeros((torch_training.B, *s.shape)), rnn.state_spec)
    is_first = tf.zeros((torch_training.T, torch_training.B), tf.bool)
    optimizer, losses = make(**settings), []
    optimizer.build(list(variables.values()), make_progress())

    @functools.partial(tf.function, autograph=False)
    def train():
        with tf.GradientTape() as tape:
            x = norm(dense(tf.reshape(conv(images), (-1, 48))))
            x, _ = rnn.unroll(x, state, is_first)
            loss = tf.reduce_mean(tf.square(head(x) - targets))
            scaled = scale * loss
        optimizer.apply(tape.gradient(scaled, list(variables.values())))
        return loss

    for _ in range(torch_training.STEPS):
        losses.append(float(train()))
    np.testing.assert_allclose(losses[::10], TORCH[name]["losses"], rtol=2e-4)
    for key, variable in variables.items():
        found = torch_training.project(key, variable.numpy())
        np.testing.assert_allclose(found, TORCH[name]["weights"][key], rtol=1e-3, atol=1e-3, err_msg=key)


def test_an_optimizer_of_keras_keeps_all_of_its_settings():
    values, gradients = draw(1.0)
    decay = keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.5)
    for settings in (
        dict(weight_decay=0.1),
        dict(use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
        dict(clipnorm=0.1),
        dict(clipvalue=0.1),
        dict(global_clipnorm=0.1),
        dict(learning_rate=decay),
        dict(gradient_accumulation_steps=3),
        dict(amsgrad=True, beta_2=0.5),
    ):
        make = functools.partial(keras.optimizers.Adam, **{"learning_rate": 0.01, **settings})
        optimizer, variables = make(), [tf.Variable(x) for x in values]
        for step in gradients:
            optimizer.apply_gradients(zip(map(tf.constant, step), variables))
        found = update(KerasOptimizer(make()), values, gradients)
        plain = update(KerasOptimizer("Adam", {"learning_rate": 0.01}), values, gradients)
        for x, variable in zip(found, variables, strict=True):
            np.testing.assert_allclose(x, variable, rtol=1e-5, atol=1e-6, err_msg=str(settings))
        assert not all(np.allclose(x, y, rtol=1e-4) for x, y in zip(found, plain, strict=True)), settings


def test_gin_sets_every_setting(subtests):
    for make, settings in (
        (Adam, dict(learning_rate=0.5, beta_1=0.25, beta_2=0.75, epsilon=0.125)),
        (AdamW, dict(learning_rate=0.5, beta_1=0.25, beta_2=0.75, epsilon=0.125, weight_decay=0.5)),
        (RMSprop, dict(learning_rate=0.5, rho=0.75, momentum=0.25, epsilon=0.125, centered=True)),
        (SGD, dict(learning_rate=0.5, momentum=0.25, nesterov=True)),
        (KerasOptimizer, dict(optimizer="Lion", settings={"learning_rate": 0.5, "beta_1": 0.25})),
    ):
        values, gradients = draw(1.0)
        expected = update(make(**settings), values, gradients[:5])
        gin.clear_config()
        for name, value in settings.items():
            gin.bind_parameter(f"{make.__name__}.{name}", value)
        with subtests.test(make=make):
            for x, y in zip(update(make(), values, gradients[:5]), expected, strict=True):
                np.testing.assert_array_equal(x, y)
            for name in settings.keys() - {"optimizer", "settings"}:
                assert f"{make.__name__}.{name} = " in gin.operative_config_str()


WRONG_ARGUMENTS = [
    (
        "Adam.beta_1 = @LinearSchedule()",
        "Adam.beta_1 is LinearSchedule .*: it must be a number at least 0 and",
    ),
    (
        "Adam.learning_rate = @SGD()",
        "Adam.learning_rate is an object of SGD: it must be a number .* or a Schedule",
    ),
    ("Adam.learning_rate = @SGD", "Adam.learning_rate is SGD: it must be a number .* or a Schedule"),
    ("Adam.learning_rate = '1e-3'", "Adam.learning_rate is '1e-3': it must be a number at least 0 and"),
    ("Adam.learning_rate = -1", "Adam.learning_rate is -1: it must be a number at least 0"),
    ("SGD.learning_rate = 1e39", r"SGD.learning_rate is 1e\+39: .* at most 3.4"),
    ("Adam.beta_1 = 1", "Adam.beta_1 is 1: it must be a number at least 0 and at most 0.99"),
    ("Adam.beta_2 = 'a'", "Adam.beta_2 is 'a'"),
    ("RMSprop.rho = 1.0", "RMSprop.rho is 1.0"),
    ("RMSprop.momentum = -1.0", "RMSprop.momentum is -1.0: .* at least 0 and at most"),
    ("SGD.momentum = 1.5", "SGD.momentum is 1.5: .* at least 0 and at most"),
    ("SGD.momentum = 'a'", "SGD.momentum is 'a'"),
    ("AdamW.weight_decay = -1", "AdamW.weight_decay is -1"),
    ("Adam.epsilon = ''", "Adam.epsilon is '': it must be a number above 0"),
    ("Adam.epsilon = None", "Adam.epsilon is None"),
    ("Adam.epsilon = @SGD()", "Adam.epsilon is an object of SGD"),
    ("Adam.epsilon = 0", "Adam.epsilon is 0"),
    ("SGD.nesterov = 1", "SGD.nesterov is 1"),
    ("RMSprop.centered = None", "RMSprop.centered is None"),
    ("KerasOptimizer.optimizer = 'Nope'", "KerasOptimizer.optimizer is 'Nope': Keras has .*Adam, .*Lion"),
    (
        "KerasOptimizer.optimizer = @SGD()",
        "KerasOptimizer.optimizer is .*SGD.*: it must be an object of keras",
    ),
    (
        "KerasOptimizer.optimizer = 'Adam'\nKerasOptimizer.settings = {'rate': 1}",
        "KerasOptimizer.settings is {'rate': 1}: .*rate",
    ),
]


def test_a_wrong_argument_from_gin_is_named(subtests):
    schedule = ["LinearSchedule.start = 1.0", "LinearSchedule.end = 0.5", "LinearSchedule.over = 5"]
    makes = {make.__name__: make for make in (Adam, AdamW, RMSprop, SGD, KerasOptimizer)}
    for binding, message in WRONG_ARGUMENTS:
        gin.clear_config()
        gin.parse_config([*binding.split("\n"), *schedule])
        with subtests.test(binding), pytest.raises(ConfigError, match=f"^{message}"):
            makes[binding.partition(".")[0]]()
    of_names = "KerasOptimizer.settings is set: it is for .* by name"
    with subtests.test(of_names), pytest.raises(ConfigError, match=of_names):
        KerasOptimizer(keras.optimizers.Adam(), {"learning_rate": 1e-3})


def make_built():
    optimizer = keras.optimizers.Adam()
    optimizer.build([tf.Variable(1.0)])
    return optimizer


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: keras.optimizers.Adam(use_ema=True), "Adam of Keras with use_ema: set ema_overwrite"),
        (lambda: keras.optimizers.Adam(loss_scale_factor=8.0), "Adam of Keras and expects a scaled loss"),
        (
            lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()),
            "LossScaleOptimizer of Keras and expects a scaled loss",
        ),
        (lambda: keras.optimizers.Adam(LinearSchedule(1.0, 0.0, 5)), "Adam of Keras: its learning_rate must"),
        (make_built, "Adam of Keras, and has updated other variables"),
    ],
)
def test_what_an_optimizer_of_keras_cannot_keep_is_refused(make, message):
    with pytest.raises(ConfigError, match=f"KerasOptimizer.optimizer is {message}"):
        GroupOptimizer(make(), {"actor": [tf.Variable(1.0)]}, make_progress())


def test_an_embedding_has_gradients_of_some_rows():
    table = tf.Variable(np.ones((4, 2), np.float32))
    optimizer = Adam(0.1)
    optimizer.build([table], make_progress())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [1, 1]))
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    optimizer.apply([gradient])
    np.testing.assert_allclose(table, [[1, 1], [0.9, 0.9], [1, 1], [1, 1]], rtol=1e-5)


def make_progress():
    return Progress(*(tf.Variable(0, dtype=tf.int64) for _ in Progress._fields))
