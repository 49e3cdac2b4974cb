# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Losses: values, signs and where the gradient goes."""

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import losses

MASK = tf.constant([[True, False, True], [True, True, False]])


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
        loss = losses.masked_mean(losses.policy_gradient_loss(log_prob, advantages), MASK)
    to_log_prob, to_advantages = tape.gradient(loss, [log_prob, advantages])
    np.testing.assert_allclose(to_log_prob, -advantages.numpy() * MASK.numpy() / 4, rtol=1e-6)
    assert to_advantages is None


def test_value_loss():
    values, targets = tf.constant([[1.0, -2.0]]), tf.constant([[4.0, -2.5]])
    with tf.GradientTape() as tape:
        tape.watch([values, targets])
        loss = losses.value_loss(values, targets)
    np.testing.assert_allclose(loss, [[4.5, 0.125]])
    to_values, to_targets = tape.gradient(loss, [values, targets])
    np.testing.assert_allclose(to_values, [[-3.0, 0.5]])  # value - target
    assert to_targets is None


def test_entropy_loss():
    entropy = random(0)
    with tf.GradientTape() as tape:
        tape.watch(entropy)
        loss = losses.entropy_loss(entropy)
    np.testing.assert_array_equal(loss, -entropy.numpy())
    np.testing.assert_array_equal(tape.gradient(loss, entropy), np.full([2, 3], -1.0))


def test_masked_mean():
    x = random(0)
    np.testing.assert_allclose(losses.masked_mean(x, MASK), np.mean(x.numpy()[MASK.numpy()]), rtol=1e-6)


def test_masked_mean_of_nothing_is_zero():
    assert losses.masked_mean(random(0), tf.zeros([2, 3], tf.bool)) == 0.0


@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_masked_mean_ignores_garbage_outside_the_mask(garbage):
    x = tf.where(MASK, 2.0, garbage)
    with tf.GradientTape() as tape:
        tape.watch(x)
        mean = losses.masked_mean(x, MASK)
    assert mean == 2.0
    np.testing.assert_array_equal(tape.gradient(mean, x), MASK.numpy() / 4)


def test_in_tf_function_with_unknown_batch():
    spec = tf.TensorSpec([2, None], tf.float32)

    @tf.function(input_signature=[spec, spec, tf.TensorSpec([2, None], tf.bool)])
    def in_graph(a, b, mask):
        return losses.masked_mean(losses.value_loss(a, b) + losses.entropy_loss(a), mask)

    a, b = random(0), random(1)
    per_step = 0.5 * (b.numpy() - a.numpy()) ** 2 - a.numpy()
    np.testing.assert_allclose(in_graph(a, b, MASK), np.mean(per_step[MASK.numpy()]), rtol=1e-5)


@pytest.mark.parametrize(
    "fn, names",
    [
        (losses.policy_gradient_loss, ("log_prob", "advantages")),
        (losses.value_loss, ("values", "targets")),
        (losses.entropy_loss, ("entropy",)),
        (losses.masked_mean, ("x", "mask")),
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
