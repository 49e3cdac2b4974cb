# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Targets and losses of action values against the literal formulas, and where their gradients go."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.ops import td_losses

T, B, N = 4, 3, 5


def random(seed, *shape):
    return tf.constant(np.random.default_rng(seed).normal(size=shape or (T, B)), tf.float32)


def random_policy(seed):
    """prob and log_prob of N actions."""
    log_prob = tf.nn.log_softmax(random(seed, T, B, N))
    return tf.exp(log_prob), log_prob


def value_and_gradients(fn, *args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        value = fn(*args)
    return value, *tape.gradient(value, args)


@pytest.mark.parametrize("leading", [(), (2,)])
def test_value_of_action(leading):
    q = random(0, *leading, T, B, N)
    action = np.random.default_rng(1).integers(0, N, (T, B))
    value = td_losses.value_of_action(q, tf.constant(action))
    assert value.shape == (*leading, T, B)
    for index in np.ndindex(*leading, T, B):
        assert value[index] == q[index][action[index[-2:]]]


def test_greedy_value():
    target_q, q = random(0, T, B, N), random(1, T, B, N)
    greedy, double = td_losses.greedy_value(target_q), td_losses.greedy_value(target_q, q)
    for index in np.ndindex(T, B):
        assert greedy[index] == max(target_q[index].numpy())
        assert double[index] == target_q[index][int(np.argmax(q[index]))]
    assert (double.numpy() < greedy.numpy()).any()


def test_soft_value():
    (prob, log_prob), q = random_policy(0), random(1, T, B, N)
    value = td_losses.soft_value(prob, log_prob, q, 0.3)
    for t, b in np.ndindex(T, B):
        expected = sum(prob[t, b, a] * (q[t, b, a] - 0.3 * np.log(prob[t, b, a].numpy())) for a in range(N))
        np.testing.assert_allclose(value[t, b], expected, rtol=1e-4, atol=1e-6)


def test_td_target():
    reward, discount, value = random(0), random(1), random(2)
    target, *gradients = value_and_gradients(td_losses.td_target, reward, discount, value)
    np.testing.assert_allclose(target, reward.numpy() + discount.numpy() * value.numpy(), rtol=1e-6)
    assert gradients == [None] * 3
    several = td_losses.td_target(reward, discount, tf.stack([value, 2 * value], -1))
    twice = td_losses.td_target(reward, discount, 2 * value)
    np.testing.assert_array_equal(several, np.stack([target, twice], -1))


@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_what_follows_a_termination_does_not_matter(garbage):
    target = td_losses.td_target([[1.0, 2.0]], [[0.0, 0.5]], [[garbage, 4.0]])
    np.testing.assert_array_equal(target, [[1.0, 4.0]])


@pytest.mark.parametrize("delta", [None, 0.5, 1.0])
def test_td_loss(delta):
    error = 2 * random(0)
    loss, gradient = value_and_gradients(lambda x: td_losses.td_loss(x, delta), error)
    e = error.numpy()
    if delta is None:
        np.testing.assert_allclose(loss, 0.5 * e**2, rtol=1e-6)
        np.testing.assert_allclose(gradient, e, rtol=1e-6)
        return
    near = np.abs(e) <= delta
    assert near.any() and not near.all()
    np.testing.assert_allclose(loss, np.where(near, 0.5 * e**2, delta * (np.abs(e) - delta / 2)), rtol=1e-5)
    np.testing.assert_allclose(gradient, np.clip(e, -delta, delta), rtol=1e-5)


def test_sac_critic_loss():
    q, target = random(0, 2, T, B), random(1)
    loss, to_q, to_target = value_and_gradients(td_losses.sac_critic_loss, q, target)
    difference = q.numpy() - target.numpy()
    np.testing.assert_allclose(loss, 0.5 * difference[0] ** 2 + 0.5 * difference[1] ** 2, rtol=1e-4)
    np.testing.assert_allclose(to_q, difference, rtol=1e-5)
    assert to_target is None


def test_sac_actor_loss_of_a_draw():
    log_prob, q, alpha = random(0, T, B, 1), random(1, T, B, 1), tf.constant(0.3)
    loss, to_log_prob, to_q, to_alpha = value_and_gradients(
        functools.partial(td_losses.sac_actor_loss, tf.ones((T, B, 1))), log_prob, q, alpha
    )
    np.testing.assert_allclose(loss, (0.3 * log_prob - q)[..., 0], rtol=1e-5)
    np.testing.assert_allclose(to_log_prob, np.full((T, B, 1), 0.3), rtol=1e-6)
    np.testing.assert_allclose(to_q, np.full((T, B, 1), -1.0))
    assert to_alpha is None


def test_gradient_of_the_sac_actor_loss_of_all_actions():
    """With respect to logits: pi (x - E[x]), where x = alpha log pi - q."""
    logits, q = random(0, T, B, N), random(1, T, B, N)

    def loss_of(logits):
        log_prob = tf.nn.log_softmax(logits)
        return td_losses.sac_actor_loss(tf.exp(log_prob), log_prob, q, 0.3)

    loss, gradient = value_and_gradients(loss_of, logits)
    log_pi = logits.numpy() - np.log(np.exp(logits.numpy()).sum(-1, keepdims=True))
    pi, x = np.exp(log_pi), 0.3 * log_pi - q.numpy()
    mean = (pi * x).sum(-1, keepdims=True)
    np.testing.assert_allclose(loss, mean[..., 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradient, pi * (x - mean), rtol=1e-3, atol=1e-6)


def test_sac_alpha_loss_moves_alpha_to_the_target_entropy():
    for entropy, sign in ((2.0, 1.0), (0.5, -1.0)):
        loss, to_alpha, to_entropy = value_and_gradients(
            lambda a, h: td_losses.sac_alpha_loss(a, h, 1.0), tf.constant(-0.5), tf.constant([[entropy]])
        )
        np.testing.assert_allclose(loss, [[-0.5 * (entropy - 1.0)]])
        assert np.sign(to_alpha) == sign, "too much entropy: alpha falls when this is minimised"
        assert to_entropy is None


@pytest.mark.parametrize("eta", [0.0, 0.9])
@pytest.mark.parametrize("garbage", [0.0, np.nan, np.inf])
def test_sequence_priority(garbage, eta):
    error = random(0)
    weight = np.array([[1, 0, 0], [0.5, 2, 0], [0, 1, 0], [3, 0, 0]], np.float32)
    priority, gradient = value_and_gradients(
        lambda x: td_losses.sequence_priority(x, weight, eta), tf.where(weight > 0, error, garbage)
    )
    e = np.abs(error.numpy())
    counted = [e[0, 0], e[1, 0], e[3, 0]], [e[1, 1], e[2, 1]], [0.0]
    expected = [eta * max(x) + (1 - eta) * sum(x) / len(x) for x in counted]
    np.testing.assert_allclose(priority, expected, rtol=1e-6)
    assert gradient is None


def test_rescaled_values():
    x = np.concatenate([-np.logspace(-4, 5, 50), [0.0], np.logspace(-4, 5, 50)])
    for epsilon in (1e-3, 1e-2):
        h = np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x  # in float64
        np.testing.assert_allclose(
            td_losses.signed_hyperbolic(tf.constant(x, tf.float32), epsilon), h, rtol=1e-6
        )
        root = (np.sqrt(1 + 4 * epsilon * (np.abs(h) + 1 + epsilon)) - 1) / (2 * epsilon)
        inverse = np.sign(h) * (root**2 - 1)
        np.testing.assert_allclose(inverse, x, rtol=1e-6, atol=1e-8)  # the formula is the inverse
        found = td_losses.signed_parabolic(tf.constant(h, tf.float32), epsilon)
        np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("delta", [None, 0.5, 1.0])
def test_quantile_huber_loss(delta):
    z, targets = random(0, T, B, N), random(1, T, B, 2)
    loss, to_z, to_targets = value_and_gradients(
        lambda z, targets: td_losses.quantile_huber_loss(z, targets, delta), z, targets
    )
    for t, b in np.ndindex(T, B):
        expected = 0.0
        for i in range(N):
            tau = (2 * i + 1) / (2 * N)
            for j in range(2):
                u = float(targets[t, b, j] - z[t, b, i])
                if delta is None:
                    size = abs(u)
                elif abs(u) <= delta:
                    size = u * u / 2 / delta
                else:
                    size = abs(u) - delta / 2
                expected += abs(tau - (u < 0)) * size / 2
        np.testing.assert_allclose(loss[t, b], expected, rtol=1e-5)
    assert to_targets is None and np.abs(to_z).max() > 0


def test_quantile_regression_finds_the_quantiles():
    """Of a sample: by its gradient alone, without Huber's rounding of the minimum."""
    sample = tf.constant(np.random.default_rng(0).normal(size=1001), tf.float32)[tf.newaxis, tf.newaxis]
    z = tf.Variable(tf.zeros((1, 1, N)))
    for i in range(600):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(td_losses.quantile_huber_loss(z, sample, None))
        z.assign_sub((0.3 if i < 300 else 0.02) * tape.gradient(loss, z))
    expected = np.quantile(sample, (np.arange(N) + 0.5) / N)
    np.testing.assert_allclose(z[0, 0], expected, atol=0.02)


@pytest.mark.parametrize(
    "fn, names",
    [
        (td_losses.td_target, ("reward", "discount", "value")),
        (td_losses.td_loss, ("td_error",)),
        (td_losses.sequence_priority, ("td_error", "weight")),
    ],
)
def test_misshapen_argument_is_named(fn, names):
    for name in names:
        for bad in (random(0)[0], random(0)[..., None], tf.zeros((T, B), tf.int32)):
            if name == "value" and bad.shape.rank == 3:
                continue  # of quantiles
            with pytest.raises(ValueError, match=f"^{name} must be"):
                fn(**{**{n: random(0) for n in names}, name: bad})
    for name in names[1:]:
        for bad in (random(0)[:1], random(0)[:, :1]):
            with pytest.raises(ValueError, match=f"^{name} must be"):
                fn(**{**{n: random(0) for n in names}, name: bad})
