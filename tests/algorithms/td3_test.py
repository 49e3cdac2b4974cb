# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TD3: its losses against the literal formulas, its delayed actor; users could write it as it is."""

import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Td3Algorithm, Td3Policy, action_to_unit_box, td3
from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST, PolicyState
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.networks import GRU, CriticsNetwork, PolicyNetwork
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.algorithms.dqn_test import DISCOUNT, OBSERVATION, STEP_TYPE, B, L, time_step
from tests.algorithms.learning import find_private_names, replay_training, train
from tests.algorithms.replayed import list_transitions, make_replayed
from tests.builders import build_learner

BOX = BoundedTensorSpec((2,), tf.float32, [-2.0, 0.0], [2.0, 10.0])
SMALL = [functools.partial(x, fc_layer_params=(16,), seed=0) for x in (PolicyNetwork, CriticsNetwork)]


def make_algorithm(**kwargs):
    algorithm = Td3Algorithm(Td3Policy(OBSERVATION, BOX, SMALL[0]), SMALL[1], **kwargs)
    # So that the networks differ from their targets, and some actions are at their bounds.
    rng, targets = np.random.default_rng(7), (algorithm._target_actor, algorithm._target_critic)
    for variable in [*algorithm.trainable_variables, *(v for x in targets for v in x.variables)]:
        variable.assign_add(rng.normal(size=variable.shape).astype(np.float32))
    return algorithm


def make_experience(algorithm):
    rng = np.random.default_rng(0)
    weight = np.zeros((L + 1, B), np.float32)
    weight[:-1] = STEP_TYPE[1:] != FIRST
    weight *= rng.uniform(0.5, 2.0, B).astype(np.float32)
    action = rng.uniform(BOX.minimum, BOX.maximum, (L + 1, B, 2)).astype(np.float32)
    return make_replayed(algorithm, rng, STEP_TYPE, DISCOUNT, weight, action)


@pytest.mark.parametrize("n, noise, clip", [(1, 0.2, 0.5), (2, 2.0, 0.3)])
def test_losses_are_the_literal_formulas(n, noise, clip):
    algorithm = make_algorithm(n_step=n, discount=0.9, target_noise=noise, target_noise_clip=clip)
    experience = make_experience(algorithm)
    drawn = algorithm.preprocess(experience)
    assert np.abs(drawn).max() <= clip < noise * 3
    assert (noise < 1) or (np.abs(drawn) == np.float32(clip)).any()
    loss = algorithm.calc_loss(experience, algorithm.train_step(experience, drawn))
    seen, actor, critic = experience.observation, algorithm.policy.network, algorithm._critic
    target_actor, target_critic = algorithm._target_actor, algorithm._target_critic
    next_action = np.clip(np.tanh(target_actor(seen)[0]) + drawn, -1, 1)
    next_q = target_critic.values(seen, tf.constant(next_action))[..., 0].numpy().min(0)
    q = critic.values(seen, action_to_unit_box(experience.action, BOX))[..., 0].numpy()
    actor_q = critic.values(seen, tf.tanh(actor(seen)[0]))[0, ..., 0].numpy()
    critic_losses, actor_losses, errors = [], [], [[] for _ in range(B)]
    for t, b, total, factor, k in list_transitions(experience, n, 0.9):
        target, weight = total + factor * next_q[k, b], experience.weight[t, b]
        critic_losses.append(weight * sum((target - q[c, t, b]) ** 2 / 2 for c in range(2)))
        actor_losses.append(-weight * actor_q[t, b])
        errors[b].append(np.mean([abs(target - q[c, t, b]) for c in range(2)]))
    np.testing.assert_allclose(loss.extra["critic_loss"], np.mean(critic_losses), rtol=1e-4)
    np.testing.assert_allclose(loss.extra["actor_loss"], np.mean(actor_losses), rtol=1e-4)
    np.testing.assert_allclose(loss.loss, np.mean(critic_losses) + np.mean(actor_losses), rtol=1e-4)
    np.testing.assert_allclose(loss.priority, [np.mean(e) if e else 0.0 for e in errors], rtol=1e-4)


def test_each_loss_trains_its_own_networks():
    algorithm = make_algorithm()
    experience = make_experience(algorithm)
    with tf.GradientTape(persistent=True) as tape:
        info = algorithm.train_step(experience, algorithm.preprocess(experience))
        extra = algorithm.calc_loss(experience, info).extra
    groups = algorithm.parameter_groups()
    assert groups.keys() == {"actor", "critic"}
    for name, other in (("actor", "critic"), ("critic", "actor")):
        own, none = (tape.gradient(extra[f"{name}_loss"], groups[x]) for x in (name, other))
        assert all(np.abs(g).max() > 0 for g in own)
        assert all(g is None or not np.any(g) for g in none)
    assert len(algorithm.trainable_variables) == sum(map(len, groups.values()))  # no target network


def test_exploration():
    policy = Td3Policy(OBSERVATION, BOX, SMALL[0], exploration_noise=0.1)
    rows = time_step(4000)
    greedy = action_to_unit_box(policy.predict_step(rows, PolicyState()).action, BOX)
    np.testing.assert_allclose(greedy, np.tanh(policy.network(rows.observation)[0]), atol=1e-5)
    step = tf.function(policy.rollout_step, autograph=False)(rows, PolicyState())
    noise = action_to_unit_box(step.action, BOX) - greedy
    assert np.std(noise) == pytest.approx(0.1, rel=0.1) and abs(np.mean(noise)) < 0.01


def test_it_learns_and_its_actor_moves_in_every_second_update():
    def make_learner(specs):
        small = [functools.partial(x, fc_layer_params=(32,)) for x in (PolicyNetwork, CriticsNetwork)]
        policy = Td3Policy(specs.observation, specs.action, small[0])
        algorithm = Td3Algorithm(policy, small[1], discount=0.5, tau=0.1)
        groups = {name: optimizers.Adam(1e-2) for name in algorithm.parameter_groups()}
        return build_learner(algorithm, groups, replay_training(specs, policy, unroll_length=4, length=1))

    env = MatchObservationEnvironment(16, episode_length=4, continuous=True)
    learner, average_return = train(env, make_learner, 4, 500)
    assert average_return > 3.3, "of 4, less the noise; at random below 0"
    algorithm = learner.algorithm
    watched = algorithm.policy.network, algorithm._target_actor, algorithm._target_critic, algorithm._critic

    def values():
        return [np.concatenate([v.numpy().ravel() for v in network.variables]) for network in watched]

    before, moved = values(), []
    learner.progress.updates.assign(10)
    calls = algorithm._update_targets[0]._calls
    for updater in algorithm._update_targets:
        updater._calls.assign(10)
    assert int(calls) == 10
    for _ in range(4):
        learner.train_from_replay()
        after = values()
        moved.append([bool(np.any(x != y)) for x, y in zip(before, after, strict=True)])
        before = after
    assert moved == [[False, False, False, True], [True] * 4, [False, False, False, True], [True] * 4]


def test_it_is_written_as_a_user_writes_it():
    assert find_private_names(Path(td3.__file__).read_text(encoding="utf-8")) == {"__init__"}


@pytest.mark.parametrize(
    "spec",
    [BoundedTensorSpec((), tf.int64, 0, 3), tf.TensorSpec((2,), tf.float32)],
    ids=["integer", "unbounded"],
)
def test_other_actions_are_refused(spec):
    with pytest.raises(ConfigError, match="^action_spec is .*: Td3Policy needs one box of floats"):
        Td3Policy(OBSERVATION, spec)


def test_recurrent_networks_are_refused():
    rnn = functools.partial(GRU, units=4)
    with pytest.raises(ConfigError, match="^Td3Policy.network is recurrent"):
        Td3Policy(OBSERVATION, BOX, functools.partial(PolicyNetwork, rnn=rnn))
    with pytest.raises(ConfigError, match="^Td3Algorithm.critic is recurrent"):
        Td3Algorithm(Td3Policy(OBSERVATION, BOX), functools.partial(CriticsNetwork, rnn=rnn))
