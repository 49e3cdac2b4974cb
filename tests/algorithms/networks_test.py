# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks: shapes, nested observations, initial weights, shared layers."""

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms.networks import ActorCriticNetwork, flatten_observation
from alf.errors import ConfigError

VECTOR = tf.TensorSpec((4,), tf.float32)
NESTED = {"image": tf.TensorSpec((2, 3), tf.uint8), "more": (VECTOR, tf.TensorSpec((), tf.int32))}


def random_observation(spec, *leading):
    rng = np.random.default_rng(0)
    return tf.nest.map_structure(
        lambda s: tf.constant(rng.integers(0, 5, (*leading, *s.shape)), s.dtype), spec
    )


@pytest.mark.parametrize("leading", [(), (5,), (7, 5)])
def test_flatten_observation(leading):
    observation = random_observation(NESTED, *leading)
    rows, dims = flatten_observation(observation, NESTED)
    assert rows.dtype == tf.float32
    np.testing.assert_array_equal(dims, leading)
    parts = [
        np.reshape(observation["image"], (-1, 6)),
        np.reshape(observation["more"][0], (-1, 4)),
        np.reshape(observation["more"][1], (-1, 1)),
    ]
    np.testing.assert_array_equal(rows, np.concatenate(parts, axis=1))


@pytest.mark.parametrize("share_layers", [True, False])
@pytest.mark.parametrize("spec", [VECTOR, NESTED], ids=["vector", "nested"])
@pytest.mark.parametrize("leading", [(5,), (7, 5)])
def test_outputs_have_the_leading_dimensions_of_the_observation(share_layers, spec, leading):
    network = ActorCriticNetwork(spec, 3, fc_layer_params=(8,), share_layers=share_layers)
    observation = random_observation(spec, *leading)
    outputs, value = tf.function(network)(observation)
    assert outputs.shape == (*leading, 3) and value.shape == leading
    assert outputs.dtype == value.dtype == tf.float32
    policy = tf.function(network.policy)(observation)
    np.testing.assert_allclose(policy, outputs, rtol=1e-5, atol=1e-7)
    # Each row depends on itself alone.
    one = tf.nest.map_structure(lambda x: x[-1:], observation)
    np.testing.assert_allclose(network(one)[0][0], outputs[-1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(network(one)[1][0], value[-1], rtol=1e-4, atol=1e-6)


def in_order(network):
    """Kernels and biases from the input to the heads."""
    return [*network._torso.trainable_variables, *network._heads.trainable_variables]


def test_output_is_a_product_of_tanh_layers():
    network = ActorCriticNetwork(VECTOR, 2, fc_layer_params=(8, 5))
    w1, b1, w2, b2, heads, head_bias = (v.numpy() for v in in_order(network))
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    expected = np.tanh(np.tanh(x @ w1 + b1) @ w2 + b2) @ heads + head_bias
    outputs, value = network(tf.constant(x))
    np.testing.assert_allclose(outputs, expected[:, :2], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(value, expected[:, 2], rtol=1e-4, atol=1e-6)


def kernels_and_biases(network):
    kernels = [v.numpy() for v in network.trainable_variables if v.shape.rank == 2]
    biases = [v.numpy() for v in network.trainable_variables if v.shape.rank == 1]
    return kernels, biases


@pytest.mark.parametrize("share_layers", [True, False])
def test_initial_weights_are_orthogonal(share_layers):
    network = ActorCriticNetwork(VECTOR, 3, fc_layer_params=(16, 8), share_layers=share_layers)
    kernels, biases = kernels_and_biases(network)
    assert len(kernels) == len(biases) == (3 if share_layers else 6)
    for kernel in kernels:
        rows, columns = kernel.shape
        gram = kernel @ kernel.T if rows < columns else kernel.T @ kernel
        # Hidden layers have gain sqrt(2), heads 0.01: a policy close to uniform, values close to 0.
        gain = 0.01 if columns in (1, 3, 4) else 2**0.5
        np.testing.assert_allclose(gram, gain**2 * np.eye(len(gram)), atol=1e-5 * gain**2 + 1e-9)
    assert all(not bias.any() for bias in biases)


def test_shared_layers_are_shared_and_others_are_not():
    x = random_observation(VECTOR, 3)
    for share_layers in (True, False):
        network = ActorCriticNetwork(VECTOR, 2, fc_layer_params=(8,), share_layers=share_layers)
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(network(x)[1])
        gradients = tape.gradient(value, network.trainable_variables)
        untouched = [g is None for g in gradients]
        # Kernel and bias of each of: hidden, heads; or hidden, head of the policy and of the value.
        assert len(untouched) == (4 if share_layers else 8)
        assert sum(untouched) == (0 if share_layers else 4)


def test_seed_repeats_the_weights():
    def weights(seed):
        return [v.numpy() for v in ActorCriticNetwork(VECTOR, 2, (8,), seed=seed).variables]

    for a, b in zip(weights(3), weights(3), strict=True):
        np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(weights(3), weights(4), strict=True))


@pytest.mark.parametrize("sizes", [(), (0,), (8, -1), 64, "64", (8.0,), None])
def test_layer_sizes_are_checked(sizes):
    with pytest.raises(ConfigError, match="fc_layer_params"):
        ActorCriticNetwork(VECTOR, 2, fc_layer_params=sizes)


@pytest.mark.parametrize("activation", ["nope", 3])
def test_activation_is_checked(activation):
    with pytest.raises(ConfigError, match=f"activation is {activation!r}"):
        ActorCriticNetwork(VECTOR, 2, activation=activation)
