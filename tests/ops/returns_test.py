# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every function against its literal, quadratic formula in float64 NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from alf.ops import returns

FIRST, MID, LAST = 0, 1, 2
HUGE = 1e8


def make_step_type(rng, rows, batch):
    """Random [rows, batch] step types; FIRST follows LAST, and sometimes MID: broken off."""
    step_type = np.full([rows, batch], MID)
    for b in range(batch):
        for t in range(rows):
            if t > 0 and step_type[t - 1, b] == LAST:
                step_type[t, b] = FIRST
            elif rng.random() < 0.3:
                step_type[t, b] = LAST
            elif rng.random() < (0.5 if t == 0 else 0.1):
                step_type[t, b] = FIRST
    # The first columns are the corner cases.
    step_type[:, 0] = MID  # one episode throughout
    step_type[:, 1] = [LAST, FIRST] + [MID] * (rows - 2)
    step_type[:, 2] = [FIRST] + [MID] * (rows - 2) + [LAST]
    step_type[:, 3] = [MID] * (rows - 2) + [LAST, FIRST]
    step_type[:, 4] = [(FIRST, LAST)[t % 2] for t in range(rows)]
    step_type[:, 5] = [(LAST, FIRST)[t % 2] for t in range(rows)]
    return step_type


def make_unroll(seed=0, rows=7, batch=40, gamma=0.9):
    """A random unroll, as keyword arguments that every function takes."""
    rng = np.random.default_rng(seed)
    step_type = make_step_type(rng, rows + 1, batch)
    is_last = step_type == LAST
    terminated = is_last & (rng.random(is_last.shape) < 0.5)
    assert terminated[1:-1].any() and (is_last & ~terminated)[1:-1].any()
    return {
        "values": rng.normal(size=[rows + 1, batch]).astype(np.float32),
        "r_t": rng.normal(size=[rows, batch]).astype(np.float32),
        "discount_t": (gamma * ~terminated[1:]).astype(np.float32),
        "is_first": step_type == FIRST,
    }


def make_log_rho(seed=0, rows=7, batch=40):
    rng = np.random.default_rng(1000 + seed)
    return rng.normal(size=[rows, batch]).astype(np.float32)


def each_row(fn, unroll):
    """``fn(t, e, r, g, v)`` of every transition, 0 elsewhere.

    ``e`` is the time step that ends row t's episode, or the unroll; r, g and v
    are the rewards, discounts and values of one env, in float64.
    """
    no_transition = unroll["is_first"][1:]
    out = np.zeros(no_transition.shape)
    for b in range(out.shape[1]):
        r, g, v = (unroll[k][:, b].astype(np.float64) for k in ("r_t", "discount_t", "values"))
        for t in range(out.shape[0]):
            if not no_transition[t, b]:
                e = next((k for k in range(t + 1, out.shape[0]) if no_transition[k, b]), out.shape[0])
                out[t, b] = fn(t, e, r, g, v, b)
    return out


def literal_row(t, end, r, g, v):
    """Rewards of rows t .. end - 1, then the value of time step ``end``."""
    total = sum(np.prod(g[t:k]) * r[k] for k in range(t, end))
    return total + np.prod(g[t:end]) * v[end]


def literal_return(unroll):
    return each_row(lambda t, e, r, g, v, b: literal_row(t, e, r, g, v), unroll)


def literal_n_step(unroll, n):
    """The rewards, discounts and ends of at most n steps from each row, and the return."""
    last = lambda t, e: min(t + n, e)  # noqa: E731
    return (
        each_row(lambda t, e, r, g, v, b: literal_row(t, last(t, e), r, g, np.zeros_like(v)), unroll),
        each_row(lambda t, e, r, g, v, b: np.prod(g[t : last(t, e)]), unroll),
        each_row(lambda t, e, r, g, v, b: last(t, e), unroll),
        each_row(lambda t, e, r, g, v, b: literal_row(t, last(t, e), r, g, v), unroll),
    )


def literal_lambda_return(unroll, lambda_):
    """The mixture of all n-step returns, the longest taking what is left."""

    def row(t, e, r, g, v, b):
        mixed = sum(
            (1 - lambda_) * lambda_ ** (k - t - 1) * literal_row(t, k, r, g, v) for k in range(t + 1, e)
        )
        return mixed + lambda_ ** (e - t - 1) * literal_row(t, e, r, g, v)

    return each_row(row, unroll)


def literal_gae(unroll, lambda_):
    def row(t, e, r, g, v, b):
        return sum(
            np.prod(g[t:k]) * lambda_ ** (k - t) * (r[k] + g[k] * v[k + 1] - v[k]) for k in range(t, e)
        )

    return each_row(row, unroll)


def literal_vtrace(log_rho, unroll, lambda_, rho_bar, pg_rho_bar, c_bar):
    """IMPALA's equation (1), the sum of products, and section 4.2."""
    rho = np.exp(log_rho.astype(np.float64))
    c = lambda_ * np.minimum(c_bar, rho)

    def target(t, e, r, g, v, b):
        return v[t] + sum(
            np.prod(g[t:k]) * np.prod(c[t:k, b]) * min(rho_bar, rho[k, b]) * (r[k] + g[k] * v[k + 1] - v[k])
            for k in range(t, e)
        )

    def advantage(t, e, r, g, v, b):
        vs = v[e] if t + 1 == e else (lambda_ * target(t + 1, e, r, g, v, b) + (1 - lambda_) * v[t + 1])
        return min(pg_rho_bar, rho[t, b]) * (r[t] + g[t] * vs - v[t])

    return each_row(target, unroll), each_row(advantage, unroll)


def assert_close(actual, expected, tol=1e-5):
    assert actual.dtype == tf.float32
    np.testing.assert_allclose(actual.numpy(), expected, rtol=tol, atol=tol)


def n_step_return(values, r_t, discount_t, is_first, n):
    """The return of at most n steps, from the transitions; unlike these, the values may pass a gradient."""
    steps = returns.n_step_transitions(r_t, discount_t, is_first, n)
    bootstrap = returns.take_time_steps(tf.stop_gradient(values), steps.end)
    return steps.reward + steps.discount * bootstrap


def every_function(log_rho_tm1, **unroll):
    """All outputs of all functions, by name."""
    gae = returns.generalized_advantage(**unroll, lambda_=0.5)
    vtrace = returns.vtrace(log_rho_tm1, **unroll, lambda_=0.5)
    return {
        "discounted_return": returns.discounted_return(**unroll),
        "n_step_return": n_step_return(**unroll, n=3),
        "lambda_return": returns.lambda_return(**unroll, lambda_=0.5),
        "gae.advantages": gae.advantages,
        "gae.value_targets": gae.value_targets,
        "vtrace.value_targets": vtrace.value_targets,
        "vtrace.advantages": vtrace.advantages,
        "vtrace.pg_advantages": vtrace.pg_advantages,
    }


def test_transitions():
    step_type = np.array(
        [
            [MID, LAST, FIRST, MID, LAST, FIRST],
            [LAST, FIRST, LAST, FIRST, MID, LAST],
            [MID, MID, FIRST, FIRST, MID, MID],  # broken off twice
        ]
    ).T
    result = returns.transitions(tf.constant(step_type == FIRST))
    np.testing.assert_array_equal(result.valid.numpy().T, [[1, 0, 1, 1, 0], [0, 1, 0, 1, 1], [1, 0, 0, 1, 1]])
    # Row 0 of the first env leads to a LAST step; the last row has no next one.
    np.testing.assert_array_equal(result.trace.numpy().T, [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 0]])


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_discounted_return(seed, gamma):
    unroll = make_unroll(seed, gamma=gamma)
    assert_close(returns.discounted_return(**unroll), literal_return(unroll))


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 20])
@pytest.mark.parametrize("seed", [0, 1])
def test_n_step_return(seed, n, gamma):
    unroll = make_unroll(seed, gamma=gamma)
    reward, discount, end, expected = literal_n_step(unroll, n)
    assert_close(n_step_return(**unroll, n=n), expected)
    del unroll["values"]
    steps = returns.n_step_transitions(**unroll, n=n)
    assert_close(steps.reward, reward)
    assert_close(steps.discount, discount)
    assert steps.end.dtype == tf.int32
    valid = ~unroll["is_first"][1:]
    np.testing.assert_array_equal(steps.end.numpy()[valid], end[valid])


def test_n_step_returns_between_one_step_and_all():
    unroll = make_unroll()
    one_step = returns.lambda_return(**unroll, lambda_=0.0)
    assert_close(n_step_return(**unroll, n=1), one_step)
    assert_close(n_step_return(**unroll, n=7), returns.discounted_return(**unroll))
    different = n_step_return(**unroll, n=2)
    assert np.abs(different - one_step).max() > 0.1


@pytest.mark.parametrize("n", [0, -1, 1.0, True, None])
def test_number_of_steps_is_checked(n):
    with pytest.raises(ValueError, match=f"^n must be an integer of at least 1, not {n}$"):
        n_step_return(**make_unroll(), n=n)


def test_take_time_steps():
    rng = np.random.default_rng(0)
    index = rng.integers(0, 8, [5, 3]).astype(np.int32)
    for shape, dtype in (((), np.float32), ((2, 4), np.uint8)):
        x = rng.integers(0, 100, [8, 3, *shape]).astype(dtype)
        taken = returns.take_time_steps(tf.constant(x), tf.constant(index))
        assert taken.dtype == dtype and taken.shape == (5, 3, *shape)
        for t, b in np.ndindex(5, 3):
            np.testing.assert_array_equal(taken[t, b], x[index[t, b], b])


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize("lambda_", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_lambda_return(seed, lambda_, gamma):
    unroll = make_unroll(seed, gamma=gamma)
    assert_close(returns.lambda_return(**unroll, lambda_=lambda_), literal_lambda_return(unroll, lambda_))


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize("lambda_", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_generalized_advantage(seed, lambda_, gamma):
    unroll = make_unroll(seed, gamma=gamma)
    result = returns.generalized_advantage(**unroll, lambda_=lambda_)
    assert_close(result.advantages, literal_gae(unroll, lambda_))
    # The targets are the lambda returns, a different formula.
    assert_close(result.value_targets, literal_lambda_return(unroll, lambda_))


@pytest.mark.parametrize("gamma", [0.0, 0.9])
@pytest.mark.parametrize("lambda_", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "thresholds", [(1.0, 1.0, 1.0), (2.0, 0.7, 1.3), (HUGE, HUGE, 1.0), (HUGE, HUGE, HUGE)]
)
def test_vtrace(thresholds, lambda_, gamma):
    unroll, log_rho = make_unroll(gamma=gamma), make_log_rho()
    result = returns.vtrace(
        log_rho,
        **unroll,
        lambda_=lambda_,
        clip_rho_threshold=thresholds[0],
        clip_pg_rho_threshold=thresholds[1],
        clip_c_threshold=thresholds[2],
    )
    targets, advantages = literal_vtrace(log_rho, unroll, lambda_, *thresholds)
    assert_close(result.value_targets, targets, tol=1e-4)
    assert_close(result.pg_advantages, advantages, tol=1e-4)
    weight = np.minimum(thresholds[1], np.exp(log_rho))
    assert_close(result.advantages * weight, advantages, tol=1e-4)


def test_default_parameters():
    unroll, log_rho = make_unroll(), make_log_rho()
    targets, advantages = literal_vtrace(log_rho, unroll, 1.0, 1.0, 1.0, 1.0)
    result = returns.vtrace(log_rho, **unroll)
    assert_close(result.value_targets, targets)
    assert_close(result.pg_advantages, advantages)
    assert_close(returns.generalized_advantage(**unroll).advantages, literal_gae(unroll, 1.0))
    assert_close(returns.lambda_return(**unroll), literal_return(unroll))


def test_vtrace_on_policy_telescopes():
    """With rho = 1 and lambda = 1, vs is G and the advantage is G - V."""
    unroll = make_unroll()
    log_rho = np.zeros_like(unroll["r_t"])
    g = literal_return(unroll)
    valid = ~unroll["is_first"][1:]
    result = returns.vtrace(log_rho, **unroll)
    assert_close(result.value_targets, g)
    assert_close(result.pg_advantages, g - valid * unroll["values"][:-1])


def test_vtrace_ratio_is_target_over_behaviour():
    """Sampled from behaviour, the estimates have the target's expectation.

    A bandit of two arms, one env per arm, the expectation taken exactly. With
    the ratio inverted the first would be -10.7 instead of 0.7.
    """
    target, behaviour = np.array([0.9, 0.1]), np.array([0.3, 0.7])
    reward, value = np.array([1.0, -2.0]), 0.25
    result = returns.vtrace(
        (np.log(target) - np.log(behaviour))[None].astype(np.float32),
        values=np.full([2, 2], value, np.float32),
        r_t=reward[None].astype(np.float32),
        discount_t=np.zeros([1, 2], np.float32),
        is_first=np.zeros([2, 2], bool),
        clip_rho_threshold=HUGE,
        clip_pg_rho_threshold=HUGE,
    )
    expected = np.dot(target, reward)
    np.testing.assert_allclose(np.dot(behaviour, result.value_targets[0]), expected, rtol=1e-5)
    np.testing.assert_allclose(np.dot(behaviour, result.pg_advantages[0]), expected - value, rtol=1e-5)


def test_vtrace_less_likely_action_has_less_weight():
    unroll = {
        "values": np.zeros([2, 1], np.float32),
        "r_t": np.ones([1, 1], np.float32),
        "discount_t": np.ones([1, 1], np.float32),
        "is_first": np.zeros([2, 1], bool),
    }
    log_rho = np.full([1, 1], np.log(0.2) - np.log(0.8), np.float32)
    result = returns.vtrace(log_rho, **unroll)
    assert_close(result.value_targets, [[0.25]])
    assert_close(result.pg_advantages, [[0.25]])


def test_next_episode_does_not_leak():
    """A truncated episode bootstraps from its own final observation."""
    unroll = {
        "values": np.array([[1.0, 2.0, 1e6, 1e6]], np.float32).T,
        "r_t": np.array([[3.0, 1e6, 1e6]], np.float32).T,
        "discount_t": np.full([3, 1], 0.5, np.float32),
        "is_first": np.array([[False, False, True, False]]).T,
    }
    out = every_function(np.zeros([3, 1], np.float32), **unroll)
    # 3 + 0.5 * 2 = 4, and 4 - 1 = 3.
    expected = {name: 3.0 if "advantages" in name else 4.0 for name in out}
    assert {name: float(x[0, 0]) for name, x in out.items()} == expected
    assert {name: float(x[1, 0]) for name, x in out.items()} == dict.fromkeys(out, 0.0)


def test_previous_episodes_are_independent_of_the_next():
    unroll, log_rho = make_unroll(), make_log_rho()
    before = every_function(log_rho, **unroll)
    # From the first row that is no transition on, where there is one, change all but its value.
    later = np.cumsum(unroll["is_first"][1:], axis=0) > 0
    later = np.concatenate([later, later[-1:]])
    changed = {
        "values": np.where(
            np.concatenate([later[:1] & False, later[:-1]]), np.float32(1e6), unroll["values"]
        ),
        "r_t": np.where(later[:-1], np.float32(1e6), unroll["r_t"]),
        "discount_t": np.where(later[:-1], np.float32(7.0), unroll["discount_t"]),
        "is_first": unroll["is_first"],
    }
    after = every_function(np.where(later[:-1], np.float32(2.0), log_rho), **changed)
    for name in before:
        np.testing.assert_array_equal(
            before[name].numpy()[~later[:-1]], after[name].numpy()[~later[:-1]], name
        )


@pytest.mark.parametrize("garbage", [np.nan, np.inf])
def test_inputs_of_rows_that_are_no_transitions_are_ignored(garbage):
    unroll, log_rho = make_unroll(), make_log_rho()
    before = every_function(log_rho, **unroll)
    no_transition = unroll["is_first"][1:]
    for name in ("r_t", "discount_t"):
        unroll[name] = np.where(no_transition, np.float32(garbage), unroll[name])
    after = every_function(np.where(no_transition, np.float32(garbage), log_rho), **unroll)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name], name)
        assert not before[name].numpy()[no_transition].any(), name


def test_termination_does_not_bootstrap_and_truncation_does():
    for discount, expected in ((0.0, 1.0), (0.9, 1.0 + 0.9 * 5.0)):
        out = every_function(
            np.zeros([1, 1], np.float32),
            values=np.array([[0.0], [5.0]], np.float32),
            r_t=np.ones([1, 1], np.float32),
            discount_t=np.full([1, 1], discount, np.float32),
            is_first=np.zeros([2, 1], bool),
        )
        for name, x in out.items():
            np.testing.assert_allclose(x, [[expected]], rtol=1e-6, err_msg=name)


def test_one_row():
    unroll, log_rho = make_unroll(), make_log_rho()
    unroll = {k: v[: 2 if k in ("values", "is_first") else 1] for k, v in unroll.items()}
    result = returns.vtrace(log_rho[:1], **unroll)
    targets, advantages = literal_vtrace(log_rho[:1], unroll, 1.0, 1.0, 1.0, 1.0)
    assert_close(result.value_targets, targets)
    assert_close(result.pg_advantages, advantages)


def test_many_rows():
    """A loop over chunks of rows, not only in one chunk, and a graph that does not grow."""
    unroll = make_unroll(rows=140, batch=8)
    result = returns.generalized_advantage(**unroll, lambda_=0.9)
    assert_close(result.advantages, literal_gae(unroll, 0.9))

    def count_operations(rows):
        function = tf.function(returns.generalized_advantage, autograph=False)
        unroll = make_unroll(rows=rows, batch=8)
        graph = function.get_concrete_function(**unroll).graph.as_graph_def()
        return len(graph.node) + sum(len(f.node_def) for f in graph.library.function)

    assert count_operations(512) == count_operations(128)


def test_in_tf_function_with_unknown_batch():
    unroll, log_rho = make_unroll(), make_log_rho()
    spec = {k: tf.TensorSpec([v.shape[0], None], v.dtype) for k, v in unroll.items()}
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([7, None], tf.float32), spec], autograph=False)
    def in_graph(log_rho, unroll):
        traces.append(1)
        return every_function(log_rho, **unroll)

    for batch in (40, 6):
        part = {k: v[:, :batch] for k, v in unroll.items()}
        expected = every_function(log_rho[:, :batch], **part)
        for name, x in in_graph(log_rho[:, :batch], part).items():
            np.testing.assert_allclose(x, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert len(traces) == 1


def test_no_gradient_flows_out():
    unroll = {k: tf.constant(v) for k, v in make_unroll().items()}
    log_rho = tf.constant(make_log_rho())
    sources = [log_rho, unroll["values"], unroll["r_t"], unroll["discount_t"]]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        out = every_function(log_rho, **unroll)
    for name, x in out.items():
        assert tape.gradient(x, sources) == [None] * 4, name


@pytest.mark.parametrize("name", ["values", "r_t", "discount_t", "is_first", "log_rho_tm1"])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[0],
        lambda x: x[..., None],
        lambda x: x[:-1],
        lambda x: x[:, :1],
        lambda x: x.astype(np.float64),
    ],
    ids=["rank 1", "rank 3", "time", "batch", "dtype"],
)
def test_misshapen_argument_is_named(name, change):
    args = dict(make_unroll(), log_rho_tm1=make_log_rho())
    args[name] = change(args[name])
    # Where two arguments disagree, the one checked first is taken as right.
    blamed = "discount_t" if name == "r_t" and args[name].ndim == 2 else name
    if name == "r_t" and args[name].dtype == np.float64:
        blamed = "r_t"
    message = f"^{blamed} must be" + (" of rank 2" if args[name].ndim != 2 else "")
    with pytest.raises(ValueError, match=message):
        returns.vtrace(**args)
    if name == "log_rho_tm1":
        return
    del args["log_rho_tm1"]
    for fn in (returns.discounted_return, returns.lambda_return, returns.generalized_advantage):
        with pytest.raises(ValueError, match=message):
            fn(**args)
    if name == "values":
        return
    del args["values"]
    with pytest.raises(ValueError, match=message):
        returns.n_step_transitions(**args, n=3)


def test_unknown_number_of_rows_is_refused():
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.bool)], autograph=False)
    def in_graph(is_first):
        return returns.transitions(is_first)

    with pytest.raises(ValueError, match="is_first must be .* static number of time steps"):
        in_graph.get_concrete_function()
