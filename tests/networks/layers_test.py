# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Fully connected layers: initial weights, layer norm, spectral norm, seeds."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks import GRU, ActorCriticNetwork
from alf.networks.layers import Dense, Mlp, split_seed

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4)).astype(np.float32)


def weights(layers):
    return {v.name.split("/")[-1].split(":")[0]: v for v in layers.variables}


def singular_values(kernel):
    return np.linalg.svd(kernel, compute_uv=False)


def test_hidden_layers_are_products_and_activations():
    layers = Mlp(4, (8, 5), "tanh", seed=0)
    b1, w1, b2, w2 = (v.numpy() for v in layers.variables)
    expected = np.tanh(np.tanh(X @ w1 + b1) @ w2 + b2)
    np.testing.assert_allclose(layers(X), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("spectral_norm", [True, False])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_initial_kernels_are_orthogonal_and_biases_zeros(layer_norm, spectral_norm):
    layers = Mlp(4, (16, 8), "tanh", 0, layer_norm, spectral_norm)
    kernels = [v.numpy() for v in layers.trainable_variables if v.shape.rank == 2]
    assert [k.shape for k in kernels] == [(4, 16), (16, 8)]
    for kernel in kernels:
        np.testing.assert_allclose(singular_values(kernel), 2**0.5, rtol=1e-5)
    vectors = [v for v in layers.trainable_variables if v.shape.rank == 1]
    assert len(vectors) == (4 if layer_norm else 2)
    assert all(np.all(v == (1.0 if "gamma" in v.name else 0.0)) for v in vectors)


def test_a_head_has_its_gain():
    head = Dense(16, 3, gain=0.01, seed=0)
    np.testing.assert_allclose(singular_values(head.kernel.numpy()), 0.01, rtol=1e-5)


def test_layer_norm_comes_before_the_activation():
    layers = Mlp(4, (8,), "tanh", 0, layer_norm=True)
    w = weights(layers)
    w["gamma"].assign(RNG.uniform(1, 2, 8))
    w["beta"].assign(RNG.normal(size=8))
    x = X @ w["kernel"].numpy()
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    expected = np.tanh(x * w["gamma"].numpy() + w["beta"].numpy())
    np.testing.assert_allclose(layers(X), expected, rtol=1e-3, atol=1e-4)


def spectral_layer(kernel):
    layers = Mlp(kernel.shape[0], (kernel.shape[1],), "linear", 0, spectral_norm=True)
    w = weights(layers)
    w["kernel"].assign(kernel)
    w["bias"].assign(RNG.normal(size=kernel.shape[1]))
    return layers, w


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
def test_spectral_norm_divides_by_the_largest_singular_value(shape):
    kernel = RNG.normal(size=shape).astype(np.float32)
    layers, w = spectral_layer(kernel)
    train = tf.function(lambda x: layers(x, training=True), autograph=False)
    x = np.eye(shape[0], dtype=np.float32)
    for _ in range(100):
        normalised = train(x).numpy() - w["bias"].numpy()
    np.testing.assert_allclose(singular_values(normalised)[0], 1.0, rtol=1e-3)
    np.testing.assert_allclose(normalised, kernel / singular_values(kernel)[0], rtol=1e-2, atol=1e-3)


def test_spectral_norm_of_initial_weights_is_right_at_once():
    layers = Mlp(4, (64,), "linear", 0, spectral_norm=True)
    np.testing.assert_allclose(singular_values(layers(np.eye(4, dtype=np.float32)))[0], 1.0, rtol=1e-4)


def test_only_training_improves_the_estimate():
    layers, w = spectral_layer(RNG.normal(size=(4, 9)))
    before = w["singular_vector"].numpy()
    acting = layers(X, training=False)
    np.testing.assert_array_equal(w["singular_vector"], before)
    training = layers(X, training=True)
    assert not np.allclose(w["singular_vector"], before, rtol=1e-2)
    assert not np.allclose(acting, training, rtol=1e-2)
    # With the same variables both compute the same.
    np.testing.assert_allclose(layers(X, training=False), training, rtol=1e-6)
    assert not any(v is w["singular_vector"] for v in layers.trainable_variables)


def test_gradient_through_spectral_norm():
    kernel = RNG.normal(size=(4, 3)).astype(np.float32)
    layers, w = spectral_layer(kernel)
    for _ in range(100):
        layers(X, training=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layers(X, training=True) ** 2)
    gradient = tape.gradient(loss, w["kernel"]).numpy()

    def literal(kernel):
        y = X.astype(np.float64) @ (kernel / singular_values(kernel)[0]) + w["bias"].numpy()
        return np.sum(y**2)

    for i, j in np.ndindex(kernel.shape):
        step = np.zeros(kernel.shape)
        step[i, j] = 1e-5
        expected = (literal(kernel + step) - literal(kernel - step)) / 2e-5
        np.testing.assert_allclose(gradient[i, j], expected, rtol=1e-2, atol=1e-2)


def test_layers_of_one_shape_start_with_different_weights():
    layers = Mlp(8, (8, 8), "tanh", seed=0)
    first, second = (v.numpy() for v in layers.variables if v.shape.rank == 2)
    assert np.abs(first - second).max() > 0.1


def test_split_seed():
    assert split_seed(None, 2) == [None, None]
    assert split_seed(3, 2) == split_seed(3, 2) != split_seed(4, 2)
    assert len({*split_seed(3, 10)}) == 10


@pytest.mark.parametrize("seed", ["bad", -5, 1.5])
def test_a_wrong_seed_of_a_network(seed):
    spec = tf.TensorSpec((4,), tf.float32)
    for make in (functools.partial(ActorCriticNetwork, spec, 2), functools.partial(GRU, 4)):
        message = f"{make.func.__name__}.seed is {seed!r}: it must be an integer, at least 0, or None"
        with pytest.raises(ConfigError, match=message):
            make(seed=seed)
