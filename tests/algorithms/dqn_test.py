# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""DqnAlgorithm: its loss against the literal formula, its target network, exploration, settings."""

import functools
import re

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm
from alf.core.nest_utils import BoundedTensorSpec, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, PolicyState, TimeStep
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.networks import GRU, LSTM, QValueNetwork
from alf.policies import EpsilonGreedyPolicy
from alf.policies.off_policy import ActionValues
from alf.replay import PrioritizedReplayer
from alf.schedules import LinearSchedule
from tests.algorithms.learning import check_memory, remembering_env, replay_training, train
from tests.algorithms.replayed import list_transitions, make_replayed, shorten
from tests.builders import build_learner

OBSERVATION = tf.TensorSpec((4,), tf.float32)
ACTION = BoundedTensorSpec((), tf.int64, 1, 3)
N, L, B = 3, 5, 6
STEP_TYPE = np.full((L + 1, B), MID, np.int32)
STEP_TYPE[1, 0], STEP_TYPE[2, 0] = LAST, FIRST  # terminated
STEP_TYPE[3, 1], STEP_TYPE[4, 1] = LAST, FIRST  # truncated
STEP_TYPE[2, 2] = FIRST  # broken off
STEP_TYPE[5, 3] = LAST
STEP_TYPE[0, 4], STEP_TYPE[1, 4] = LAST, FIRST
DISCOUNT = np.ones((L + 1, B), np.float32)
DISCOUNT[1, 0] = DISCOUNT[5, 3] = 0.0
SMALL = dict(fc_layer_params=(16,))
QNET = functools.partial(QValueNetwork, seed=0, **SMALL)


def make_policy(action_spec=ACTION, rnn=None, dueling=True, epsilon=0.05):
    network = functools.partial(QValueNetwork, rnn=rnn, seed=0, dueling=dueling, **SMALL)
    return EpsilonGreedyPolicy(OBSERVATION, action_spec, network, epsilon)


def make_algorithm(rnn=None, dueling=True, epsilon=0.05, **kwargs):
    return DqnAlgorithm(make_policy(rnn=rnn, dueling=dueling, epsilon=epsilon), **kwargs)


def make_learner(algorithm, optimizer=None, **kwargs):
    return build_learner(algorithm, optimizer or optimizers.SGD(0.1), **kwargs)


def make_experience(algorithm, length=L, seed=0, importance=True):
    rng = np.random.default_rng(seed)
    shape = (L + 1, B)
    weight = np.zeros(shape, np.float32)
    weight[:-1] = STEP_TYPE[1:] != FIRST
    if importance:
        weight *= rng.uniform(0.5, 2.0, B).astype(np.float32)
    rows = make_replayed(algorithm, rng, STEP_TYPE, DISCOUNT, weight, rng.integers(1, 4, shape))
    return shorten(rows, length)


def change(algorithm, scale=0.5):
    """Makes the network differ from its target."""
    rng = np.random.default_rng(7)
    for v in algorithm.policy.network.trainable_variables:
        v.assign_add(scale * rng.normal(size=v.shape).astype(np.float32))


def rescale(x, epsilon):
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + epsilon * x


def unrescale(x, epsilon):
    root = (np.sqrt(1 + 4 * epsilon * (abs(x) + 1 + epsilon)) - 1) / (2 * epsilon)
    return np.sign(x) * (root**2 - 1)


def literal_loss(algorithm, experience, n, double, huber_delta, discount=0.9, eta=0.0, epsilon=None):
    """Loss and priorities, transition by transition."""
    q = algorithm.policy.network(experience.observation)[0].numpy().astype(np.float64)
    target_q = algorithm._target_network(experience.observation)[0].numpy().astype(np.float64)
    losses, errors = [], [[] for _ in range(B)]
    for t, b, total, factor, k in list_transitions(experience, n, discount):
        best = np.argmax((q if double else target_q)[k, b])
        value = target_q[k, b, best]
        if epsilon is None:
            target = total + factor * value
        else:
            target = rescale(total + factor * unrescale(value, epsilon), epsilon)
        error = target - q[t, b, experience.action[t, b] - 1]
        errors[b].append(abs(error))
        if huber_delta is not None and abs(error) > huber_delta:
            loss = huber_delta * (abs(error) - huber_delta / 2)
        else:
            loss = error**2 / 2
        losses.append(experience.weight[t, b] * loss)
    return np.mean(losses), [eta * max(e) + (1 - eta) * np.mean(e) if e else 0.0 for e in errors]


@pytest.mark.parametrize(
    "n, double, huber_delta",  # every two of them meet in all their values
    [(1, True, None), (1, False, 0.5), (3, True, 0.5), (3, False, None)],
)
def test_loss_is_the_literal_formula(n, double, huber_delta):
    algorithm = make_algorithm(n_step=n, double=double, huber_delta=huber_delta, discount=0.9)
    change(algorithm)
    experience = make_experience(algorithm)
    loss = algorithm.calc_loss(experience, algorithm.train_step(experience, ()))
    expected, priority = literal_loss(algorithm, experience, n, double, huber_delta)
    np.testing.assert_allclose(loss.loss, expected, rtol=1e-4)
    np.testing.assert_allclose(loss.priority, priority, rtol=1e-4)
    assert loss.extra.keys() == {"q", "td_error", "epsilon"}
    other, _ = literal_loss(algorithm, experience, n, not double, huber_delta)
    assert abs(other - expected) > 1e-3


@pytest.mark.parametrize("eta, epsilon", [(0.9, None), (0.0, 1e-2)])
def test_r2d2_has_other_priorities_and_targets(eta, epsilon):
    settings = {"priority_eta": eta, "value_rescaling": epsilon}
    algorithm = make_algorithm(n_step=2, discount=0.9, **settings)
    change(algorithm, scale=2.0)
    experience = make_experience(algorithm)
    loss = algorithm.calc_loss(experience, algorithm.train_step(experience, ()))
    expected, priority = literal_loss(algorithm, experience, 2, True, 1.0, eta=eta, epsilon=epsilon)
    np.testing.assert_allclose(loss.loss, expected, rtol=1e-4)
    np.testing.assert_allclose(loss.priority, priority, rtol=1e-4)
    plain, plain_priority = literal_loss(algorithm, experience, 2, True, 1.0)
    assert np.abs(np.subtract(plain_priority, priority)).max() > 1e-2
    assert epsilon is None or abs(plain - expected) > 1e-2


def test_priorities_from_what_the_actor_said():
    """The actor's values of the action taken and of the best one, in place of the networks'."""
    policy = EpsilonGreedyPolicy(OBSERVATION, ACTION, QNET, reports_values=True)
    algorithm = DqnAlgorithm(policy, n_step=2, discount=0.9, priority_eta=0.5, value_rescaling=1e-2)
    experience = make_experience(algorithm)
    rng = np.random.default_rng(3)
    taken, greatest = (rng.normal(size=(L + 1, B)).astype(np.float32) for _ in range(2))
    experience = experience._replace(info=ActionValues(tf.constant(taken), tf.constant(greatest)))
    errors = [[] for _ in range(B)]
    for t, b, total, factor, k in list_transitions(experience, 2, 0.9):
        target = rescale(total + factor * unrescale(greatest[k, b], 1e-2), 1e-2)
        errors[b].append(abs(target - taken[t, b]))
    expected = [0.5 * max(e) + 0.5 * np.mean(e) if e else 0.0 for e in errors]
    np.testing.assert_allclose(algorithm.priority_of_actor(experience), expected, rtol=1e-4)
    with pytest.raises(ConfigError, match="set EpsilonGreedyPolicy.reports_values to True"):
        make_algorithm().priority_of_actor(experience)


def test_a_policy_reports_the_values_of_its_actions():
    policy = EpsilonGreedyPolicy(OBSERVATION, ACTION, QNET, epsilon=0.5, reports_values=True)
    rows = time_step(200)
    step = policy.rollout(rows, PolicyState())
    q = policy.network(rows.observation)[0].numpy()
    np.testing.assert_allclose(step.info.greatest, q.max(-1), rtol=1e-5)
    np.testing.assert_allclose(step.info.taken, q[np.arange(200), step.action - 1], rtol=1e-5)
    assert (step.info.taken.numpy() < step.info.greatest.numpy()).any()
    assert policy.predict(rows, PolicyState()).info == ()


def test_a_variant_has_another_value_at_the_end():
    class Zero(DqnAlgorithm):
        def next_value(self, next_q, next_target_q):
            assert next_q.shape == next_target_q.shape == (L, B, 3)
            return tf.zeros_like(next_q[..., 0])

    losses = []
    for factory, discount in ((Zero, 0.9), (DqnAlgorithm, 0.0)):
        algorithm = factory(make_policy(), discount=discount)
        change(algorithm)
        experience = make_experience(algorithm)
        losses.append(algorithm.calc_loss(experience, algorithm.train_step(experience, ())).loss)
    np.testing.assert_allclose(*losses, rtol=1e-5)


@pytest.mark.parametrize("dueling", [True, False])
def test_one_transition_per_sequence(dueling):
    algorithm = make_algorithm(n_step=2, dueling=dueling, discount=0.9)
    change(algorithm)
    experience = make_experience(algorithm, length=2)
    loss = algorithm.calc_loss(experience, algorithm.train_step(experience, ()))
    expected, priority = literal_loss(algorithm, experience, 2, True, 1.0)
    np.testing.assert_allclose(loss.loss, expected, rtol=1e-4)
    np.testing.assert_allclose(loss.priority, priority, rtol=1e-4)
    assert priority[4] == 0.0, "it leads to a FIRST step: there is nothing to learn"


def gradients(algorithm, experience):
    with tf.GradientTape() as tape:
        info = algorithm.train_step(experience, ())
        loss = algorithm.calc_loss(experience, info).loss
    (variables,) = algorithm.parameter_groups().values()
    return loss, tape.gradient(loss, variables)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
def test_only_the_network_that_learns_is_trained(compute_dtype):
    network = functools.partial(QNET, compute_dtype=compute_dtype)
    algorithm = DqnAlgorithm(EpsilonGreedyPolicy(OBSERVATION, ACTION, network))
    ids = {id(v) for v in algorithm.policy.network.trainable_variables}
    assert ids == {id(v) for v in algorithm.trainable_variables}
    assert ids == {id(v) for v in algorithm.parameter_groups()["all"]}
    assert algorithm._target_network.trainable_variables == ()
    _, gradient = gradients(algorithm, make_experience(algorithm))
    assert all(np.abs(g).max() > 0 for g in gradient)


@pytest.mark.parametrize("rnn", [None, GRU])
def test_the_target_network_never_runs_as_in_training(rnn):
    """Layers such as batch normalization would change their variables."""
    algorithm = make_algorithm(rnn=rnn)
    network, calls = algorithm._target_network, []
    algorithm._target_network = lambda *args: (calls.append(args[3]), network(*args))[1]
    experience = make_experience(algorithm)
    algorithm.train_step(experience, ())
    assert calls == [False]


def test_gradient_is_that_of_q_alone():
    """With the square: minus the TD error times the gradient of Q; targets are constants."""
    algorithm = make_algorithm(huber_delta=None, discount=0.9)
    change(algorithm)
    experience = make_experience(algorithm, length=1)
    _, gradient = gradients(algorithm, experience)
    q, target = (
        net(experience.observation)[0] for net in (algorithm.policy.network, algorithm._target_network)
    )
    value = [target[1, b, int(np.argmax(q[1, b]))].numpy() for b in range(B)]
    goal = experience.reward[1] + 0.9 * experience.discount[1] * value
    weight = experience.weight[0]
    with tf.GradientTape() as tape:
        q = algorithm.policy.network(experience.observation[0])[0]
        q = tf.gather(q, experience.action[0] - 1, batch_dims=1)
        loss = 0.5 * tf.reduce_sum(weight * (goal - q) ** 2) / np.count_nonzero(weight)
    expected = tape.gradient(loss, algorithm.policy.network.trainable_variables)
    for a, b in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("rnn", [GRU, LSTM])
def test_rows_of_the_burn_in_have_no_gradient_but_their_state_counts(rnn):
    algorithm = make_algorithm(rnn=rnn, n_step=2, burn_in=2)
    change(algorithm)
    experience = make_experience(algorithm)
    with tf.GradientTape() as tape:
        tape.watch((experience.observation, experience.state))
        info = algorithm.train_step(experience, ())
        loss = algorithm.calc_loss(experience, info).loss
    to_observation, to_state = tape.gradient(loss, (experience.observation, experience.state))
    assert all(g is None or not np.any(g) for g in tf.nest.flatten(to_state))
    used = np.abs(to_observation).max(axis=(1, 2)) > 0
    # Rows 2 and 3 train; rows 4 and 5 bootstrap.
    np.testing.assert_array_equal(used, [False, False, True, True, False, False])
    changed = experience._replace(
        observation=experience.observation + 1.0 * tf.one_hot(0, L + 1)[:, None, None]
    )
    other = algorithm.calc_loss(changed, algorithm.train_step(changed, ()))
    assert abs(float(other.loss - loss)) > 1e-5


def test_recurrent_loss_follows_the_stored_state():
    """Against steps one after another, as acting makes them."""
    algorithm = make_algorithm(rnn=GRU, discount=0.9, huber_delta=None)
    change(algorithm)
    experience = make_experience(algorithm)

    def values(network):
        state, rows = experience.state.train, []
        for t in range(L + 1):
            state = tf.where((STEP_TYPE[t] == FIRST)[:, None], 0.0, state)
            q, state = network.policy(experience.observation[t], state)
            rows.append(q)
        return np.stack(rows)

    _, start_q, next_q, next_target_q, _ = algorithm.train_step(experience, ())
    q, target_q = values(algorithm.policy.network), values(algorithm._target_network)
    np.testing.assert_allclose(start_q, q[:-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(next_q, q[1:], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(next_target_q, target_q[1:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tau, period", [(1.0, 2), (0.25, 1)])
def test_target_network_follows(tau, period):
    algorithm = make_algorithm(tau=tau, target_update_period=period)
    update = make_learner(algorithm)._update
    experience = make_experience(algorithm)
    sources, targets = algorithm.policy.network.variables, algorithm._target_network.variables
    for i in range(1, 5):
        before = [v.numpy() for v in targets]
        update((experience, ()))
        moves = i % period == 0
        for source, target, old in zip(sources, targets, before, strict=True):
            expected = tau * source.numpy() + (1 - tau) * old if moves else old
            np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-7)
        assert (np.abs(sources[0] - targets[0]).max() > 0) == (tau < 1 or not moves)
    assert int(algorithm.progress.updates) == 4


def time_step(rows=2000):
    rng = np.random.default_rng(0)
    zeros = tf.zeros(rows)
    return TimeStep(
        tf.ones(rows, tf.int32),
        zeros,
        zeros + 1,
        tf.constant(rng.normal(size=(rows, 4)), tf.float32),
        tf.ones(rows, tf.int64),
        tf.zeros(rows, tf.int32),
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_greedy(epsilon):
    algorithm = make_algorithm(epsilon=epsilon)
    change(algorithm)
    rows = time_step()
    step = tf.function(algorithm.policy.rollout_step, autograph=False)(rows, PolicyState())
    greedy = tf.function(algorithm.policy.predict_step, autograph=False)(rows, PolicyState()).action
    q = algorithm.policy.network(rows.observation)[0]
    np.testing.assert_array_equal(greedy, 1 + np.argmax(q, axis=-1))
    assert step.action.dtype == tf.int64 and step.state == PolicyState() and step.info == ()
    assert set(np.unique(step.action)) <= {1, 2, 3}
    # A third of the random actions are the best ones.
    expected = 1 - epsilon * 2 / 3
    np.testing.assert_allclose(np.mean(step.action == greedy), expected, atol=0.05 if epsilon > 0 else 0)


def test_epsilon_follows_its_schedule():
    algorithm = make_algorithm(epsilon=LinearSchedule(1.0, 0.0, over=100))
    change(algorithm)
    rows = time_step()
    act = tf.function(algorithm.policy.rollout_step, autograph=False)
    greedy = algorithm.policy.predict_step(rows, PolicyState()).action
    assert np.mean(act(rows, PolicyState()).action != greedy) > 0.5
    algorithm.progress.env_steps.assign(100)
    np.testing.assert_array_equal(act(rows, PolicyState()).action, greedy)
    experience = make_experience(algorithm)
    assert algorithm.calc_loss(experience, algorithm.train_step(experience, ())).extra["epsilon"] == 0.0


def test_each_environment_has_an_epsilon_of_its_own():
    policy = EpsilonGreedyPolicy(OBSERVATION, ACTION, QNET, epsilon=0.4, epsilon_exponent=7.0)
    policy.use_envs(2, 6)  # a collector's process: its environments are number 2 to 5 of 6
    policy.use_envs(0, 4)  # of a driver, later
    expected = [0.4 ** (1 + 7 * i / 5) for i in range(6)]
    np.testing.assert_allclose(policy.epsilon(), np.mean(expected), rtol=1e-5)
    rows = time_step(8000)
    rows = rows._replace(env_id=tf.range(8000) % 4)
    step = tf.function(policy.rollout_step, autograph=False)(rows, PolicyState())
    is_other = step.action.numpy() != policy.predict_step(rows, PolicyState()).action.numpy()
    for env_id in range(4):
        # A third of the random actions are the best ones. 2000 rows: four deviations.
        p = expected[2 + env_id] * 2 / 3
        assert abs(is_other[env_id::4].mean() - p) < 4 * np.sqrt(p * (1 - p) / 2000)


def test_one_environment_cannot_explore_in_different_ways():
    policy = EpsilonGreedyPolicy(OBSERVATION, ACTION, QNET, epsilon=0.4, epsilon_exponent=7.0)
    policy.use_envs(0, 1)
    assert float(policy.epsilon()) == pytest.approx(0.4)  # an agent may act in one, as in `alf.rollout`
    policy.rollout_step(time_step(1), PolicyState())
    with pytest.raises(ConfigError, match="^EpsilonGreedyPolicy.epsilon_exponent is 7.0, .*: raise Experi"):
        policy.check_envs()


@pytest.mark.parametrize("rnn", [GRU, LSTM])
def test_state_of_a_recurrent_network_goes_on(rnn):
    policy = make_policy(rnn=rnn)
    rows = time_step(5)
    state = zeros_from_spec(policy.state_spec, 5)
    for step in (policy.rollout_step, policy.predict_step):
        new = step(rows, state).state
        tf.nest.assert_same_structure(new, policy.state_spec)
        assert all(np.abs(x).max() > 0 for x in tf.nest.flatten(new))


@pytest.mark.parametrize(
    "name, value",
    [
        ("discount", -0.1),
        ("discount", 1.1),
        ("n_step", 0),
        ("n_step", 1.5),
        ("double", 1),
        ("huber_delta", 0.0),
        ("epsilon", 1.5),
        ("epsilon", "greedy"),
        *(("tau", tau) for tau in (0.0, -0.1, 1.1, "1", None)),
        *(("target_update_period", period) for period in (0, 1.5, None)),
        ("burn_in", -1),
        ("burn_in", 1),
        ("priority_eta", 1.1),
        ("value_rescaling", 0.0),
        ("max_grad_norm", 0.0),
        ("optimizer", "adam"),
    ],
)
def test_settings_are_checked(name, value):
    with pytest.raises(ConfigError, match=rf"{name} is {re.escape(repr(value))}"):
        if name in ("max_grad_norm", "optimizer"):
            make_learner(make_algorithm(), **{name: value})
        else:
            make_algorithm(**{name: value})


@pytest.mark.parametrize(
    "action_spec",
    [
        BoundedTensorSpec((2,), tf.int32, 0, 3),
        BoundedTensorSpec((), tf.float32, 0.0, 1.0),
        tf.TensorSpec((), tf.int32),
        {"a": ACTION},
    ],
    ids=["vector", "float", "unbounded", "nest"],
)
def test_other_actions_are_refused(action_spec):
    with pytest.raises(ConfigError, match="action_spec is"):
        make_policy(action_spec)


def test_gin_configures_it():
    gin.parse_config("""
        UnrollLearner.optimizer = @Adam()
        alf.EpsilonGreedyPolicy.epsilon = @LinearSchedule()
        LinearSchedule.start = 1.0
        LinearSchedule.end = 0.1
        LinearSchedule.over = 1000
        QValueNetwork.fc_layer_params = (8,)
        QValueNetwork.dueling = False
    """)
    algorithm = DqnAlgorithm(EpsilonGreedyPolicy(OBSERVATION, ACTION))
    build_learner(algorithm)
    assert [v.shape.as_list() for v in algorithm.trainable_variables if v.shape.rank == 2] == [[8, 3], [4, 8]]
    assert float(algorithm.policy.epsilon()) == 1.0


def test_learns_to_remember_from_prioritized_replay():
    def make_learner(specs):
        network = functools.partial(QNET, rnn=functools.partial(GRU, units=8))
        policy = EpsilonGreedyPolicy(specs.observation, specs.action, network, epsilon=0.1)
        algorithm = DqnAlgorithm(policy, discount=0.9, tau=0.1, target_update_period=1, burn_in=1)
        training = replay_training(specs, policy, 4, 3, PrioritizedReplayer)
        return build_learner(algorithm, optimizers.Adam(1e-2), training, max_grad_norm=10.0)

    learner, _ = train(remembering_env(16), make_learner, 4, 150)
    check_memory(learner.policy)
