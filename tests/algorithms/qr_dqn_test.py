# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""QrDqnAlgorithm: its loss against the literal formula, with all that it shares with DQN."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, QrDqnAlgorithm
from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST, PolicyState
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.networks import GRU, QuantileNetwork, QValueNetwork
from alf.policies import EpsilonGreedyPolicy
from alf.replay import PrioritizedReplayer
from tests.algorithms.dqn_test import (
    ACTION,
    DISCOUNT,
    OBSERVATION,
    STEP_TYPE,
    B,
    L,
    change,
    make_experience,
    rescale,
    time_step,
    unrescale,
)
from tests.algorithms.learning import check_memory, remembering_env, replay_training, train
from tests.algorithms.replayed import list_transitions, make_replayed
from tests.builders import build_learner

N = 4
NETWORK = functools.partial(QuantileNetwork, num_quantiles=N, fc_layer_params=(16,), seed=0)


def make_algorithm(rnn=None, dueling=True, mask=None, **kwargs):
    network = functools.partial(NETWORK, rnn=rnn, dueling=dueling)
    observation = OBSERVATION
    if mask is not None:
        observation = {"seen": OBSERVATION, "mask": tf.TensorSpec((3,), tf.bool)}
    policy = EpsilonGreedyPolicy(observation, ACTION, network, action_mask_key=mask)
    return QrDqnAlgorithm(policy, **kwargs)


def literal_loss(algorithm, experience, z, target_z, n, double, delta, eta=0.0, epsilon=None):
    """Loss and priorities, transition by transition and pair by pair of quantiles."""
    losses, errors = [], [[] for _ in range(B)]
    for t, b, total, factor, k in list_transitions(experience, n, 0.9):
        value = (z if double else target_z)[k, b].mean(-1)
        if isinstance(experience.observation, dict):
            value = np.where(experience.observation["mask"][k, b], value, -np.inf)
        target = target_z[k, b, np.argmax(value)]
        if epsilon is None:
            target = total + factor * target
        else:
            target = rescale(total + factor * unrescale(target, epsilon), epsilon)
        own, loss = z[t, b, experience.action[t, b] - 1], 0.0
        for i in range(N):
            for j in range(N):
                u = target[j] - own[i]
                size = u * u / 2 if abs(u) <= delta else delta * (abs(u) - delta / 2)
                loss += abs((i + 0.5) / N - (u < 0)) * size / delta / N
        errors[b].append(abs(target.mean() - own.mean()))
        losses.append(experience.weight[t, b] * loss)
    return np.mean(losses), [eta * max(e) + (1 - eta) * np.mean(e) if e else 0.0 for e in errors]


def evaluate(algorithm, observation):
    networks = algorithm.policy.network, algorithm._target_network
    return [x(observation)[0].numpy().astype(np.float64) for x in networks]


@pytest.mark.parametrize(
    "n, double, delta, eta, epsilon, dueling",
    [(1, True, 1.0, 0.0, None, True), (3, False, 0.5, 0.9, None, False), (2, True, 0.5, 0.0, 1e-2, True)],
)
def test_loss_is_the_literal_formula(n, double, delta, eta, epsilon, dueling):
    algorithm = make_algorithm(
        dueling=dueling,
        n_step=n,
        double=double,
        huber_delta=delta,
        discount=0.9,
        priority_eta=eta,
        value_rescaling=epsilon,
    )
    change(algorithm)
    experience = make_experience(algorithm)
    loss = algorithm.calc_loss(experience, algorithm.train_step(experience, ()))
    networks = evaluate(algorithm, experience.observation)
    expected, priority = literal_loss(algorithm, experience, *networks, n, double, delta, eta, epsilon)
    np.testing.assert_allclose(loss.loss, expected, rtol=1e-4)
    np.testing.assert_allclose(loss.priority, priority, rtol=1e-4)
    other, _ = literal_loss(algorithm, experience, *networks, n, not double, delta, eta, epsilon)
    assert abs(other - expected) > 1e-4


def test_a_target_takes_an_action_that_the_mask_allows():
    algorithm = make_algorithm(mask="mask", discount=0.9)
    change(algorithm)
    rng = np.random.default_rng(0)
    weight = np.zeros((L + 1, B), np.float32)
    weight[:-1] = STEP_TYPE[1:] != FIRST
    allowed = rng.random((L + 1, B, 3)) < 0.5
    allowed[..., 0] = True
    action = rng.integers(1, 4, (L + 1, B))
    experience = make_replayed(algorithm, rng, STEP_TYPE, DISCOUNT, weight, action, allowed)
    loss = algorithm.calc_loss(experience, algorithm.train_step(experience, ()))
    networks = evaluate(algorithm, experience.observation["seen"])
    expected, _ = literal_loss(algorithm, experience, *networks, 1, True, 1.0)
    np.testing.assert_allclose(loss.loss, expected, rtol=1e-4)
    everything = experience.observation | {"mask": np.ones_like(allowed)}
    free, _ = literal_loss(algorithm, experience._replace(observation=everything), *networks, 1, True, 1.0)
    assert abs(free - expected) > 1e-3


def test_recurrent_quantiles_follow_the_stored_state():
    algorithm = make_algorithm(rnn=GRU, burn_in=2, n_step=2)
    change(algorithm)
    experience = make_experience(algorithm)
    state, rows = experience.state.train, []
    for t in range(L + 1):
        state = tf.where((STEP_TYPE[t] == FIRST)[:, None], 0.0, state)
        q, state = algorithm.policy.network.policy(experience.observation[t], state)
        rows.append(q)
    _, z, *_ = algorithm.train_step(experience, ())
    assert z.shape == (2, B, 3, N)
    np.testing.assert_allclose(tf.reduce_mean(z, -1), np.stack(rows)[2:4], rtol=1e-4, atol=1e-5)


def test_the_policy_acts_by_the_means():
    algorithm = make_algorithm()
    change(algorithm)
    rows = time_step(50)
    z = algorithm.policy.network(rows.observation)[0]
    assert z.shape == (50, 3, N)
    greedy = algorithm.policy.predict_step(rows, PolicyState()).action
    np.testing.assert_array_equal(greedy, 1 + np.argmax(tf.reduce_mean(z, -1), -1))


def test_networks_of_the_other_kind_are_refused():
    with pytest.raises(ConfigError, match="^QrDqnAlgorithm .*QValueNetwork: set .* one like Quantile"):
        QrDqnAlgorithm(EpsilonGreedyPolicy(OBSERVATION, ACTION, QValueNetwork))
    with pytest.raises(ConfigError, match="^DqnAlgorithm .*QuantileNetwork: set .* one like QValue"):
        DqnAlgorithm(EpsilonGreedyPolicy(OBSERVATION, ACTION, NETWORK))
    with pytest.raises(ConfigError, match="QuantileNetwork.num_quantiles is 0"):
        EpsilonGreedyPolicy(OBSERVATION, ACTION, functools.partial(NETWORK, num_quantiles=0))
    with pytest.raises(ConfigError, match="action_spec is"):
        EpsilonGreedyPolicy(OBSERVATION, BoundedTensorSpec((), tf.float32, 0.0, 1.0), NETWORK)


def test_learns_to_remember_from_prioritized_replay():
    def make_learner(specs):
        network = functools.partial(NETWORK, rnn=functools.partial(GRU, units=8))
        policy = EpsilonGreedyPolicy(specs.observation, specs.action, network, epsilon=0.1)
        algorithm = QrDqnAlgorithm(policy, discount=0.9, tau=0.1, target_update_period=1, burn_in=1)
        training = replay_training(specs, policy, 4, 3, PrioritizedReplayer)
        return build_learner(algorithm, optimizers.Adam(1e-2), training, max_grad_norm=10.0)

    learner, _ = train(remembering_env(16), make_learner, 4, 200)
    check_memory(learner.policy)
