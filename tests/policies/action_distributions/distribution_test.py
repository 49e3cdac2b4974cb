# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What holds for every action distribution."""

import copy
import functools
import inspect

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from alf.core.nest_utils import BoundedTensorSpec
from alf.policies import action_distributions as distributions
from alf.policies.action_distributions import (
    make_action_distribution,
)
from tests.policies.action_distributions.cases import (
    CASES,
    NEST,
    assert_mean_is,
    box,
    everything,
    make,
    normal,
    rows_of_params,
)

every_case = pytest.mark.parametrize("case", CASES)
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
        expected = tfp.distributions.Independent(tfp.distributions.Categorical(logits=params), 1).log_prob(
            raw
        )
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


def test_the_cases_are_of_every_kind():
    classes = vars(distributions).values()
    kinds = {c for c in classes if inspect.isclass(c) and issubclass(c, distributions.ActionDistribution)}
    kinds = {kind for kind in kinds if not inspect.isabstract(kind)}
    assert len(kinds) == 6 and {type(make(case)) for case in CASES} == kinds
