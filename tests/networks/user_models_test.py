# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Models that users bring: Keras 3, `tf.Module`s and functions. copying_test.py has their copies."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks import ActorCriticNetwork, KerasEncoder, QValueNetwork
from alf.networks.user_models import collect_losses
from tests.networks.encoders_test import VECTOR, random_observation


class Sum(keras.Model):
    """A model with a dictionary as input, and an argument `training`."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, inputs, training=False):
        x = self.dense(inputs["a"]) + tf.cast(inputs["b"], tf.float32)[:, tf.newaxis]
        return tf.cast(-x if training else x, tf.float16)


def test_keras_model():
    spec = {"a": VECTOR, "b": tf.TensorSpec((), tf.int32)}
    encoder = KerasEncoder(spec, lambda observation_spec: Sum())
    assert encoder.size == 3 and len(encoder.trainable_variables) == 2
    observation = random_observation(spec)
    kernel, bias = (v.numpy() for v in encoder.trainable_variables)
    expected = observation["a"] @ kernel + bias + observation["b"].numpy()[:, np.newaxis]
    assert encoder(observation).dtype == tf.float32
    np.testing.assert_allclose(encoder(observation), expected, rtol=1e-2)
    np.testing.assert_allclose(encoder(observation, training=True), -expected, rtol=1e-2)


class Identity(keras.layers.Layer):
    def call(self, inputs):
        return inputs


@pytest.mark.parametrize("training", [True, False])
def test_keras_model_may_do_without_training(training):
    encoder = KerasEncoder(VECTOR, lambda spec: Identity())
    x = random_observation(VECTOR)
    np.testing.assert_array_equal(encoder(x, training), x)


class Scale(tf.Module):
    def __init__(self, observation_spec, seed=None):
        super().__init__()
        self.factor = tf.Variable(tf.fill(observation_spec.shape, 2.0), name="factor")

    def __call__(self, x, training=False):
        return -self.factor * x if training else self.factor * x


def double(x):
    return 2.0 * x


def make_double(observation_spec, seed):
    return double


X = random_observation(VECTOR)


@pytest.mark.parametrize(
    "encoder, num_weights",
    [
        (functools.partial(KerasEncoder, model=Scale), 1),
        (functools.partial(KerasEncoder, model=lambda spec: double), 0),
        (Scale, 1),
        (make_double, 0),
        (lambda spec, seed: keras.layers.Dense(4, kernel_initializer=lambda *a, **k: 2 * tf.eye(4)), 2),
    ],
)
def test_modules_functions_and_layers_are_encoders(encoder, num_weights):
    network = QValueNetwork(VECTOR, 2, fc_layer_params=(), dueling=False, encoder=encoder)
    made = network._torso._encoder
    assert made.size == 4 and len(made.trainable_variables) == num_weights
    assert len(network.trainable_variables) == num_weights + 2
    np.testing.assert_array_equal(made(X), 2 * X)
    trained = -2 * X if made._model.__class__ is Scale else made(X)
    np.testing.assert_array_equal(made(X, training=True), trained)
    copied = network.copy()
    for ours, theirs in zip(network.variables, copied.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours is not theirs


def test_layers_of_keras_in_a_module_are_found():
    class Mixed(tf.Module):
        def __init__(self, spec, seed=None):
            super().__init__()
            self.offset, self.layer = tf.Variable(1.0), keras.layers.Dense(3)
            self.layer.build((None, 4))

        def __call__(self, x):
            return self.layer(x) + self.offset

    encoder = ActorCriticNetwork(VECTOR, 2, encoder=Mixed)._torso._encoder
    assert sorted(v.shape.rank for v in encoder.trainable_variables) == [0, 1, 2]


def test_averages_of_a_model_move_in_training_alone():
    encoder = KerasEncoder(VECTOR, lambda spec: keras.layers.BatchNormalization(momentum=0.5))
    mean = next(v for v in encoder.variables if "mean" in v.name and not v.trainable)
    encoder(X)
    np.testing.assert_array_equal(mean, np.zeros(4))
    tf.function(lambda: encoder(X, training=True), autograph=False)()
    np.testing.assert_allclose(mean, 0.5 * np.mean(X, 0), rtol=1e-5)


class WithLosses(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.5), use_bias=False)

    def call(self, x):
        y = self.dense(x)
        self.add_loss(tf.reduce_sum(tf.abs(y)))
        return y


def test_losses_are_those_of_the_last_call_in_training():
    encoder, target = (KerasEncoder(VECTOR, lambda spec: WithLosses()) for _ in range(2))
    for variable in target.variables:
        variable._trainable = False
    kernel = encoder.trainable_variables[0].numpy()

    @functools.partial(tf.function, autograph=False)
    def compute():
        with collect_losses() as losses:
            encoder(2.0 * X, training=True)
            encoder(X, training=True)
            encoder(3.0 * X)
            target(X, training=True)
        return list(losses.values())

    (losses,) = compute()
    expected = [0.5 * np.sum(kernel**2), np.sum(np.abs(X @ kernel))]
    np.testing.assert_allclose(sorted(losses), sorted(expected), rtol=1e-5)


@pytest.mark.parametrize("dtype, policy", [("float32", "float32"), ("bfloat16", "mixed_bfloat16")])
def test_layers_compute_in_the_dtype_of_the_network(dtype, policy):
    made = []

    def make(spec):
        made.append(keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(3, dtype="float64")]))
        return made[-1]

    network = ActorCriticNetwork(
        VECTOR, 2, encoder=functools.partial(KerasEncoder, model=make), compute_dtype=dtype
    )
    network.copy()
    assert len(made) == 2
    for model in made:
        assert [x.dtype_policy.name for x in model.layers] == [policy, "float64"]
    assert keras.config.dtype_policy().name == "float32"


def test_the_dtype_of_the_program_is_its_own_again():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        encoder = KerasEncoder(VECTOR, lambda spec: keras.layers.Dense(3))
        with pytest.raises(ZeroDivisionError):
            KerasEncoder(VECTOR, lambda spec: 1 / 0)
        assert keras.config.dtype_policy().name == "mixed_float16"
    finally:
        keras.config.set_dtype_policy("float32")
    assert encoder._model.dtype_policy.name == "float32"


def layer(function):
    return lambda spec: keras.layers.Lambda(function)


@pytest.mark.parametrize(
    "model, text",
    [
        ("model", "model is 'model'"),
        (lambda spec: 3, "KerasEncoder.model makes 3"),
        (lambda spec: keras.layers.Dense, "KerasEncoder.model makes <class"),
        (layer(lambda x: tf.reduce_sum(x, axis=-1)), r"makes \(2,\) of 2 observations"),
        (layer(lambda x: x[:1]), r"makes \(1, 4\) of 2"),
        (layer(lambda x: {"y": x}), r"makes {'y': TensorShape\(\[2, 4\]\)} of 2"),
        (layer(lambda x: tf.reshape(x, (-1, 2, 2))), r"makes \(2, 2, 2\) of 2"),
        (lambda spec: keras.layers.Dense(3, kernel_constraint="non_neg"), "constrains kernel"),
    ],
)
def test_models_are_checked(model, text):
    with pytest.raises(ConfigError, match=text):
        KerasEncoder(VECTOR, model)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
def test_models_of_keras_2(compute_dtype):
    keras_2 = pytest.importorskip("tf_keras")
    layers = keras_2.layers

    def make(spec):
        regularizer = keras_2.regularizers.L2(0.5)
        dense = layers.Dense(3, kernel_regularizer=regularizer)
        return keras_2.Sequential([dense, layers.BatchNormalization(), layers.Dropout(0.5)])

    network = QValueNetwork(
        VECTOR,
        2,
        encoder=functools.partial(KerasEncoder, model=make),
        fc_layer_params=(),
        compute_dtype=compute_dtype,
    )
    encoder = network._torso._encoder
    assert len(encoder.trainable_variables) == 4 and len(encoder.variables) == 6
    assert {layer.compute_dtype for layer in encoder._model.layers} == {compute_dtype}
    assert keras_2.mixed_precision.global_policy().name == "float32"
    with collect_losses() as losses:
        assert np.any(encoder(X, training=True) == 0)
    (kernel,) = (v for v in encoder.variables if v.shape.rank == 2)
    np.testing.assert_allclose(losses[id(encoder)], [0.5 * np.sum(kernel**2)], rtol=1e-5)
    copied = network.copy()
    for old, new in zip(network.variables, copied.variables, strict=True):
        np.testing.assert_array_equal(old, new)
        new.assign_add(tf.ones_like(new))
        assert np.all(old != new)


def test_another_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ConfigError, match="the backend 'jax': ALF needs 'tensorflow'; set KERAS_BACKEND"):
        KerasEncoder(VECTOR, lambda spec: keras.layers.Dense(3))
