# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Distributions of floats against TensorFlow Probability, closed forms and their own samples."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from alf.learner import optimizers
from alf.policies.action_distributions import (
    BetaActions,
    GaussianActions,
    TanhGaussianActions,
    make_action_distribution,
)
from tests.policies.action_distributions.cases import box, normal

tfd, tfb = tfp.distributions, tfp.bijectors


def test_gaussian_log_prob_entropy_kl_and_mode():
    actions = make_action_distribution(box((3,)))
    assert isinstance(actions, GaussianActions)
    assert actions.num_outputs == 6
    assert [s.shape for s in actions.params_spec] == [(3,), (3,)]
    outputs, raw = normal(4, 2, 6).numpy(), normal(4, 2, 3, seed=1).numpy()
    params = actions.params(tf.constant(outputs))
    loc, log_std = outputs[..., :3], outputs[..., 3:]
    z = (raw - loc) / np.exp(log_std)
    log_p = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    np.testing.assert_allclose(actions.log_prob(params, raw), log_p, rtol=1e-5, atol=1e-5)
    entropy = (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum(axis=-1)
    np.testing.assert_allclose(actions.entropy(params), entropy, rtol=1e-5)
    np.testing.assert_array_equal(actions.mode(params), loc)
    other = actions.params(normal(4, 2, 6, seed=2))
    p, q = (tfd.MultivariateNormalDiag(x[0], tf.exp(x[1])) for x in (params, other))
    np.testing.assert_allclose(actions.kl(params, other), tfd.kl_divergence(p, q), rtol=1e-4)


def test_softplus_std_is_the_literal_formula():
    actions = make_action_distribution(box((3,)), std_transform="softplus", init_log_std=math.log(0.3))
    outputs, others, raw = (normal(4, 2, n, seed=n).numpy() for n in (6, 6, 3))
    others = others + 0.5
    c = math.log(math.exp(0.3) - 1)
    params, other_params = (actions.params(tf.constant(x)) for x in (outputs, others))
    (loc, std), (loc_q, std_q) = (
        (x[..., :3].astype(np.float64), np.log(1 + np.exp(x[..., 3:].astype(np.float64) + c)))
        for x in (outputs, others)
    )
    np.testing.assert_allclose(np.exp(params[1]), std, rtol=1e-5)
    log_p = -np.sum((raw - loc) ** 2 / (2 * std**2) + np.log(std) + np.log(2 * np.pi) / 2, axis=-1)
    np.testing.assert_allclose(actions.log_prob(params, raw), log_p, rtol=1e-4)
    entropy = np.sum(np.log(std) + np.log(2 * np.pi * np.e) / 2, axis=-1)
    np.testing.assert_allclose(actions.entropy(params), entropy, rtol=1e-4)
    kl = np.sum(np.log(std_q / std) + (std**2 + (loc - loc_q) ** 2) / (2 * std_q**2) - 0.5, axis=-1)
    np.testing.assert_allclose(actions.kl(params, other_params), kl, rtol=1e-4)


@pytest.mark.parametrize("continuous", ["gaussian", "tanh_gaussian"])
def test_std_may_be_fixed(continuous):
    actions = make_action_distribution(box((2,)), continuous, std="fixed", init_log_std=-1.25)
    assert actions.num_outputs == 2 and actions.variables == ()
    outputs = normal(5, 2, scale=100.0)
    loc, log_std = actions.params(outputs)
    np.testing.assert_array_equal(loc, outputs)
    np.testing.assert_array_equal(log_std, np.full((5, 2), -1.25))


@pytest.mark.parametrize("continuous", ["gaussian", "tanh_gaussian"])
@pytest.mark.parametrize("std_transform", ["exp", "softplus"])
@pytest.mark.parametrize("low, high", [(-1.0, 0.5), (-20.0, 3.0)])
def test_std_is_limited(continuous, std_transform, low, high):
    settings = dict(std_transform=std_transform, min_log_std=low, max_log_std=high)
    actions = make_action_distribution(box((1,)), continuous, **settings)
    x = tf.constant([[0.0, -1e6], [0.0, 1e6], [0.0, 0.25]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, log_std = actions.params(x)
    np.testing.assert_allclose(log_std[:2, 0], [low, high], rtol=1e-5)
    assert low < log_std[2, 0] < high
    gradient = tape.gradient(log_std, x)[:, 1]
    np.testing.assert_array_equal(gradient[:2], [0.0, 0.0])
    assert gradient[2] > 0.1
    shared = make_action_distribution(box((1,)), continuous, std="shared", **settings)
    (variable,) = shared.trainable_variables
    optimizer = optimizers.SGD(1.0)
    optimizer.build([variable], None)
    for step, limit in ((-1e6, high), (1e6, low)):
        optimizer.apply([tf.constant([step])])
        np.testing.assert_allclose(shared.params(tf.zeros((3, 1)))[1], np.full((3, 1), limit), rtol=1e-5)


def test_gaussian_samples_have_the_mean_and_the_scale():
    actions = GaussianActions(box((2,)))
    loc, log_std = tf.constant([1.0, -3.0]), tf.constant([0.0, -1.0])
    params = [tf.tile(x[tf.newaxis], (20000, 1)) for x in (loc, log_std)]
    raw = actions.sample(params).numpy()
    assert raw.shape == (20000, 2) and raw.dtype == np.float32
    # 5 standard deviations of the mean, of the standard deviation and of the correlation of n normal draws.
    n, std = len(raw), np.exp(log_std)
    assert np.all(np.abs(raw.mean(axis=0) - loc) < 5 * std / math.sqrt(n))
    np.testing.assert_allclose(raw.std(axis=0), std, rtol=5 / math.sqrt(2 * n))
    assert abs(np.corrcoef(raw.T)[0, 1]) < 5 / math.sqrt(n)


@pytest.mark.parametrize("continuous", ["gaussian", "tanh_gaussian"])
def test_noise_may_be_correlated_in_time(continuous):
    r, rows = 0.8, 20000
    actions = make_action_distribution(box((2,)), continuous, noise_correlation=r)
    params = [tf.tile(tf.constant([x]), (rows, 1)) for x in ([1.0, -3.0], [0.0, -1.0])]
    # The second half of the rows begins a new episode at step 3.
    noise, draws = tf.zeros((rows, 2)), []
    for t in range(6):
        is_first = (tf.range(rows) >= rows // 2) & (t == 3) | (t == 0)
        raw, noise = actions.explore(params, noise, is_first)
        np.testing.assert_allclose(raw, actions.draw(params, noise))
        draws.append(noise.numpy())
    # 5 standard deviations of the figures of n normal draws.
    n = rows // 2
    for x in draws:
        assert np.all(np.abs(x.mean(axis=0)) < 5 / math.sqrt(rows))
        np.testing.assert_allclose(x.std(axis=0), 1, rtol=5 / math.sqrt(2 * rows))
        assert abs(np.corrcoef(x.T)[0, 1]) < 5 / math.sqrt(rows)
    for i, j, correlation in [(0, 1, r), (0, 2, r**2), (2, 3, r), (1, 5, r**4)]:
        assert abs(np.corrcoef(draws[i][:n, 0], draws[j][:n, 0])[0, 1] - correlation) < 5 / math.sqrt(n)
    for i, j, correlation in [(2, 3, 0), (0, 5, 0), (3, 4, r)]:
        assert abs(np.corrcoef(draws[i][n:, 0], draws[j][n:, 0])[0, 1] - correlation) < 5 / math.sqrt(n)


def test_gaussian_scale_is_limited():
    actions = GaussianActions(box((1,)))
    _, log_std = actions.params(tf.constant([[0.0, -1e6], [0.0, 1e6], [0.0, 0.5]]))
    np.testing.assert_allclose(log_std[:, 0], [-5.0, 2.0, 0.5])


@pytest.mark.parametrize("scale_to_bounds", [False, True])
def test_density_is_that_of_what_was_drawn_also_beyond_the_bounds(scale_to_bounds):
    actions = GaussianActions(box((1,), -0.1, 0.1), scale_to_bounds=scale_to_bounds)
    params = (tf.constant([[0.0]]), tf.constant([[0.0]]))
    np.testing.assert_allclose(actions.log_prob(params, [[2.0]]), [-2.0 - 0.5 * np.log(2 * np.pi)], rtol=1e-6)


@pytest.mark.parametrize("continuous", ["gaussian", "tanh_gaussian"])
def test_std_may_be_a_variable_that_all_states_share(continuous):
    spec = box((2,))
    actions = make_action_distribution(spec, continuous, std="shared", init_log_std=-1.0)
    assert actions.num_outputs == 2
    (log_std,) = actions.trainable_variables
    log_std.assign([-1.0, 0.5])
    loc = normal(5, 2)
    params = actions.params(loc)
    np.testing.assert_array_equal(params[0], loc)
    np.testing.assert_array_equal(params[1], [[-1.0, 0.5]] * 5)
    with tf.GradientTape() as tape:
        entropy = GaussianActions.entropy(actions, actions.params(loc))
    np.testing.assert_allclose(tape.gradient(entropy, log_std), [5.0, 5.0])
    by_state = make_action_distribution(spec, continuous, std="state")
    assert by_state.num_outputs == 4 and by_state.trainable_variables == ()


def test_a_shared_std_stays_within_the_limits_and_comes_back():
    actions = GaussianActions(box((2,)), std="shared")
    (log_std,) = actions.trainable_variables
    optimizer = optimizers.SGD(1.0)
    optimizer.build([log_std], None)
    optimizer.apply([tf.constant([100.0, -100.0])])
    np.testing.assert_array_equal(log_std, [-5.0, 2.0])
    with tf.GradientTape() as tape:
        _, used = actions.params(tf.zeros((1, 2)))
        loss = tf.reduce_sum(used * [[-1.0, 1.0]])
    optimizer.apply([tape.gradient(loss, log_std)])
    np.testing.assert_array_equal(log_std, [-4.0, 1.0])


@pytest.mark.parametrize("continuous", ["gaussian", "tanh_gaussian"])
@pytest.mark.parametrize("std_transform", ["exp", "softplus"])
@pytest.mark.parametrize("std", ["state", "shared"])
def test_init_log_std_is_where_training_begins(std, std_transform, continuous):
    settings = dict(std=std, std_transform=std_transform)
    for value in (-1.5, 0, 1.0):
        actions = make_action_distribution(box((2,)), continuous, init_log_std=value, **settings)
        # The networks' heads begin near 0.
        _, log_std = actions.params(tf.zeros((3, actions.num_outputs)))
        np.testing.assert_allclose(log_std, np.full((3, 2), value), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_scale_to_bounds(dtype):
    spec = box((2,), [0.0, -3.0], [10.0, 1.0], dtype)
    raw = tf.constant([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [0.5, 0.5], [-7.0, 7.0]])
    scaled = make_action_distribution(spec, scale_to_bounds=True).action(raw)
    assert scaled.dtype == dtype
    np.testing.assert_allclose(scaled, [[0, -3], [5, -1], [10, 1], [7.5, 0], [0, 1]])
    for options in ({}, {"scale_to_bounds": False}):
        np.testing.assert_array_equal(make_action_distribution(spec, **options).action(raw), raw)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("continuous", ["tanh_gaussian", "beta"])
def test_squashed_actions_fill_the_bounds_and_keep_them(continuous, dtype):
    rng = np.random.default_rng(0)
    low = rng.normal(size=(500,)).astype(dtype.as_numpy_dtype)
    high = low + rng.exponential(size=(500,)).astype(dtype.as_numpy_dtype)
    actions = make_action_distribution(box((500,), low, high, dtype), continuous)
    ends = (-1e4, 0.0, 1e4) if continuous == "tanh_gaussian" else (0.0, 0.5, 1.0)
    least, middle, most = actions.action(tf.constant([[x] * 500 for x in ends])).numpy()
    for action, expected in ((least, low), (middle, (low + high) / 2), (most, high)):
        np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-6)
        assert np.all(action >= low) and np.all(action <= high)


def test_tanh_log_prob_is_that_of_the_squashed_action():
    actions = make_action_distribution(box((2,), 5.0, 9.0), "tanh_gaussian")
    assert isinstance(actions, TanhGaussianActions)
    params = actions.params(normal(50, 4))
    raw = actions.sample(params)
    normals = tfd.Independent(tfd.Normal(params[0], tf.exp(params[1])), 1)
    squashed = tfd.TransformedDistribution(normals, tfb.Tanh())
    # The bijector remembers the inverse; the value alone would have lost digits.
    np.testing.assert_allclose(
        actions.log_prob(params, raw), squashed.log_prob(squashed.bijector.forward(raw)), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_array_equal(actions.mode(params), params[0])
    np.testing.assert_allclose(actions.action(raw), 7 + 2 * np.tanh(raw), rtol=1e-5)
    # The literal formula, where it can be computed.
    z = (raw - params[0]) / tf.exp(params[1])
    log_p = -0.5 * z**2 - params[1] - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(raw) ** 2 + 1e-12)
    fine = np.all(np.abs(raw) < 2, axis=1)
    assert fine.sum() > 20
    np.testing.assert_allclose(
        actions.log_prob(params, raw)[fine], log_p.numpy().sum(axis=1)[fine], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("raw", [-1000.0, -20.0, 20.0, 1000.0])
def test_tanh_at_saturation(raw):
    actions = make_action_distribution(box((1,)), "tanh_gaussian")
    outputs = tf.constant([[raw, -1.0]])
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        params = actions.params(outputs)
        log_prob = actions.log_prob(params, tf.constant([[raw + 0.1]]))
    # 1 - tanh(x)^2 = 4 / (e^x + e^-x)^2, here 4 e^(-2|x|)
    z = 0.1 * math.e
    expected = -0.5 * z**2 + 1 - 0.5 * np.log(2 * np.pi) - np.log(4) + 2 * abs(raw + 0.1)
    np.testing.assert_allclose(log_prob, [expected], rtol=1e-4)
    np.testing.assert_allclose(tape.gradient(log_prob, outputs), [[z * math.e, z**2 - 1]], rtol=1e-2)
    assert np.isfinite(actions.entropy(params)[0])


def test_tanh_entropy_has_the_gradient_of_its_mean():
    actions = make_action_distribution(box((1,)), "tanh_gaussian")

    def mean_entropy(outputs):
        return tf.reduce_mean(actions.entropy(actions.params(tf.tile(outputs, (200_000, 1)))))

    outputs = tf.constant([[0.7, -0.2]])
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        entropy = mean_entropy(outputs)
    # By quadrature: the Gaussian's entropy and the mean of the logarithm of the slope.
    z = np.linspace(-8, 8, 4001)
    weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    exact = lambda m, s: (  # noqa: E731
        s + 0.5 * np.log(2 * np.pi * np.e) - 2 * (weight * np.log(np.cosh(m + np.exp(s) * z))).sum()
    )
    # The slope of -2 log cosh is at most 2. So the deviation of what is averaged is at most 2, for the
    # entropy and for its derivatives.
    bound = 5 * 2 / math.sqrt(200_000)
    np.testing.assert_allclose(entropy, exact(0.7, -0.2), atol=bound)
    gradient = [exact(0.7005, -0.2) - exact(0.6995, -0.2), exact(0.7, -0.1995) - exact(0.7, -0.2005)]
    np.testing.assert_allclose(tape.gradient(entropy, outputs)[0], np.array(gradient) / 1e-3, atol=bound)


def test_beta_log_prob_entropy_kl_and_moments():
    actions = make_action_distribution(box((3,), 0.0, 1.0), "beta")
    assert isinstance(actions, BetaActions)
    outputs = normal(5, 6, scale=3.0)
    alpha, beta = params = actions.params(outputs)
    np.testing.assert_allclose(tf.concat(params, 1), 1 + np.log1p(np.exp(outputs)), rtol=1e-5)
    p, q = (tfd.Beta(*actions.params(x)) for x in (outputs, normal(5, 6, seed=1)))
    raw = actions.sample(params)
    log_prob, entropy, kl = (tf.reduce_sum(x, -1) for x in (p.log_prob(raw), p.entropy(), p.kl_divergence(q)))
    np.testing.assert_allclose(actions.log_prob(params, raw), log_prob, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(actions.entropy(params), entropy, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        actions.kl(params, actions.params(normal(5, 6, seed=1))), kl, rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(actions.mode(params), (alpha - 1) / (alpha + beta - 2), rtol=1e-3, atol=1e-4)
    many = actions.sample([tf.tile(x[tf.newaxis], (20000, 1, 1)) for x in params]).numpy()
    # 5 standard deviations. That of the standard deviation of n draws in (0, 1) is at most 0.5 / sqrt(n).
    assert np.all(np.abs(many.mean(axis=0) - p.mean()) < 5 * p.stddev() / math.sqrt(20000))
    np.testing.assert_allclose(many.std(axis=0), p.stddev(), atol=5 * 0.5 / math.sqrt(20000))


def test_beta_near_the_edges():
    actions = make_action_distribution(box((1,), -2.0, 4.0), "beta")
    # All weight at one end, and (alpha, beta) = (1, 1) in float32.
    outputs = tf.constant([[1e4, -1e4], [-1e4, 1e4], [1e8, -1e8], [-1e8, 1e8], [-1e4, -1e4]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(outputs)
        params = actions.params(outputs)
        raw = actions.sample(params)
        log_prob, entropy = actions.log_prob(params, raw), actions.entropy(params)
    assert np.all(raw > 0) and np.all(raw < 1)
    assert np.all(np.isfinite(log_prob)) and np.all(np.isfinite(entropy))
    for x in (log_prob, entropy):
        assert np.all(np.isfinite(tape.gradient(x, outputs)))
    np.testing.assert_allclose(actions.action(actions.mode(params)), [[4], [-2], [4], [-2], [1]], atol=1e-4)
    np.testing.assert_allclose(actions.action(raw)[:4], [[4], [-2], [4], [-2]], atol=0.01)
