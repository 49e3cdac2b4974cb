# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Losses: values, signs and where the gradient goes."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from alf.ops import losses

MASK = tf.constant([[True, False, True], [True, True, False]])
WEIGHT = tf.cast(MASK, tf.float32)


def random(seed, shape=(2, 3)):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def test_policy_gradient_loss():
    log_prob, advantages = random(0), random(1)
    loss = losses.policy_gradient_loss(log_prob, advantages)
    np.testing.assert_allclose(loss, -advantages.numpy() * log_prob.numpy(), rtol=1e-6)


def test_policy_gradient_is_minus_advantage_over_n():
    log_prob, advantages = random(0), random(1)
    with tf.GradientTape() as tape:
        tape.watch([log_prob, advantages])
        loss = losses.weighted_mean(losses.policy_gradient_loss(log_prob, advantages), WEIGHT)
    to_log_prob, to_advantages = tape.gradient(loss, [log_prob, advantages])
    np.testing.assert_allclose(to_log_prob, -advantages.numpy() * MASK.numpy() / 4, rtol=1e-6)
    assert to_advantages is None


def literal_ppo(ratio, advantages, clip_range):
    clipped = np.clip(ratio, 1 / (1 + clip_range), 1 + clip_range)
    return -np.minimum(ratio * advantages, clipped * advantages)


def value_and_gradients(fn, *args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        value = fn(*args)
    return value, *tape.gradient(value, args)


@pytest.mark.parametrize("clip_range", [0.1, 1, 3.0, tf.constant(0.2)])
def test_ppo_policy_loss(clip_range):
    log_ratio, advantages = random(0, [20, 30]), random(1, [20, 30])
    loss, to_log_ratio, to_advantages = value_and_gradients(
        lambda r, a: losses.ppo_policy_loss(r, a, clip_range), log_ratio, advantages
    )
    ratio, a, clip_range = np.exp(log_ratio.numpy()), advantages.numpy(), float(clip_range)
    np.testing.assert_allclose(loss, literal_ppo(ratio, a, clip_range), rtol=1e-5)
    improved = np.where(a > 0, ratio > 1 + clip_range, ratio < 1 / (1 + clip_range))
    assert improved.any() and not improved.all()
    np.testing.assert_allclose(to_log_ratio, np.where(improved, 0.0, -a * ratio), rtol=1e-5)
    assert to_advantages is None


def test_ppo_on_policy_is_the_policy_gradient():
    """Also with nothing allowed: the first update of a batch has ratio 1."""
    advantages = random(1)
    for clip_range in (0.0, 0.2):
        _, gradient = value_and_gradients(
            lambda r, c=clip_range: losses.ppo_policy_loss(r, advantages, c), tf.zeros([2, 3])
        )
        np.testing.assert_allclose(gradient, -advantages.numpy())


def test_ppo_gradient_of_a_clipped_ratio_that_overflows_is_zero():
    log_ratio = tf.constant([[100.0, np.inf, -100.0, -np.inf]])
    loss, gradient = value_and_gradients(
        lambda r: losses.ppo_policy_loss(r, tf.constant([[2.0, 2.0, -2.0, -2.0]]), 1.0), log_ratio
    )
    np.testing.assert_allclose(loss, [[-4.0, -4.0, 1.0, 1.0]], rtol=1e-6)
    np.testing.assert_array_equal(gradient, [[0.0] * 4])


def test_ppo_clipped():
    log_ratio = tf.constant(np.log([[0.5, 0.66, 0.67, 1.0, 1.49, 1.51]]), tf.float32)
    expected = [[True, True, False, False, False, True]]
    np.testing.assert_array_equal(losses.ppo_clipped(log_ratio, 0.5), expected)
    np.testing.assert_array_equal(losses.ppo_clipped(log_ratio, tf.constant(0.5)), expected)


def test_value_loss():
    values, targets = tf.constant([[1.0, -2.0]]), tf.constant([[4.0, -2.5]])
    with tf.GradientTape() as tape:
        tape.watch([values, targets])
        loss = losses.value_loss(values, targets)
    np.testing.assert_allclose(loss, [[4.5, 0.125]])
    to_values, to_targets = tape.gradient(loss, [values, targets])
    np.testing.assert_allclose(to_values, [[-3.0, 0.5]])  # value - target
    assert to_targets is None


@pytest.mark.parametrize("clip_range", [0.5, tf.constant(0.5)])
def test_clipped_value_loss(clip_range):
    values, old_values, targets = random(0, [20, 30]), random(1, [20, 30]), random(2, [20, 30])
    loss, to_values, to_old_values, to_targets = value_and_gradients(
        lambda v, o, t: losses.clipped_value_loss(v, o, t, clip_range), values, old_values, targets
    )
    v, o, t = values.numpy(), old_values.numpy(), targets.numpy()
    clipped = o + np.clip(v - o, -0.5, 0.5)
    np.testing.assert_allclose(loss, 0.5 * np.maximum((v - t) ** 2, (clipped - t) ** 2), rtol=1e-4, atol=1e-6)
    # Beyond the range and closer to the target than its limit: nothing to gain.
    done = (np.abs(v - o) > 0.5) & (np.abs(v - t) < np.abs(clipped - t))
    assert done.any() and (~done & (np.abs(v - o) > 0.5)).any() and (np.abs(v - o) < 0.5).any()
    np.testing.assert_allclose(to_values, np.where(done, 0.0, v - t), rtol=1e-5, atol=1e-6)
    assert to_old_values is None and to_targets is None


def test_clipped_value_loss_by_hand():
    values, old_values = tf.constant([[1.2, 2.0, 2.0]]), tf.constant([[1.0, 1.0, 1.0]])
    loss = losses.clipped_value_loss(values, old_values, tf.constant([[3.2, 3.0, 1.0]]), 0.5)
    np.testing.assert_allclose(loss, [[2.0, 1.125, 0.5]], rtol=1e-6)


def literal_symmetric_kl(logits, allowed):
    """Both divergences, action by action, in float64."""
    x = logits[allowed].astype(np.float64)
    log_p = x - np.log(np.sum(np.exp(x)))
    log_u = -np.log(len(x))
    return 0.5 * (np.sum(np.exp(log_p) * (log_p - log_u)) + np.sum(np.exp(log_u) * (log_u - log_p)))


def literal_symmetric_kl_gradient(logits, allowed):
    x = logits[allowed].astype(np.float64)
    log_p = x - np.log(np.sum(np.exp(x)))
    p = np.exp(log_p)
    gradient = np.zeros(logits.shape)
    gradient[allowed] = 0.5 * (p * (log_p - np.sum(p * log_p)) + p - 1 / len(x))
    return gradient


@pytest.mark.parametrize("forbidden", [-1e9, -1e38 / 2, -np.inf])
@pytest.mark.parametrize("shape", [(5,), (7, 5), (4, 3, 5)])
def test_symmetric_kl_to_uniform(shape, forbidden):
    rng = np.random.default_rng(0)
    allowed = rng.random(shape) < 0.6
    allowed[..., 2] = True
    logits = np.where(allowed, 3 * rng.normal(size=shape), forbidden).astype(np.float32)
    kl, gradient = value_and_gradients(losses.symmetric_kl_to_uniform, tf.constant(logits))
    assert kl.shape == shape[:-1]
    for i in np.ndindex(shape[:-1]):
        np.testing.assert_allclose(kl[i], literal_symmetric_kl(logits[i], allowed[i]), rtol=1e-5, atol=1e-6)
        expected = literal_symmetric_kl_gradient(logits[i], allowed[i])
        np.testing.assert_allclose(gradient[i], expected, atol=1e-6)


def test_symmetric_kl_of_the_uniform_policy_is_zero():
    logits = tf.constant(
        [[7.0, 7.0, 7.0], [-1.0, -1e38, -1.0], [2.0, -1e38, -1e38], [-1e38] * 3, [-np.inf] * 3]
    )
    kl, gradient = value_and_gradients(losses.symmetric_kl_to_uniform, logits)
    np.testing.assert_allclose(kl, np.zeros(5), atol=1e-6)
    np.testing.assert_allclose(gradient, np.zeros([5, 3]), atol=1e-6)


@pytest.mark.parametrize("gap", [30.0, 1e4, 1e30])
def test_symmetric_kl_pulls_a_deterministic_policy_back(gap):
    """The entropy's gradient has vanished by then, and the loss would be beyond the clamp of 30."""
    kl, gradient = value_and_gradients(losses.symmetric_kl_to_uniform, tf.constant([gap, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(kl, 0.5 * (np.log(4) + 0.75 * gap - np.log(4)), rtol=1e-5)
    np.testing.assert_allclose(gradient, [0.375, -0.125, -0.125, -0.125], atol=1e-6)


def test_symmetric_kl_has_a_bounded_gradient():
    logits = random(0, [2000, 6]) * tf.exp(3 * random(1, [2000, 1]))
    _, gradient = value_and_gradients(losses.symmetric_kl_to_uniform, logits)
    assert np.max(np.abs(gradient)) <= 0.5 * (1 + np.log(6))


def test_symmetric_kl_does_not_hide_nan():
    """A logit that is NaN is not one that is forbidden: training has diverged."""
    assert np.isnan(losses.symmetric_kl_to_uniform(tf.constant([0.0, np.nan])))


@pytest.mark.parametrize("bad", [tf.constant(1.0), tf.constant([1, 2]), tf.constant([1.0, 2.0], tf.float64)])
def test_symmetric_kl_of_misshapen_logits(bad):
    with pytest.raises(ValueError, match="^logits must be float32 of rank 1 or more, not "):
        losses.symmetric_kl_to_uniform(bad)


@pytest.mark.parametrize("outside", [5.0, np.nan, np.inf])
def test_normalize_advantages(outside):
    advantages = random(0, [20, 30]) * 100 + 1000
    mask = random(1, [20, 30]) > 0.3
    result = losses.normalize_advantages(tf.where(mask, advantages, outside), mask)
    assert result.dtype == tf.float32
    a = advantages.numpy()[mask.numpy()].astype(np.float64)
    np.testing.assert_allclose(result[mask], (a - np.mean(a)) / np.std(a), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(result[~mask], 0.0)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-30, 12345.678, 3e38])
@pytest.mark.parametrize("count", [0, 1, 7, 600])
def test_equal_advantages_are_normalized_to_zero(count, value):
    mask = tf.reshape(tf.range(600) < count, [20, 30])
    result = losses.normalize_advantages(tf.fill([20, 30], value), mask)
    np.testing.assert_array_equal(result, np.zeros([20, 30]))


def test_tiny_advantages_are_not_scaled_up():
    result = losses.normalize_advantages(tf.constant([[1e-12, -1e-12]]), tf.constant([[True, True]]))
    np.testing.assert_allclose(result, [[1e-4, -1e-4]], rtol=1e-3)


def explain(values, targets):
    """The literal formula, of arrays [N]."""
    return 1 - np.var(targets - values) / np.var(targets)


@pytest.mark.parametrize("outside", [5.0, np.nan, np.inf])
@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_explained_variance(mean, outside):
    targets, noise, weight = random(0, [20, 30]) + mean, random(1, [20, 30]), random(2, [20, 30])
    weight = tf.maximum(weight, 0.0)  # whether a row counts, and not how much
    counts = weight > 0
    for values in (targets + 0.3 * noise, 2.0 * noise, targets + 7.0, tf.zeros_like(targets)):
        given = (tf.where(counts, x, outside) for x in (values, targets))
        result = losses.explained_variance(*given, weight)
        assert result.dtype == tf.float32 and result.shape == ()
        here = (x.numpy()[counts.numpy()].astype(np.float64) for x in (values, targets))
        np.testing.assert_allclose(result, explain(*here), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, -12345.678])
def test_equal_targets_have_no_variance_to_explain(value):
    targets = tf.fill([20, 30], value)
    for count in (0, 1, 7, 600):
        weight = tf.cast(tf.reshape(tf.range(600) < count, [20, 30]), tf.float32)
        assert losses.explained_variance(random(0, [20, 30]), targets, weight) == 0.0


def test_entropy_loss():
    entropy = random(0)
    with tf.GradientTape() as tape:
        tape.watch(entropy)
        loss = losses.entropy_loss(entropy)
    np.testing.assert_array_equal(loss, -entropy.numpy())
    np.testing.assert_array_equal(tape.gradient(loss, entropy), np.full([2, 3], -1.0))


def test_weighted_mean():
    x, weight = random(0), WEIGHT * tf.exp(random(1))
    expected = np.sum(x.numpy() * weight.numpy()) / np.sum(MASK.numpy())
    np.testing.assert_allclose(losses.weighted_mean(x, weight), expected, rtol=1e-6)


def test_weighted_mean_of_nothing_is_zero():
    assert losses.weighted_mean(random(0), tf.zeros([2, 3])) == 0.0


@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_weighted_mean_ignores_garbage_where_the_weight_is_zero(garbage):
    x = tf.where(MASK, 2.0, garbage)
    with tf.GradientTape() as tape:
        tape.watch(x)
        mean = losses.weighted_mean(x, WEIGHT)
    assert mean == 2.0
    np.testing.assert_array_equal(tape.gradient(mean, x), MASK.numpy() / 4)


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
def test_garbage_outside_the_mask_does_not_reach_the_gradient(garbage):
    """What comes from the actors may be anything there; advantages and targets are 0."""
    log_ratio, values = random(0), random(1)
    advantages = targets = tf.where(MASK, random(2), 0.0)

    def loss(log_ratio, old_values, values):
        policy = losses.ppo_policy_loss(log_ratio, advantages, 0.2)
        value = losses.clipped_value_loss(values, old_values, targets, 0.2)
        return losses.weighted_mean(policy, WEIGHT) + losses.weighted_mean(value, WEIGHT)

    expected, *gradients = value_and_gradients(loss, log_ratio, random(3), values)
    actual, *actual_gradients = value_and_gradients(
        loss, tf.where(MASK, log_ratio, garbage), tf.where(MASK, random(3), garbage), values
    )
    assert actual == expected
    for i in (0, 2):
        np.testing.assert_array_equal(actual_gradients[i], gradients[i])
    clipped = losses.ppo_clipped(tf.where(MASK, log_ratio, garbage), 0.2)
    np.testing.assert_array_equal(clipped[MASK], losses.ppo_clipped(log_ratio, 0.2)[MASK])


def test_in_tf_function_with_unknown_batch():
    spec = tf.TensorSpec([2, None], tf.float32)

    @tf.function(input_signature=[spec] * 3, autograph=False)
    def in_graph(a, b, weight):
        return losses.weighted_mean(losses.value_loss(a, b) + losses.entropy_loss(a), weight)

    a, b = random(0), random(1)
    per_step = 0.5 * (b.numpy() - a.numpy()) ** 2 - a.numpy()
    np.testing.assert_allclose(in_graph(a, b, WEIGHT), np.mean(per_step[MASK.numpy()]), rtol=1e-5)


def test_clip_range_and_batch_may_be_known_only_when_it_runs():
    @tf.function(input_signature=[tf.TensorSpec([2, None, 3]), tf.TensorSpec([])], autograph=False)
    def in_graph(x, clip_range):
        a, b = x[..., 0], x[..., 1]
        clipped = tf.cast(losses.ppo_clipped(a, clip_range), tf.float32)
        a = losses.normalize_advantages(a, a > -9.0)
        loss = losses.ppo_policy_loss(b, a, clip_range) + losses.clipped_value_loss(a, b, a, clip_range)
        return loss + losses.symmetric_kl_to_uniform(x) + clipped

    x = random(0, [2, 5, 3])
    expected = in_graph.python_function(x, tf.constant(0.2))
    np.testing.assert_allclose(in_graph(x, tf.constant(0.2)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "fn, names",
    [
        (losses.policy_gradient_loss, ("log_prob", "advantages")),
        (partial(losses.ppo_policy_loss, clip_range=0.2), ("log_ratio", "advantages")),
        (partial(losses.ppo_clipped, clip_range=0.2), ("log_ratio",)),
        (partial(losses.clipped_value_loss, clip_range=0.2), ("values", "old_values", "targets")),
        (losses.normalize_advantages, ("advantages", "mask")),
        (losses.value_loss, ("values", "targets")),
        (losses.entropy_loss, ("entropy",)),
        (losses.weighted_mean, ("x", "weight")),
        (losses.explained_variance, ("targets", "values", "weight")),
    ],
)
def test_misshapen_argument_is_named(fn, names):
    good = {name: MASK if name == "mask" else random(0) for name in names}
    for name in names:
        for bad in (good[name][0], good[name][..., None], tf.constant([[1, 2, 3]] * 2)):
            with pytest.raises(ValueError, match=f"^{name} must be"):
                fn(**{**good, name: bad})
    # [T, B] against [T, 1] or [1, B] would broadcast: the second one is blamed.
    for name in names[1:]:
        for bad in (good[name][:1], good[name][:, :1]):
            with pytest.raises(ValueError, match=f"^{name} must be"):
                fn(**{**good, name: bad})
