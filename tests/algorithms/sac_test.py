# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SacAlgorithm: its losses against literal formulas, where gradients go, its target critics, settings."""

import functools
import re

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import SacAlgorithm
from alf.algorithms.sac import pass_gradient_to_input_only
from alf.core.nest_utils import BoundedTensorSpec, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, PolicyState, TimeStep
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.networks import GRU, LSTM, CriticsNetwork, PolicyNetwork
from alf.policies import Agent, SacPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.algorithms.learning import check_memory, remembering_env, replay_training, train
from tests.algorithms.replayed import make_replayed, shorten
from tests.builders import build_learner

OBSERVATION = tf.TensorSpec((4,), tf.float32)
BOX = BoundedTensorSpec((2,), tf.float32, [-2.0, 0.0], [2.0, 10.0])
DISCRETE = BoundedTensorSpec((), tf.int64, 1, 3)
both = pytest.mark.parametrize("action_spec", [BOX, DISCRETE], ids=["box", "discrete"])
ACTOR, CRITICS = (
    functools.partial(x, fc_layer_params=(16,), seed=0) for x in (PolicyNetwork, CriticsNetwork)
)
L, B = 5, 6
STEP_TYPE = np.full((L + 1, B), MID, np.int32)
STEP_TYPE[1, 0], STEP_TYPE[2, 0] = LAST, FIRST  # terminated
STEP_TYPE[3, 1], STEP_TYPE[4, 1] = LAST, FIRST  # truncated
STEP_TYPE[2, 2] = FIRST  # broken off
STEP_TYPE[5, 3] = LAST
STEP_TYPE[0, 4], STEP_TYPE[1, 4] = LAST, FIRST
DISCOUNT = np.ones((L + 1, B), np.float32)
DISCOUNT[1, 0] = DISCOUNT[5, 3] = 0.0


def sgd(learning_rate=0.1):
    return optimizers.SGD(learning_rate)


def make_algorithm(action_spec=BOX, rnn=None, actor_rnn=None, **kwargs):
    """With recurrent critics if `rnn` is a class, and a recurrent actor if one of the two is."""
    with_rnn = lambda cls: cls and functools.partial(cls, units=7)  # noqa: E731
    critic = functools.partial(CRITICS, rnn=with_rnn(rnn))
    policy = SacPolicy(
        OBSERVATION,
        action_spec,
        functools.partial(ACTOR, rnn=with_rnn(actor_rnn or rnn)),
        recurrent_critic=critic if rnn else None,
    )
    return SacAlgorithm(policy, critic=None if rnn else critic, **kwargs)


def make_learner(algorithm, optimizer=None, **kwargs):
    return build_learner(
        algorithm, optimizer or {name: sgd() for name in algorithm.parameter_groups()}, **kwargs
    )


def make_experience(algorithm, length=L, seed=0):
    rng = np.random.default_rng(seed)
    shape = (L + 1, B)
    weight = np.zeros(shape, np.float32)
    weight[:-1] = STEP_TYPE[1:] != FIRST
    weight *= rng.uniform(0.5, 2.0, B).astype(np.float32)
    if algorithm.policy.action_spec.dtype.is_integer:
        action = rng.integers(1, 4, shape)
    else:
        action = rng.uniform(BOX.minimum, BOX.maximum, (*shape, 2)).astype(np.float32)
    rows = make_replayed(algorithm, rng, STEP_TYPE, DISCOUNT, weight, action)
    return shorten(rows, length)


def change(algorithm, scale=0.5):
    """Makes the critics differ from their targets, and the actor's outputs from zeros."""
    rng = np.random.default_rng(7)
    for v in (*algorithm._critic.trainable_variables, *algorithm.policy.network.trainable_variables):
        v.assign_add(scale * rng.normal(size=v.shape).astype(np.float32))


def loss_of(algorithm, experience):
    info = algorithm.train_step(experience, algorithm.preprocess(experience))
    return info, algorithm.calc_loss(experience, info)


def literal_losses(experience, info, alpha, target_entropy, n, discount=0.9):
    """Losses and priorities, transition by transition; the policy's draws are taken from `info`."""
    q, now, then = tf.nest.map_structure(lambda x: x.numpy().astype(np.float64), info[1:])
    parts, errors = {"critic_loss": [], "actor_loss": [], "alpha_loss": []}, [[] for _ in range(B)]
    reward, env_discount, weight = (
        x.numpy() for x in (experience.reward, experience.discount, experience.weight)
    )
    for t in range(reward.shape[0] - n):
        for b in range(B):
            if STEP_TYPE[t + 1, b] == FIRST:
                continue
            target, factor = 0.0, 1.0
            for k in range(t, t + n):
                if STEP_TYPE[k + 1, b] == FIRST:
                    break
                target += factor * reward[k + 1, b]
                factor *= discount * env_discount[k + 1, b]
            numbers = range(now.prob.shape[-1])
            target += factor * sum(
                then.prob[t, b, i] * (then.q[t, b, i] - alpha * then.log_prob[t, b, i]) for i in numbers
            )
            entropy = -sum(now.prob[t, b, i] * now.log_prob[t, b, i] for i in numbers)
            policy = sum(
                now.prob[t, b, i] * (alpha * now.log_prob[t, b, i] - now.q[t, b, i]) for i in numbers
            )
            w = weight[t, b]
            parts["critic_loss"].append(w * sum((q[c, t, b] - target) ** 2 / 2 for c in (0, 1)))
            parts["actor_loss"].append(w * policy)
            parts["alpha_loss"].append(w * np.log(alpha) * (entropy - target_entropy))
            errors[b].append(np.mean([abs(q[c, t, b] - target) for c in (0, 1)]))
    parts = {name: np.mean(x) for name, x in parts.items()}
    return parts, [np.mean(e) if e else 0.0 for e in errors]


@pytest.mark.parametrize(
    "action_spec, n, target_entropy",  # every two of them meet in all their values
    [(BOX, 1, None), (BOX, 3, 0.3), (DISCRETE, 1, 0.3), (DISCRETE, 3, None)],
)
def test_losses_are_the_literal_formulas(action_spec, n, target_entropy):
    algorithm = make_algorithm(
        action_spec, n_step=n, discount=0.9, initial_alpha=0.4, target_entropy=target_entropy
    )
    change(algorithm)
    experience = make_experience(algorithm)
    info, loss = loss_of(algorithm, experience)
    if target_entropy is None:
        target_entropy = -2.0 if action_spec is BOX else 0.4 * np.log(3)
    parts, priority = literal_losses(experience, info, 0.4, target_entropy, n)
    assert loss.extra.keys() == {*parts, "alpha", "entropy", "q"}
    for name, expected in parts.items():
        np.testing.assert_allclose(loss.extra[name], expected, rtol=1e-4, err_msg=name)
    np.testing.assert_allclose(loss.loss, sum(parts.values()), rtol=1e-4)
    np.testing.assert_allclose(loss.priority, priority, rtol=1e-4)
    np.testing.assert_allclose(loss.extra["alpha"], 0.4, rtol=1e-6)


def test_info_of_a_discrete_policy():
    algorithm = make_algorithm(DISCRETE)
    change(algorithm)
    experience = make_experience(algorithm)
    (_, taken_q, actions, next_actions), _ = loss_of(algorithm, experience)
    logits = algorithm.policy.network(experience.observation)[0].numpy()
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for choices, rows, critic in (
        (actions, slice(0, -1), algorithm._critic),
        (next_actions, slice(1, None), algorithm._target_critic),
    ):
        np.testing.assert_allclose(choices.log_prob, log_p[rows], rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(choices.prob, np.exp(log_p[rows]), rtol=1e-3, atol=1e-6)
        q = critic.values(experience.observation)[:, rows]
        np.testing.assert_allclose(choices.q, np.minimum(*q), rtol=1e-4, atol=1e-5)
    q = algorithm._critic.values(experience.observation).numpy()
    for c, t, b in np.ndindex(2, L, B):
        np.testing.assert_allclose(taken_q[c, t, b], q[c, t, b, experience.action[t, b] - 1], rtol=1e-4)


def test_info_of_a_box():
    """Each draw has the density of an action in [-1, 1], and is valued by the smaller critic."""
    algorithm = make_algorithm()
    change(algorithm, 0.2)
    drawn = []
    draw = algorithm.policy.actions.draw
    algorithm.policy.actions.draw = lambda *args: drawn.append(draw(*args)) or drawn[-1]
    experience = make_experience(algorithm)
    (_, taken_q, actions, next_actions), _ = loss_of(algorithm, experience)
    outputs = algorithm.policy.network(experience.observation)[0].numpy().astype(np.float64)
    for choices, rows, critic, raw in (
        (actions, slice(0, -1), algorithm._critic, drawn[0]),
        (next_actions, slice(1, None), algorithm._target_critic, drawn[1]),
    ):
        loc, log_std = np.split(outputs[rows], 2, axis=-1)
        x = raw.numpy().astype(np.float64)
        normal = -0.5 * ((x - loc) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2 * np.pi)
        density = (normal - np.log(1 - np.tanh(x) ** 2)).sum(-1)
        np.testing.assert_allclose(choices.log_prob[..., 0], density, rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(choices.prob, 1.0)
        q = critic.values(experience.observation[rows], tf.tanh(raw))
        np.testing.assert_allclose(choices.q, np.minimum(*q), rtol=1e-4, atol=1e-5)
    action = experience.action[:-1]
    unit = (action - [0.0, 5.0]) / [2.0, 5.0]
    expected = algorithm._critic.values(experience.observation[:-1], tf.cast(unit, tf.float32))[..., 0]
    np.testing.assert_allclose(taken_q, expected, rtol=1e-4, atol=1e-5)


def gradients(algorithm, experience, *parts):
    """Of parts of the loss, by group of variables."""
    with tf.GradientTape(persistent=True) as tape:
        extra = loss_of(algorithm, experience)[1].extra
    return [tape.gradient(extra[part], algorithm.parameter_groups()) for part in parts]


@both
@pytest.mark.parametrize("rnn", [None, LSTM])
def test_each_loss_trains_its_own_variables(action_spec, rnn):
    algorithm = make_algorithm(action_spec, rnn)
    change(algorithm)
    names = ("actor", "critic", "alpha")
    found = gradients(algorithm, make_experience(algorithm), *(f"{name}_loss" for name in names))
    for name, gradient in zip(names, found, strict=True):
        for group, parts in gradient.items():
            if group == name:
                assert all(np.abs(g).max() > 0 for g in parts), group
            else:
                assert all(g is None or not np.any(g) for g in parts), f"{name}_loss reaches {group}"


@pytest.mark.parametrize("rnn", [None, GRU])
def test_target_critics_never_run_as_in_training(rnn, monkeypatch):
    algorithm = make_algorithm(rnn=rnn)
    features, calls = algorithm._target_critic.features, []
    noting = lambda *args: (calls.append(args[3]), features(*args))[1]  # noqa: E731
    monkeypatch.setattr(algorithm._target_critic, "features", noting)
    experience = make_experience(algorithm)
    algorithm.train_step(experience, algorithm.preprocess(experience))
    assert calls == [False]


@both
def test_groups_hold_every_trainable_variable_once_and_no_target(action_spec):
    algorithm = make_algorithm(action_spec)
    grouped = [v for variables in algorithm.parameter_groups().values() for v in variables]
    assert len(grouped) == len({id(v) for v in grouped})
    assert {id(v) for v in grouped} == {id(v) for v in algorithm.trainable_variables}
    assert not {id(v) for v in grouped} & {id(v) for v in algorithm._target_critic.variables}
    assert list(algorithm.parameter_groups()) == ["actor", "critic", "alpha"]


def test_a_shared_std_is_trained_with_the_actor():
    gin.parse_config("make_action_distribution.std = 'shared'\nmake_action_distribution.init_log_std = -3.0")
    algorithm = make_algorithm()
    (log_std,) = algorithm.policy.actions.trainable_variables
    np.testing.assert_array_equal(log_std, [-3.0, -3.0])
    groups = algorithm.parameter_groups()
    assert [name for name, group in groups.items() if any(v is log_std for v in group)] == ["actor"]
    (gradient,) = gradients(algorithm, make_experience(algorithm), "actor_loss")
    gradient = gradient["actor"]
    assert all(np.abs(g).max() > 0 for g in gradient)
    gin.parse_config("make_action_distribution.scale_to_bounds = True")
    with pytest.raises(ConfigError, match="scale_to_bounds is True: it has no effect"):
        make_algorithm()


def test_actor_follows_the_gradient_of_the_smaller_critic():
    """Against a tape through everything, weights of the critics left out."""
    algorithm = make_algorithm(initial_alpha=0.4)
    change(algorithm, 0.2)
    experience = make_experience(algorithm)
    noise = tf.random.normal((L, B, 2))
    algorithm.policy.actions.draw = lambda params, _: params[0] + tf.exp(params[1]) * noise
    actual = gradients(algorithm, experience, "actor_loss")[0]["actor"]
    variables = algorithm.policy.network.trainable_variables
    with tf.GradientTape() as tape:
        outputs, _ = algorithm.policy.network(experience.observation[:-1])
        params = algorithm.policy.actions.params(outputs)
        raw = algorithm.policy.actions.draw(params, None)
        q = tf.reduce_min(algorithm._critic.values(experience.observation[:-1], tf.tanh(raw)), axis=0)
        loss = 0.4 * algorithm.policy.actions.log_prob(params, raw) - q[..., 0]
        weight = experience.weight[:-1]
        loss = tf.reduce_sum(weight * loss) / np.count_nonzero(weight)
    for a, b in zip(actual, tape.gradient(loss, variables), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


def test_noise_is_new_each_time_and_of_unit_variance():
    algorithm = make_algorithm()
    experience = make_experience(algorithm)
    draws = [x for _ in range(50) for x in algorithm.preprocess(experience)]
    assert all(x.shape == (L + 1, B, 2) for x in draws)
    assert len({float(x[0, 0, 0]) for x in draws}) == 100
    np.testing.assert_allclose([np.mean(draws), np.std(draws)], [0.0, 1.0], atol=0.05)


def test_pass_gradient_to_input_only():
    w, x = tf.Variable([2.0, 3.0]), tf.constant([[1.0, 4.0], [-1.0, 0.5]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = pass_gradient_to_input_only(lambda x: tf.reduce_sum(w * x**2, axis=-1, keepdims=True), x)
        loss = tf.reduce_sum([[1.0], [10.0]] * y)
    np.testing.assert_allclose(y, [[2 + 48.0], [2 + 0.75]])
    to_x, to_w = tape.gradient(loss, (x, w))
    np.testing.assert_allclose(to_x, [[4.0, 24.0], [-40.0, 30.0]])
    assert to_w is None


@pytest.mark.parametrize("action_spec, rnn", [(BOX, LSTM), (DISCRETE, GRU)])
def test_rows_of_the_burn_in_have_no_gradient_but_their_state_counts(action_spec, rnn):
    algorithm = make_algorithm(action_spec, rnn, n_step=2, burn_in=2)
    change(algorithm)
    experience = make_experience(algorithm)
    with tf.GradientTape() as tape:
        tape.watch((experience.observation, experience.state))
        loss = loss_of(algorithm, experience)[1].loss
    to_observation, to_state = tape.gradient(loss, (experience.observation, experience.state))
    assert all(g is None or not np.any(g) for g in tf.nest.flatten(to_state))
    used = np.abs(to_observation).max(axis=(1, 2)) > 0
    np.testing.assert_array_equal(used, [False, False, True, True, False, False])
    first = tf.one_hot(0, L + 1)[:, tf.newaxis, tf.newaxis]
    changed = experience._replace(observation=experience.observation + first)
    before, after = (loss_of(algorithm, rows)[0][1] for rows in (experience, changed))
    assert np.abs(after - before).max() > 1e-5


@both
def test_recurrent_values_follow_the_stored_state(action_spec):
    """Against steps one after another, as acting makes them."""
    algorithm = make_algorithm(action_spec, GRU)
    change(algorithm)
    experience = make_experience(algorithm)
    policy_state, critic_state = experience.state.train
    is_first = tf.constant(STEP_TYPE == FIRST)
    outputs, _ = algorithm.policy.network(experience.observation, policy_state, is_first)
    for t in range(L + 1):
        reset = (STEP_TYPE[t] == FIRST)[:, np.newaxis]
        policy_state, critic_state = (tf.where(reset, 0.0, s) for s in (policy_state, critic_state))
        rows = TimeStep(*(x[t] for x in experience[:6]))
        acted, policy_state = algorithm.policy.network.policy(rows.observation, policy_state)
        np.testing.assert_allclose(acted, outputs[t], rtol=1e-4, atol=1e-5)
        critic_state = algorithm._critic.advance(rows.observation, critic_state)
    _, final = algorithm._critic.features(experience.observation, experience.state.train[1], is_first)
    np.testing.assert_allclose(critic_state, final, rtol=1e-4, atol=1e-5)


def test_actor_alone_may_be_recurrent():
    algorithm = make_algorithm(actor_rnn=GRU, burn_in=1)
    experience = make_experience(algorithm)
    assert np.isfinite(loss_of(algorithm, experience)[1].loss)
    state = algorithm.policy.rollout_step(time_step(5), zeros_from_spec(algorithm.policy.state_spec, 5)).state
    tf.nest.assert_same_structure(state, algorithm.policy.state_spec)


def make_update(algorithm, **kwargs):
    """A function that makes one update with an `Experience`, as `Learner.train` does, but not in a graph."""
    learner = make_learner(algorithm, **kwargs)

    def update(experience):
        return learner._update((experience, algorithm.preprocess(experience)))

    return update


@pytest.mark.parametrize("action_spec, tau, period", [(BOX, 1.0, 2), (DISCRETE, 0.25, 1)])
def test_target_critics_follow(action_spec, tau, period):
    algorithm = make_algorithm(action_spec, tau=tau, target_update_period=period)
    experience = make_experience(algorithm)
    update = make_update(algorithm)
    sources, targets = algorithm._critic.variables, algorithm._target_critic.variables
    for i in range(1, 5):
        before = [v.numpy() for v in targets]
        update(experience)
        moves = i % period == 0
        for source, target, old in zip(sources, targets, before, strict=True):
            expected = tau * source.numpy() + (1 - tau) * old if moves else old
            np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-7)
    assert int(algorithm.progress.updates) == 4


def test_the_actor_may_change_at_every_second_update():
    algorithm = make_algorithm()
    change(algorithm)
    experience, moved = make_experience(algorithm), []
    update = make_update(algorithm, update_periods={"actor": 2})
    for _ in range(4):
        before = tf.nest.map_structure(lambda v: v.numpy(), algorithm.parameter_groups())
        update(experience)
        changed = tf.nest.map_structure(lambda x, y: np.any(x != y), before, algorithm.parameter_groups())
        moved.append({name: any(parts) for name, parts in changed.items()})
    assert [x["actor"] for x in moved] == [False, True, False, True]
    assert all(x["critic"] and x["alpha"] for x in moved)


def test_temperature_follows_the_entropy():
    for target_entropy, rises in ((3.0, True), (-3.0, False)):
        algorithm = make_algorithm(target_entropy=target_entropy)
        make_update(algorithm)(make_experience(algorithm))
        assert (float(algorithm._log_alpha) > 0) == rises


def test_temperature_that_is_not_trained_stays():
    algorithm = make_algorithm(train_alpha=False, initial_alpha=0.2)
    experience = make_experience(algorithm)
    make_update(algorithm)(experience)
    loss = loss_of(algorithm, experience)[1]
    np.testing.assert_allclose(loss.extra["alpha"], 0.2, rtol=1e-6)
    assert "alpha_loss" not in loss.extra and len(algorithm.parameter_groups()) == 2
    assert algorithm._log_alpha.name not in [v.name for v in algorithm.trainable_variables]


def time_step(rows=4000):
    zeros = tf.zeros(rows)
    return TimeStep(
        tf.ones(rows, tf.int32), zeros, zeros + 1, tf.ones((rows, 4)), zeros, tf.zeros(rows, tf.int32)
    )


def test_steps_of_a_box():
    algorithm = make_algorithm()
    change(algorithm, 0.1)
    rows, state = time_step(), PolicyState(train=((), ()))
    step = tf.function(algorithm.policy.rollout_step, autograph=False)(rows, state)
    assert step.action.shape == (4000, 2) and step.action.dtype == tf.float32
    assert step.info == algorithm.policy.info_spec == () and step.state == state
    outputs = algorithm.policy.network(rows.observation)[0].numpy()[0]
    unit = (step.action.numpy() - [0.0, 5.0]) / [2.0, 5.0]
    assert np.abs(unit).max() <= 1.0
    raw = np.arctanh(np.clip(unit, -0.99999, 0.99999))
    np.testing.assert_allclose(raw.mean(axis=0), outputs[:2], atol=0.1)
    np.testing.assert_allclose(raw.std(axis=0), np.exp(outputs[2:]), rtol=0.1)
    greedy = tf.function(algorithm.policy.predict_step, autograph=False)(rows, state).action
    np.testing.assert_allclose(greedy[0], np.tanh(outputs[:2]) * [2.0, 5.0] + [0.0, 5.0], rtol=1e-5)


def test_steps_of_an_integer():
    algorithm = make_algorithm(DISCRETE)
    change(algorithm, 0.3)
    rows, state = time_step(), PolicyState(train=((), ()))
    step = tf.function(algorithm.policy.rollout_step, autograph=False)(rows, state)
    assert step.action.dtype == tf.int64
    p = tf.nn.softmax(algorithm.policy.network(rows.observation)[0][0]).numpy()
    np.testing.assert_allclose(np.bincount(step.action, minlength=4)[1:] / 4000, p, atol=0.04)
    np.testing.assert_array_equal(algorithm.policy.predict_step(rows, state).action, 1 + np.argmax(p))


@pytest.mark.parametrize("action_spec, rnn", [(BOX, GRU), (DISCRETE, LSTM)])
def test_state_of_recurrent_networks_goes_on(action_spec, rnn):
    algorithm = make_algorithm(action_spec, rnn)
    state = zeros_from_spec(algorithm.policy.state_spec, 5)
    new = algorithm.policy.rollout_step(time_step(5), state).state
    tf.nest.assert_same_structure(new, algorithm.policy.state_spec)
    assert all(np.abs(x).max() > 0 for x in tf.nest.flatten(new))
    predicted = algorithm.policy.predict_step(time_step(5), state).state
    for found, expected in ((predicted.train[0], new.train[0]), (predicted.train[1], state.train[1])):
        tf.nest.map_structure(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), found, expected)


def test_prediction_needs_no_state_of_the_critics():
    """Greedy actions are those that the rollout's state gives, and an agent may go on exploring."""
    policy = make_algorithm(rnn=GRU).policy
    agent, state = Agent(policy), None
    rng = np.random.default_rng(0)
    actor_state = zeros_from_spec(policy.network.state_spec, 5)
    for _ in range(3):
        observation = rng.normal(size=(5, 4)).astype(np.float32)
        action, state = agent.predict(observation, state)
        outputs, actor_state = policy.network.policy(tf.constant(observation), actor_state)
        np.testing.assert_allclose(state.policy.train[0], actor_state, rtol=1e-5)
        greedy = policy.actions.action(policy.actions.mode(policy.actions.params(outputs)))
        np.testing.assert_allclose(action, greedy, rtol=1e-5)
    assert not np.any(state.policy.train[1])
    _, state = agent.predict(observation, state, deterministic=False)
    assert np.any(state.policy.train[1])
    agent.predict(observation, state)


@pytest.mark.parametrize(
    "name, value",
    [
        ("discount", 1.5),
        ("n_step", 0),
        ("initial_alpha", 0.0),
        ("target_entropy", "low"),
        ("tau", 1.5),
        ("target_update_period", 0),
        ("burn_in", 1),
        ("train_alpha", None),
    ],
)
def test_settings_are_checked(name, value):
    with pytest.raises(ConfigError, match=rf"{name} is {re.escape(repr(value))}"):
        make_algorithm(**{name: value})


def test_optimizers_are_checked(subtests):
    algorithm, adam = make_algorithm(), optimizers.Adam
    for name, value in (("actor", "adam"), ("actor", None), ("critic", None), ("alpha", adam)):
        with subtests.test(name=name, value=value):
            others = {group: sgd() for group in algorithm.parameter_groups()}
            rule = "is .*: it must be an Optimizer" if value != "adam" else ".* is 'adam': Keras has"
            message = rf"Learner.optimizer\['{name}'\].* {rule}"
            with pytest.raises(ConfigError, match=message):
                build_learner(algorithm, {**others, name: value})
    with pytest.raises(ConfigError, match="max_grad_norm is 0.0"):
        make_learner(algorithm, max_grad_norm=0.0)


def test_recurrent_critics_come_from_the_policy():
    critic = functools.partial(CriticsNetwork, rnn=GRU)
    with pytest.raises(ConfigError, match="set SacPolicy.recurrent_critic instead"):
        SacAlgorithm(SacPolicy(OBSERVATION, BOX), critic=critic)
    policy = SacPolicy(OBSERVATION, BOX, recurrent_critic=critic)
    with pytest.raises(ConfigError, match="SacAlgorithm.critic is set, but"):
        SacAlgorithm(policy, critic=CriticsNetwork)


@pytest.mark.parametrize(
    "action_spec",
    [
        tf.TensorSpec((2,), tf.float32),
        BoundedTensorSpec((2,), tf.float32, -1.0, np.inf),
        BoundedTensorSpec((2,), tf.float32, -1.0, np.finfo(np.float32).max),
        BoundedTensorSpec((2,), tf.int32, 0, 3),
        tf.TensorSpec((), tf.int32),
        {"a": BOX, "b": DISCRETE},
    ],
    ids=["unbounded", "infinite", "limits", "integers", "unbounded integer", "nest"],
)
def test_other_actions_are_refused(action_spec):
    with pytest.raises(ConfigError, match="^action_spec is .*"):
        SacPolicy(OBSERVATION, action_spec)


def test_gin_configures_it():
    gin.parse_config("""
        UnrollLearner.optimizer = {"actor": @actor/Adam(), "critic": @Adam(), "alpha": @Adam()}
        actor/Adam.learning_rate = 0.5
        Adam.learning_rate = 0.25
        PolicyNetwork.fc_layer_params = (8,)
        CriticsNetwork.num_critics = 3
        CriticsNetwork.fc_layer_params = (8,)
    """)
    algorithm = SacAlgorithm(SacPolicy(OBSERVATION, BOX))
    rates = build_learner(algorithm)._optimizer.learning_rates()
    assert rates == {"learning_rate_actor": 0.5, "learning_rate_critic": 0.25, "learning_rate_alpha": 0.25}
    assert len(algorithm._critic.trainable_variables) == 3 * 4


def test_learns_in_a_box():
    """Episodes end by a time limit: acting well is worth 1 / (1 - discount), less the noise."""

    def make_learner(specs):
        actor, critics = (functools.partial(x, fc_layer_params=(32,)) for x in (ACTOR, CRITICS))
        policy = SacPolicy(specs.observation, specs.action, actor)
        algorithm = SacAlgorithm(policy, critics, tau=0.1, initial_alpha=0.1, discount=0.5)
        training = replay_training(specs, policy, unroll_length=4, length=1)
        return build_learner(algorithm, optimizers.Adam(1e-2), training)

    env = MatchObservationEnvironment(16, episode_length=4, continuous=True)
    learner, average_return = train(env, make_learner, 4, 500)
    assert average_return > 3.5, "of 4; at random below 0"
    seen = tf.constant(np.linspace(-0.9, 0.9, 19)[:, np.newaxis], tf.float32)
    action = learner.policy.predict_step(
        time_step(19)._replace(observation=seen), PolicyState(train=((), ()))
    ).action
    assert np.abs(action - seen).mean() < 0.1
    q = learner.algorithm._critic.values(seen, action / 2)
    np.testing.assert_allclose(q, np.full(q.shape, 2.0), atol=0.3)


def test_learns_to_remember_with_choices():
    def make_learner(specs):
        networks = (functools.partial(x, rnn=functools.partial(LSTM, units=8)) for x in (ACTOR, CRITICS))
        policy = SacPolicy(specs.observation, specs.action, *networks)
        settings = dict(tau=0.1, initial_alpha=0.1, discount=0.9, target_entropy=0.1, burn_in=1)
        algorithm = SacAlgorithm(policy, **settings)
        training = replay_training(specs, policy, unroll_length=4, length=3)
        return build_learner(algorithm, optimizers.Adam(1e-2), training)

    learner, _ = train(remembering_env(16), make_learner, 4, 150)
    check_memory(learner.policy)
