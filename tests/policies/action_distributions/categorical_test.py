# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Distributions of integers against their closed forms and their own samples."""

import math

import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.ops import losses
from alf.policies.action_distributions import (
    CategoricalActions,
    MultiCategoricalActions,
    make_action_distribution,
)
from tests.policies.action_distributions.cases import (
    BITS,
    NEST,
    UNEVEN,
    assert_frequencies_are,
    box,
    integers,
    log_softmax,
    make,
    normal,
    rows_of_params,
)


@pytest.mark.parametrize("low", [0, 2, -1])
def test_categorical_log_prob_entropy_kl_and_mode(low):
    actions = make_action_distribution(integers(low, low + 2))
    assert isinstance(actions, CategoricalActions)
    assert actions.num_outputs == 3
    assert actions.params_spec == tf.TensorSpec((3,), tf.float32)
    logits, other = normal(5, 2, 3), normal(5, 2, 3, seed=1)
    params = actions.params(logits)
    log_p, log_q = log_softmax(logits), log_softmax(other)
    for index in range(3):
        raw = tf.fill((5, 2), tf.constant(index, tf.int64))
        np.testing.assert_allclose(actions.log_prob(params, raw), log_p[..., index], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(actions.action(raw), np.full((5, 2), low + index))
    np.testing.assert_allclose(actions.entropy(params), -(np.exp(log_p) * log_p).sum(axis=-1), rtol=1e-5)
    kl = (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)
    np.testing.assert_allclose(actions.kl(params, other), kl, rtol=1e-4)
    np.testing.assert_array_equal(actions.mode(params), np.argmax(logits, axis=-1))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8])
def test_categorical_samples_have_the_specs_dtype_and_frequencies(dtype):
    actions = make_action_distribution(integers(5, 7, (), dtype))
    p = np.array([0.2, 0.7, 0.1], np.float32)
    action = actions.action(actions.sample(tf.tile(tf.math.log(p)[tf.newaxis], (20000, 1))))
    assert action.dtype == dtype and action.shape == (20000,)
    assert_frequencies_are(action.numpy() - 5, p)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_an_action_that_is_its_index_costs_nothing(dtype):
    actions = make_action_distribution(integers(0, 3, (), dtype))
    raw = actions.sample(normal(6, 4))
    assert actions.action(raw) is raw


def test_multi_categorical_log_prob_entropy_kl_and_mode():
    actions = make_action_distribution(UNEVEN)
    assert isinstance(actions, MultiCategoricalActions)
    assert actions.num_outputs == 9
    outputs, other = normal(6, 9), normal(6, 9, seed=1)
    params, rng = actions.params(outputs), np.random.default_rng(0)
    raw = np.stack([rng.integers(n, size=6) for n in (2, 4, 3)], axis=1).astype(np.int32)
    log_prob, entropy, kl, mode = 0, 0, 0, []
    for i, columns in enumerate((slice(0, 2), slice(2, 6), slice(6, 9))):
        log_p, log_q = log_softmax(outputs[:, columns]), log_softmax(other[:, columns])
        log_prob += log_p[np.arange(6), raw[:, i]]
        entropy -= (np.exp(log_p) * log_p).sum(axis=-1)
        kl += (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)
        mode.append(log_p.argmax(axis=-1))
    np.testing.assert_allclose(actions.log_prob(params, raw), log_prob, rtol=1e-5)
    np.testing.assert_allclose(actions.entropy(params), entropy, rtol=1e-5)
    np.testing.assert_allclose(actions.kl(params, actions.params(other)), kl, rtol=1e-4)
    np.testing.assert_array_equal(actions.mode(params), np.stack(mode, axis=1))
    np.testing.assert_array_equal(actions.action(raw), raw + [0, 5, -1])


@pytest.mark.parametrize("spec", [UNEVEN, BITS], ids=["uneven", "even"])
def test_multi_categorical_samples_are_independent_with_their_frequencies(spec):
    actions = make_action_distribution(spec)
    params = rows_of_params(actions)
    raw = actions.sample(params).numpy()
    p = np.exp(log_softmax(params[0]))
    for i, row in enumerate(p):
        assert_frequencies_are(raw[:, i], row)
    # The deviation of a correlation of n independent pairs is 1 / sqrt(n).
    assert np.abs(np.corrcoef(raw.T) - np.eye(len(p))).max() < 5 / math.sqrt(len(raw))


def test_bits_keep_their_shape():
    actions = make_action_distribution(BITS)
    assert actions.num_outputs == 8
    action = actions.action(tf.constant([[0, 1, 1, 0]]))
    assert action.dtype == tf.int8
    np.testing.assert_array_equal(action, [[[0, 1], [1, 0]]])


@pytest.mark.parametrize("spec", [UNEVEN, BITS, {"a": UNEVEN, "b": (BITS,)}], ids=["uneven", "even", "nest"])
def test_symmetric_kl_to_uniform_is_the_sum_of_the_parts(spec):
    actions = make_action_distribution(spec)
    params = actions.params(normal(2, 3, actions.num_outputs))
    divergence = actions.symmetric_kl_to_uniform(params)
    assert divergence.shape == (2, 3) and divergence.dtype == tf.float32
    expected = np.zeros((2, 3))
    for logits in tf.nest.flatten(params):
        for i in range(logits.shape[-2]):
            log_p = log_softmax(logits[..., i, :])
            exists = log_p > -1e8
            p, u = np.exp(log_p), exists / exists.sum(axis=-1, keepdims=True)
            expected += 0.5 * ((p - u) * np.where(exists, log_p, 0)).sum(axis=-1)
    # A sum of at most 20 terms below 10 in float32.
    np.testing.assert_allclose(divergence, expected, atol=200 * np.finfo(np.float32).eps)


def test_symmetric_kl_to_uniform_of_one_integer_is_over_the_allowed_ones():
    actions = make_action_distribution(integers(3, 7))
    outputs, mask = normal(4, 5), np.array([1, 0, 1, 1, 0])
    divergence = actions.symmetric_kl_to_uniform(actions.params(outputs, np.tile(mask, (4, 1))))
    expected = losses.symmetric_kl_to_uniform(tf.boolean_mask(outputs, mask, axis=1))
    np.testing.assert_allclose(divergence, expected, rtol=1e-5)
    assert np.all(divergence.numpy() > 0.01)


@pytest.mark.parametrize("case", ["gaussian", "tanh", "beta", "nest"])
def test_symmetric_kl_to_uniform_is_refused_for_floats(case):
    actions = make(case)
    with pytest.raises(ConfigError, match="exists only for integer actions, not for (Gauss|TanhGauss|Beta)"):
        actions.symmetric_kl_to_uniform(actions.params(normal(2, actions.num_outputs)))


MASKED = {"categorical": (integers(3, 7), [(0, 5)]), "uneven": (UNEVEN, [(0, 2), (2, 6), (6, 9)])}


@pytest.mark.parametrize("dtype", [tf.bool, tf.int8, tf.float32])
@pytest.mark.parametrize("kind", MASKED)
def test_forbidden_actions_have_no_probability(kind, dtype):
    spec, groups = MASKED[kind]
    actions = make_action_distribution(spec)
    size = actions.num_outputs
    mask = np.random.default_rng(0).integers(0, 2, (4, size))
    mask[2], mask[3] = 0, 1
    mask[:, [begin for begin, _ in groups]] |= ~np.logical_or.reduceat(mask, [g[0] for g in groups], axis=1)
    outputs = normal(4, size, scale=3.0)
    params = actions.params(outputs, tf.cast(mask, dtype))
    log_prob, entropy = 0, 0
    raw = actions.mode(params)
    for i, (begin, end) in enumerate(groups):
        # The literal definition: the probabilities of what is allowed, normalised.
        p = np.exp(outputs[:, begin:end].numpy().astype(np.float64)) * mask[:, begin:end]
        p /= p.sum(axis=-1, keepdims=True)
        index = raw if kind == "categorical" else raw[:, i]
        np.testing.assert_array_equal(index, p.argmax(axis=-1))
        log_prob += np.log(p.max(axis=-1))
        entropy -= np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0).sum(axis=-1)
        many = actions.sample(tf.tile(params[tf.newaxis], (20000, *[1] * params.shape.rank))).numpy()
        many = many if kind == "categorical" else many[..., i]
        for row in range(4):
            assert_frequencies_are(many[:, row], p[row])
    np.testing.assert_allclose(actions.log_prob(params, raw), log_prob, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(actions.entropy(params), entropy, rtol=1e-4, atol=1e-5)
    has_choice = [np.any([row[begin:end].sum() > 1 for begin, end in groups]) for row in mask]
    np.testing.assert_array_equal(actions.has_choice(params), has_choice)
    assert not has_choice[2] and has_choice[3]


@pytest.mark.parametrize("kind", MASKED)
def test_a_row_that_allows_nothing_allows_all(kind):
    actions = make_action_distribution(MASKED[kind][0])
    outputs = normal(3, 2, actions.num_outputs)
    mask = np.zeros((3, 2, actions.num_outputs), np.int8)
    mask[0, :, 0] = 1  # one choice of the first part, none of the others
    masked, free = actions.params(outputs, mask), actions.params(outputs)
    np.testing.assert_array_equal(masked[1:], free[1:])
    first = (masked if kind == "categorical" else masked[:, :, 0])[0]
    np.testing.assert_array_equal(tf.nn.softmax(first), np.eye(first.shape[-1])[[0, 0]])
    if kind == "uneven":
        np.testing.assert_array_equal(masked[0, :, 1:], free[0, :, 1:])
    assert np.all(np.isfinite(actions.log_prob(masked, actions.sample(masked))))


@pytest.mark.parametrize("kind", MASKED)
def test_masked_gradients_are_finite_and_zero_where_forbidden(kind):
    spec, groups = MASKED[kind]
    actions = make_action_distribution(spec)
    mask = np.ones((3, actions.num_outputs), np.int8)
    for begin, _ in groups:
        mask[0, begin] = 0
    mask[1] = np.isin(np.arange(actions.num_outputs), [begin for begin, _ in groups])  # one of each
    outputs, other = normal(3, actions.num_outputs), normal(3, actions.num_outputs, seed=1)
    allowed = actions.sample(actions.params(other, mask))
    forbidden = tf.zeros_like(allowed)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(outputs)
        p, q, free = actions.params(outputs, mask), actions.params(other, mask), actions.params(other)
        results = {
            "log_prob": actions.log_prob(p, allowed),
            "entropy": actions.entropy(p),
            "kl": actions.kl(p, q),
            "kl of more to fewer": actions.kl(free, p),
            "kl of fewer to more": actions.kl(p, free),
            "log_prob of a forbidden one": actions.log_prob(p, forbidden),
        }
    for name, result in results.items():
        gradient = tape.gradient(result, outputs).numpy()
        assert np.all(np.isfinite(result)) and np.all(np.isfinite(gradient)), name
        np.testing.assert_array_equal(gradient[mask == 0], 0, err_msg=name)
    assert results["log_prob of a forbidden one"][0] < -1e8
    np.testing.assert_array_equal(results["entropy"][1], 0.0)
    np.testing.assert_array_equal(results["log_prob"][1], 0.0)
    assert np.all(results["kl"] >= -1e-6) and np.all(results["kl"] < 10)


@pytest.mark.parametrize(
    "spec, mask",
    [
        (integers(0, 2), np.ones((4, 4))),
        (integers(0, 2), np.ones(3)),
        (integers(0, 2), {"a": np.ones((4, 3))}),
        (UNEVEN, np.ones((4, 3))),
        (UNEVEN, np.ones((4, 3, 4))),
        (box(), np.ones((4, 6))),
        (NEST, np.ones((4, 6))),
        (NEST, {"hand": np.ones((4, 4))}),
        (NEST, {"feet": np.ones((4, 6))}),
        (NEST, {"keys": [None]}),
        (NEST, {"keys": {"first": None}}),
    ],
)
def test_masks_that_do_not_fit_are_refused(spec, mask):
    actions = make_action_distribution(spec)
    with pytest.raises(ConfigError, match="the action mask is "):
        actions.params(normal(4, actions.num_outputs), mask)
