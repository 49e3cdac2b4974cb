# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action distributions against their closed forms."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

from alf.algorithms.distributions import (
    CategoricalActions,
    GaussianActions,
    make_action_distribution,
)
from alf.errors import ConfigError


def discrete(low, high, dtype=tf.int64):
    return tensor_spec.BoundedTensorSpec((), dtype, low, high)


def continuous(size, low=-1.0, high=1.0):
    return tensor_spec.BoundedTensorSpec((size,), tf.float32, low, high)


def log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)


@pytest.mark.parametrize("low", [0, 2, -1])
def test_categorical_log_prob_entropy_and_mode(logits, low):
    actions = make_action_distribution(discrete(low, low + 2))
    assert isinstance(actions, CategoricalActions)
    assert actions.num_outputs == 3
    assert actions.params_spec == tf.TensorSpec((3,), tf.float32)
    params = actions.params(tf.constant(logits))
    log_p = log_softmax(logits.astype(np.float64))
    for index in range(3):
        action = tf.fill((5, 2), tf.constant(index + low, tf.int64))
        np.testing.assert_allclose(actions.log_prob(params, action), log_p[..., index], rtol=1e-5, atol=1e-6)
    entropy = -(np.exp(log_p) * log_p).sum(axis=-1)
    np.testing.assert_allclose(actions.entropy(params), entropy, rtol=1e-5)
    np.testing.assert_array_equal(actions.mode(params), logits.argmax(axis=-1) + low)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_categorical_samples_have_the_specs_dtype_and_frequencies(dtype):
    actions = make_action_distribution(discrete(5, 7, dtype))
    p = np.array([0.2, 0.7, 0.1], np.float32)
    sample = actions.sample(tf.tile(tf.math.log(p)[tf.newaxis], (20000, 1)))
    assert sample.dtype == dtype and sample.shape == (20000,)
    assert actions.mode(tf.math.log(p)).dtype == dtype
    frequencies = np.bincount(sample.numpy() - 5, minlength=3) / 20000
    np.testing.assert_allclose(frequencies, p, atol=0.02)  # 5 standard deviations and more


def test_gaussian_log_prob_and_entropy():
    actions = make_action_distribution(continuous(3))
    assert isinstance(actions, GaussianActions)
    assert actions.num_outputs == 6
    assert [s.shape for s in actions.params_spec] == [(3,), (3,)]
    rng = np.random.default_rng(1)
    outputs = rng.uniform(-1.5, 1.5, size=(4, 2, 6)).astype(np.float32)
    action = rng.normal(size=(4, 2, 3)).astype(np.float32)
    params = actions.params(tf.constant(outputs))
    loc, log_scale = outputs[..., :3], outputs[..., 3:]
    z = (action - loc) / np.exp(log_scale)
    log_p = (-0.5 * z**2 - log_scale - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    np.testing.assert_allclose(actions.log_prob(params, action), log_p, rtol=1e-5, atol=1e-5)
    entropy = (log_scale + 0.5 * np.log(2 * np.pi * np.e)).sum(axis=-1)
    np.testing.assert_allclose(actions.entropy(params), entropy, rtol=1e-5)
    np.testing.assert_array_equal(actions.mode(params), loc)


def test_gaussian_samples_have_the_mean_and_the_scale():
    actions = GaussianActions(continuous(2))
    loc, log_scale = tf.constant([1.0, -3.0]), tf.constant([0.0, -1.0])
    params = [tf.tile(x[tf.newaxis], (20000, 1)) for x in (loc, log_scale)]
    sample = actions.sample(params).numpy()
    assert sample.shape == (20000, 2) and sample.dtype == np.float32
    np.testing.assert_allclose(sample.mean(axis=0), loc, atol=0.05)
    np.testing.assert_allclose(sample.std(axis=0), np.exp(log_scale), rtol=0.05)
    assert abs(np.corrcoef(sample.T)[0, 1]) < 0.05


def test_gaussian_scale_is_limited():
    actions = GaussianActions(continuous(1))
    _, log_scale = actions.params(tf.constant([[0.0, -1e6], [0.0, 1e6], [0.0, 0.5]]))
    np.testing.assert_allclose(log_scale[:, 0], [-5.0, 2.0, 0.5])


def test_density_is_that_of_the_action_drawn_also_beyond_the_bounds():
    actions = GaussianActions(continuous(1, -0.1, 0.1))
    params = (tf.constant([[0.0]]), tf.constant([[0.0]]))
    np.testing.assert_allclose(actions.log_prob(params, [[2.0]]), [-2.0 - 0.5 * np.log(2 * np.pi)], rtol=1e-6)


@pytest.mark.parametrize(
    "spec",
    [
        {"a": discrete(0, 1)},
        (discrete(0, 1), discrete(0, 1)),
        tf.TensorSpec((), tf.int64),
        tensor_spec.BoundedTensorSpec((2,), tf.int64, 0, 1),
        tensor_spec.BoundedTensorSpec((2, 2), tf.float32, 0, 1),
        tensor_spec.BoundedTensorSpec((2,), tf.float64, 0, 1),
    ],
)
def test_other_action_specs_are_refused(spec):
    with pytest.raises(ConfigError, match="action_spec is .*:"):
        make_action_distribution(spec)
