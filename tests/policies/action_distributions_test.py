# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action distributions against their closed forms, TensorFlow Probability and their own samples."""

import collections
import copy
import functools
import inspect
import math

import gin
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from alf.core.nest_utils import BoundedTensorSpec
from alf.errors import ConfigError
from alf.ops import losses
from alf.policies import action_distributions as distributions
from alf.policies.action_distributions import (
    BetaActions,
    CategoricalActions,
    GaussianActions,
    MultiCategoricalActions,
    NestedActions,
    TanhGaussianActions,
    make_action_distribution,
    split_mask,
)

tfd, tfb = tfp.distributions, tfp.bijectors
Pair = collections.namedtuple("Pair", "first second")


def integers(low, high, shape=(), dtype=tf.int64):
    return BoundedTensorSpec(shape, dtype, low, high)


def box(shape=(3,), low=-1.0, high=1.0, dtype=tf.float32):
    return BoundedTensorSpec(shape, dtype, low, high)


UNBOUNDED = tf.TensorSpec((3,), tf.float32)
UNEVEN = integers([0, 5, -1], [1, 8, 1], (3,))  # 2, 4 and 3 choices
BITS = integers(0, 1, (2, 2), tf.int8)
NEST = {
    "hand": box((2,), -3.0, 1.0, tf.float64),
    "keys": Pair(integers(3, 5, (), tf.int32), (UNEVEN, [integers(0, 1)])),
}
CASES = {
    "categorical": (integers(2, 5), {}),
    "int8": (integers(-1, 1, (), tf.int8), {}),
    "uneven": (UNEVEN, {}),
    "bits": (BITS, {}),
    "gaussian": (UNBOUNDED, {}),
    "shared": (UNBOUNDED, {"std": "shared", "init_log_std": -0.5}),
    "scaled": (box((3,), -3.0, 1.0), {"scale_to_bounds": True}),
    "softplus": (UNBOUNDED, {"std_transform": "softplus", "init_log_std": -1.0}),
    "shared softplus": (UNBOUNDED, {"std": "shared", "std_transform": "softplus"}),
    "fixed": (UNBOUNDED, {"std": "fixed", "init_log_std": -0.5}),
    "tanh softplus": (box(), {"continuous": "tanh_gaussian", "std_transform": "softplus"}),
    "tanh": (box((2, 2), [[0.0, 1.0]], 7.0, tf.float64), {"continuous": "tanh_gaussian"}),
    "beta": (box((), 2.0, 3.0), {"continuous": "beta"}),
    "nest": (NEST, {}),
    "tanh nest": (NEST, {"continuous": "tanh_gaussian", "std": "shared"}),
}
every_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture(autouse=True)
def _same_samples_in_every_run():
    tf.random.set_seed(0)


def make(case):
    spec, options = CASES[case]
    return make_action_distribution(spec, **options)


def normal(*shape, seed=0, scale=1.0):
    return tf.constant(scale * np.random.default_rng(seed).normal(size=shape), tf.float32)


def rows_of_params(actions, outputs=None):
    """The same parameters in 100,000 rows."""
    outputs = normal(1, actions.num_outputs) if outputs is None else outputs
    return actions.params(tf.tile(outputs, (100_000, 1)))


def assert_mean_is(samples, expected):
    """Within 5 standard errors."""
    samples = np.asarray(samples, np.float64)
    error = samples.std() / math.sqrt(len(samples))
    assert abs(samples.mean() - expected) <= 5 * error + 1e-5, (samples.mean(), expected, error)


def assert_frequencies_are(index, p):
    """How often each index was drawn, within 5 standard deviations; what has no probability never."""
    frequencies = np.bincount(index, minlength=len(p)) / len(index)
    assert np.all(np.abs(frequencies - p) <= 5 * np.sqrt(p * (1 - p) / len(index)) + 1e-6), (frequencies, p)
    assert np.all(frequencies[p == 0] == 0)


def log_softmax(x):
    x = np.asarray(x, np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def everything(actions, outputs, other):
    """All that a distribution does, a dict."""
    p, q = actions.params(outputs), actions.params(other)
    raw, mode = actions.sample(p), actions.mode(p)
    return {
        "params": p,
        "raw": raw,
        "mode": mode,
        "action": (actions.action(raw), actions.action(mode)),
        "number": (actions.log_prob(p, raw), actions.entropy(p), actions.kl(p, q)),
        "choice": actions.has_choice(p),
    }


# What holds for every one of them.


# Where the graph does not know a dimension, these take all ways that there are: the nest holds the others.
IN_GRAPH = ("bits", "shared softplus", "fixed", "tanh", "beta", "tanh nest")


@every_case
def test_structures_shapes_and_dtypes_are_those_of_the_specs(case):
    actions, action_spec = make(case), CASES[case][0]
    specs = {
        "params": actions.params_spec,
        "raw": actions.raw_spec,
        "mode": actions.raw_spec,
        "action": (action_spec, action_spec),
        "number": (tf.TensorSpec((), tf.float32),) * 3,
        "choice": tf.TensorSpec((), tf.bool),
    }
    eager = functools.partial(everything, actions)
    unknown = tf.TensorSpec((None, None, actions.num_outputs), tf.float32)
    in_graph = tf.function(eager, input_signature=[unknown] * 2, autograph=False)
    for leading, compute in (((), eager), ((5,), eager), ((2, 5), in_graph if case in IN_GRAPH else eager)):
        outputs = normal(*leading, actions.num_outputs)
        result = compute(outputs, outputs)
        for name, spec in specs.items():
            tf.nest.assert_same_structure(spec, result[name])
            for x, s in zip(tf.nest.flatten(result[name]), tf.nest.flatten(spec), strict=True):
                assert x.dtype == s.dtype and x.shape == (*leading, *s.shape), name
                if isinstance(s, BoundedTensorSpec) and case not in ("gaussian", "nest"):
                    assert np.all(x >= s.minimum) and np.all(x <= s.maximum)
        np.testing.assert_allclose(result["number"][2], np.zeros(leading), atol=1e-6, err_msg="KL(p || p)")
        assert np.all(result["choice"])


@every_case
def test_leading_dimensions_are_rows(case):
    actions = make(case)
    p, q = (actions.params(normal(4, 6, actions.num_outputs, seed=seed)) for seed in (0, 1))
    raw = actions.sample(p)
    row = lambda nest: tf.nest.map_structure(lambda x: x[2, 3], nest)  # noqa: E731
    np.testing.assert_allclose(actions.log_prob(p, raw)[2, 3], actions.log_prob(row(p), row(raw)), rtol=1e-5)
    np.testing.assert_allclose(actions.kl(p, q)[2, 3], actions.kl(row(p), row(q)), rtol=1e-4, atol=1e-6)
    for x, y in zip(
        tf.nest.flatten(actions.action(raw)), tf.nest.flatten(actions.action(row(raw))), strict=True
    ):
        np.testing.assert_allclose(x[2, 3], y, rtol=1e-5)
    if "tanh" not in case:  # an estimate
        np.testing.assert_allclose(actions.entropy(p)[2, 3], actions.entropy(row(p)), rtol=1e-5)


# Not those that differ from another one in the actions of the samples alone.
@pytest.mark.parametrize("case", [case for case in CASES if case not in ("int8", "bits", "scaled")])
def test_entropy_and_kl_are_those_of_the_samples(case):
    actions = make(case)
    outputs, others = (normal(1, actions.num_outputs, seed=seed) for seed in (0, 1))
    p, q, near = (rows_of_params(actions, x) for x in (outputs, others, outputs + 0.2 * others))
    raw = actions.sample(p)
    log_p = actions.log_prob(p, raw)
    # An estimate's mean for tanh; else the same in every row.
    assert_mean_is(-log_p.numpy(), np.mean(actions.entropy(p), dtype=np.float64))
    for other, at_least in ((q, 0.01), (near, 0.0001)):
        kl = float(actions.kl(p, other)[0])
        assert_mean_is((log_p - actions.log_prob(other, raw)).numpy(), kl)
        assert kl > at_least
    # Densities add up to 1, hence E_p[q / p] = 1.
    assert_mean_is(tf.exp(actions.log_prob(near, raw) - log_p).numpy(), 1.0)


@every_case
def test_values_and_gradients_are_finite(case):
    actions = make(case)
    scale = np.repeat(np.float32([1.0, 50.0, 1000.0]), 200)[:, np.newaxis]
    x, y = (scale * normal(600, actions.num_outputs, seed=seed) for seed in (0, 1))
    raw = actions.sample(actions.params(y))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        p, q = actions.params(x), actions.params(y)
        results = actions.log_prob(p, raw), actions.entropy(p), actions.kl(p, q), actions.kl(q, p)
    for result in results:
        assert np.all(np.isfinite(result))
        gradients = tape.gradient(result, [x, *actions.trainable_variables])
        assert all(np.all(np.isfinite(g)) for g in gradients if g is not None)


@pytest.mark.parametrize("case", ["uneven", "bits", "gaussian", "tanh", "nest"])
def test_log_prob_is_the_sum_of_the_parts(case):
    actions = make(case)
    params = actions.params(normal(4, actions.num_outputs))
    raw = actions.sample(params)
    if case == "nest":
        parts = zip(
            (make_action_distribution(NEST["hand"]), make_action_distribution(NEST["keys"])),
            (params["hand"], params["keys"]),
            (raw["hand"], raw["keys"]),
        )
        expected = sum(part.log_prob(p, r) for part, p, r in parts)
    elif case in ("uneven", "bits"):
        expected = tfd.Independent(tfd.Categorical(logits=params), 1).log_prob(raw)
    else:
        one = make_action_distribution(box((1,)), **CASES[case][1])
        column = lambda nest, i: tf.nest.map_structure(lambda x: x[:, i : i + 1], nest)  # noqa: E731
        expected = sum(one.log_prob(column(params, i), column(raw, i)) for i in range(raw.shape[1]))
    np.testing.assert_allclose(actions.log_prob(params, raw), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "case", ["bits", "shared softplus", "fixed", "tanh softplus", "beta", "nest", "tanh nest"]
)
def test_a_copy_computes_the_same_with_variables_of_its_own(case):
    actions = make(case)
    for variable in actions.variables:
        variable.assign_add(tf.fill(variable.shape, 0.25))
    twin = copy.deepcopy(actions)
    assert not {id(v) for v in actions.variables} & {id(v) for v in twin.variables}
    outputs, other = (normal(4, actions.num_outputs, seed=seed) for seed in (0, 1))
    results = []
    for one in (actions, twin):
        tf.random.set_seed(0)
        results.append(everything(one, outputs, other))
    tf.nest.map_structure(np.testing.assert_array_equal, *results)
    if actions.trainable_variables:
        for variable in actions.trainable_variables:
            variable.assign_add(tf.ones(variable.shape))
        tf.random.set_seed(0)
        tf.nest.map_structure(np.testing.assert_array_equal, everything(twin, outputs, other), results[0])


# One integer.


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


# Several integers.


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
    with pytest.raises(ConfigError, match="is for integer actions alone, not for (Gauss|TanhGauss|Beta)"):
        actions.symmetric_kl_to_uniform(actions.params(normal(2, actions.num_outputs)))


# Masks.


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


def test_masks_of_a_nest():
    actions = make_action_distribution(NEST)
    outputs = normal(4, actions.num_outputs)
    one, three = np.tile([0, 1, 0], (4, 1)), np.tile([0, 1, 0, 0, 0, 1, 1, 0, 0], (4, 1))
    free = actions.params(outputs)
    for mask in ({}, None, {"keys": None}, {"keys": (None, None)}, {"hand": None}):
        for x, y in zip(tf.nest.flatten(actions.params(outputs, mask)), tf.nest.flatten(free), strict=True):
            np.testing.assert_array_equal(x, y)
    params = actions.params(outputs, {"keys": [one, (three, None)]})
    raw = actions.sample(params)
    np.testing.assert_array_equal(raw["keys"].first, [1] * 4)
    np.testing.assert_array_equal(raw["keys"].second[0], [[1, 3, 0]] * 4)
    np.testing.assert_array_equal(params["keys"].second[1][0], free["keys"].second[1][0])
    assert actions.has_choice(params).numpy().all()


def test_a_nest_has_a_choice_where_a_part_has_one():
    actions = make_action_distribution({"a": integers(0, 1), "b": integers(0, 2)})
    masks = {"a": np.array([[1, 0], [1, 1], [1, 0]]), "b": np.array([[1, 0, 0], [1, 0, 0], [0, 1, 1]])}
    params = actions.params(normal(3, actions.num_outputs), masks)
    np.testing.assert_array_equal(actions.has_choice(params), [False, True, True])


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


def test_split_mask():
    x, y, mask = object(), object(), object()
    assert split_mask(x, None) == (x, None)
    assert split_mask({"observation": x, "action_mask": mask}, "action_mask") == (x, mask)
    seen = {"x": x, "y": y, "action_mask": mask}
    assert split_mask(seen, "action_mask") == ({"x": x, "y": y}, mask)
    assert set(seen) == {"x", "y", "action_mask"}, "it was changed"
    of_agents = {"a": {"x": x, "action_mask": mask}, "b": {"x": x, "y": y, "action_mask": 7}}
    assert split_mask(of_agents, "action_mask") == ({"a": x, "b": {"x": x, "y": y}}, {"a": mask, "b": 7})


@pytest.mark.parametrize(
    "observation",
    [
        tf.zeros(3),
        (1, 2),
        {},
        {"mask": 0},
        {"action_mask": 0},
        {"a": {"action_mask": 0, "x": 0}, "b": {"x": 0}},
    ],
    ids=repr,
)
def test_split_mask_says_what_is_wrong(observation):
    with pytest.raises(ConfigError, match="action_mask_key is 'action_mask': the observation has"):
        split_mask(observation, "action_mask")


# Boxes.


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
    optimizer = tf.keras.optimizers.legacy.SGD(1.0)
    for step, limit in ((-1e6, high), (1e6, low)):
        optimizer.apply_gradients([(tf.constant([step]), variable)])
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
    optimizer = tf.keras.optimizers.legacy.SGD(1.0)
    optimizer.apply_gradients([(tf.constant([100.0, -100.0]), log_std)])
    np.testing.assert_array_equal(log_std, [-5.0, 2.0])
    with tf.GradientTape() as tape:
        _, used = actions.params(tf.zeros((1, 2)))
        loss = tf.reduce_sum(used * [[-1.0, 1.0]])
    optimizer.apply_gradients([(tape.gradient(loss, log_std), log_std)])
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


# The choice.


@pytest.mark.parametrize(
    "spec, options, cls",
    [
        (integers(0, 1), {}, CategoricalActions),
        (integers(0, 1, (1,)), {}, MultiCategoricalActions),
        (tf.TensorSpec((), tf.float64), {}, GaussianActions),
        (box((2, 2)), {}, GaussianActions),
        (box(), {"continuous": "gaussian"}, GaussianActions),
        (box(), {"continuous": "tanh_gaussian"}, TanhGaussianActions),
        (box(), {"continuous": "beta"}, BetaActions),
        ((integers(0, 1),), {}, NestedActions),
        (NEST, {"continuous": "beta"}, NestedActions),
    ],
)
def test_make_action_distribution_chooses(spec, options, cls):
    assert type(make_action_distribution(spec, **options)) is cls


def test_options_reach_every_part_of_a_nest():
    actions = make_action_distribution((box((2,)), {"a": box((1,))}, integers(0, 1)), std="shared")
    assert [v.shape for v in actions.trainable_variables] == [(2,), (1,)]
    assert actions.num_outputs == 5


def test_gin_chooses():
    gin.parse_config(
        "make_action_distribution.continuous = 'tanh_gaussian'\n"
        "make_action_distribution.std = 'shared'\nmake_action_distribution.init_log_std = -2.0\n"
        "make_action_distribution.std_transform = 'softplus'\n"
        "make_action_distribution.min_log_std = -2.5\nmake_action_distribution.max_log_std = -1.5"
    )
    actions = make_action_distribution(box())
    assert isinstance(actions, TanhGaussianActions)
    (variable,) = actions.trainable_variables
    for value, log_std in ((variable, -2.0), ([-1e6] * 3, -2.5), ([1e6] * 3, -1.5)):
        variable.assign(variable.constraint(tf.convert_to_tensor(value)))
        np.testing.assert_allclose(actions.params(tf.zeros((1, 3)))[1], [[log_std] * 3], rtol=1e-5)


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        (),
        {"a": {}},
        np.zeros(3),
        tf.TensorSpec((), tf.int64),
        tf.TensorSpec((), tf.bool),
        tf.TensorSpec((), tf.string),
        tf.TensorSpec((None,), tf.float32),
        tf.TensorSpec(None, tf.float32),
        box((0,)),
        integers(0, 1, (0,)),
        integers(3, 2),
        integers([0, 3], [1, 2], (2,)),
        integers(tf.int64.min, tf.int64.max),
        {"a": integers(0, 1), "b": tf.TensorSpec((2,), tf.int32)},
    ],
)
def test_other_action_specs_are_refused(spec):
    with pytest.raises(ConfigError, match="(?s)action_spec is .*:"):
        make_action_distribution(spec)


def half_bounded():
    return box((2,), [-1.0, -np.inf], [1.0, 1.0])


def no_bounds():
    # What TF-Agents makes of infinite bounds.
    return box((2,), tf.float32.min, tf.float32.max)


@pytest.mark.parametrize(
    "spec, options, message",
    [
        (box(), {"continuous": "normal"}, "continuous is 'normal': it must be one of 'gaussian', "),
        (box(), {"std": "variable"}, "std is 'variable': it must be one of 'state', 'shared', 'fixed'"),
        (box(), {"std_transform": "relu"}, "std_transform is 'relu': it must be one of 'exp', 'softplus'"),
        (box(), {"continuous": ["beta"]}, r"continuous is \['beta'\]: it must be one of"),
        (box(), {"std": ["state"]}, r"std is \['state'\]: it must be one of"),
        (box(), {"scale_to_bounds": "False"}, "scale_to_bounds is 'False': it must be True or False"),
        (box(), {"min_log_std": -21}, "min_log_std is -21: it must be a number at least -20"),
        (box(), {"max_log_std": 21.0}, "max_log_std is 21.0: it must be a number at most 20.0"),
        (
            box(),
            {"min_log_std": 0.0, "max_log_std": 0.0},
            "max_log_std is 0.0: it must be above min_log_std = 0.0",
        ),
        (box(), {"min_log_std": "low"}, "min_log_std is 'low'"),
        (box(), {"init_log_std": 1.5, "max_log_std": 1.0}, "init_log_std is 1.5: .* to max_log_std = 1.0"),
        (box(), {"std": "fixed", "std_transform": "exp"}, "std_transform is 'exp': it has no effect where"),
        (box(), {"min_log_std": -1.0, "continuous": "beta"}, "min_log_std is -1.0: it has no effect"),
        (integers(0, 1), {"max_log_std": 0.0}, "max_log_std is 0.0: it has no effect"),
        (box(), {"init_log_std": "low"}, "init_log_std is 'low'"),
        (box(), {"init_log_std": 2.5}, "init_log_std is 2.5"),
        (box(), {"init_log_std": -6, "continuous": "tanh_gaussian"}, "init_log_std is -6"),
        (box(), {"std": "state", "continuous": "beta"}, "std is 'state': it has no effect"),
        (box(), {"init_log_std": 0.0, "continuous": "beta"}, "init_log_std is 0.0: it has no effect"),
        (box(), {"scale_to_bounds": True, "continuous": "beta"}, "scale_to_bounds is True: it has no eff"),
        (box(), {"scale_to_bounds": False, "continuous": "tanh_gaussian"}, "scale_to_bounds is False: it"),
        (integers(0, 1), {"continuous": "beta"}, "continuous is 'beta': it has no effect"),
        (integers(0, 1), {"std": "shared"}, "std is 'shared': it has no effect"),
        ((UNEVEN, BITS), {"scale_to_bounds": True}, "scale_to_bounds is True: it has no effect"),
        (UNBOUNDED, {"scale_to_bounds": True}, "scale_to_bounds is True: that needs finite bounds"),
        (UNBOUNDED, {"continuous": "tanh_gaussian"}, "continuous is 'tanh_gaussian': that needs finite"),
        (half_bounded(), {"continuous": "beta"}, "continuous is 'beta': that needs finite bounds"),
        (no_bounds(), {"continuous": "beta"}, "continuous is 'beta': that needs finite bounds"),
        (box((1,), 2.0, 1.0), {"continuous": "beta"}, "a minimum is above its maximum"),
    ],
)
def test_settings_are_checked(spec, options, message):
    with pytest.raises(ConfigError, match=message):
        make_action_distribution(spec, **options)


def test_the_cases_are_of_every_kind():
    classes = vars(distributions).values()
    kinds = {c for c in classes if inspect.isclass(c) and issubclass(c, distributions.ActionDistribution)}
    kinds = {kind for kind in kinds if not inspect.isabstract(kind)}
    assert len(kinds) == 6 and {type(make(case)) for case in CASES} == kinds
