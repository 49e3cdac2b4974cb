# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action masks of DQN and SAC: what acts, and their losses against literal formulas."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, SacAlgorithm
from alf.core.nest_utils import BoundedTensorSpec, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, TimeStep
from alf.errors import ConfigError
from alf.networks import GRU, CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.policies.data_transformers import ObservationNormalizer, Pipeline
from tests.algorithms.replayed import list_transitions, make_replayed

SEEN = tf.TensorSpec((4,), tf.float32)
OBSERVATION = {"seen": SEEN, "mask": tf.TensorSpec((3,), tf.int8)}
ACTION = BoundedTensorSpec((), tf.int64, 1, 3)
L, B, DISCOUNT = 5, 6, 0.9
STEP_TYPE = np.full((L + 1, B), MID, np.int32)
STEP_TYPE[1, 0], STEP_TYPE[2, 0] = LAST, FIRST  # terminated
STEP_TYPE[3, 1], STEP_TYPE[4, 1] = LAST, FIRST  # truncated
SMALL = dict(fc_layer_params=(16,), seed=0)
QNET, ACTOR, CRITICS = (functools.partial(x, **SMALL) for x in (QValueNetwork, PolicyNetwork, CriticsNetwork))


def make_algorithm(cls, rnn=None, **kwargs):
    if cls is DqnAlgorithm:
        network = functools.partial(QNET, rnn=rnn)
        policy = EpsilonGreedyPolicy(OBSERVATION, ACTION, network, 0.5, action_mask_key="mask")
        algorithm = DqnAlgorithm(policy, discount=DISCOUNT, **kwargs)
        networks = [policy.network]
    else:
        critic = functools.partial(CRITICS, rnn=rnn)
        actor = functools.partial(ACTOR, rnn=rnn)
        policy = SacPolicy(OBSERVATION, ACTION, actor, critic if rnn else None, action_mask_key="mask")
        algorithm = SacAlgorithm(
            policy, None if rnn else critic, discount=DISCOUNT, initial_alpha=0.4, **kwargs
        )
        networks = [policy.network, algorithm._critic]
    rng = np.random.default_rng(7)
    for v in (x for network in networks for x in network.trainable_variables):
        v.assign_add(0.5 * rng.normal(size=v.shape).astype(np.float32))  # other than the targets
    return algorithm


def make_masks(shape):
    """All masks of three actions but for 0 0 0, which is in places where an episode ends."""
    rng = np.random.default_rng(1)
    mask = np.array([[int(x) for x in f"{i:03b}"] for i in rng.integers(1, 8, np.prod(shape))], np.int8)
    return mask.reshape(*shape, 3)


def make_experience(algorithm):
    rng = np.random.default_rng(0)
    shape = (L + 1, B)
    mask = make_masks(shape)
    mask[3, 1] = 0
    # Some of the actions are not allowed, as in data of a behavior that heeds no mask.
    action = rng.integers(1, 4, shape)
    weight = np.zeros(shape, np.float32)
    weight[:-1] = (STEP_TYPE[1:] != FIRST) * rng.uniform(0.5, 2.0, B)
    discount = np.ones(shape, np.float32)
    discount[1, 0] = 0.0
    return make_replayed(algorithm, rng, STEP_TYPE, discount, weight, action, mask)


def loss_of(algorithm, experience):
    return algorithm.calc_loss(experience, algorithm.train_step(experience, algorithm.preprocess(experience)))


def evaluate(network, experience, state=()):
    """Returns the outputs of all rows, float64 [..., L+1, B, n]."""
    is_first = tf.constant(STEP_TYPE == FIRST)
    outputs = network(experience.observation["seen"], state, is_first, False)[0]
    return outputs.numpy().astype(np.float64)


def allowed_of(experience):
    mask = experience.observation["mask"].numpy() != 0
    return mask | ~mask.any(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "n, double, rnn",  # every two of them meet in all their values
    [(1, True, None), (1, False, GRU), (3, True, GRU), (3, False, None)],
)
def test_targets_of_dqn_are_values_of_allowed_actions(n, double, rnn):
    algorithm = make_algorithm(DqnAlgorithm, rnn, n_step=n, double=double, huber_delta=None)
    experience = make_experience(algorithm)
    state = experience.state.train
    q = evaluate(algorithm.policy.network, experience, state)
    target_q = evaluate(algorithm._target_network, experience, state)
    allowed, losses, mattered = allowed_of(experience), [], 0
    errors = [[] for _ in range(B)]
    for t, b, total, factor, k in list_transitions(experience, n, DISCOUNT):
        chooser = (q if double else target_q)[k, b]
        best = max(np.flatnonzero(allowed[k, b]), key=lambda i: chooser[i])
        mattered += best != np.argmax(chooser)
        error = total + factor * target_q[k, b, best] - q[t, b, experience.action[t, b] - 1]
        errors[b].append(abs(error))
        losses.append(experience.weight[t, b] * error**2 / 2)
    assert mattered > 1
    loss = loss_of(algorithm, experience)
    np.testing.assert_allclose(loss.loss, np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(loss.priority, [np.mean(e) for e in errors], rtol=1e-4)


@pytest.mark.parametrize(
    "n, target_entropy, rnn", [(1, None, None), (1, 0.8, GRU), (3, None, GRU), (3, 0.8, None)]
)
def test_losses_of_sac_are_sums_over_allowed_actions(n, target_entropy, rnn):
    algorithm = make_algorithm(SacAlgorithm, rnn, n_step=n, target_entropy=target_entropy)
    experience = make_experience(algorithm)
    actor_state, critic_state = experience.state.train
    logits = evaluate(algorithm.policy.network, experience, actor_state)
    q, target_q = (
        critic.values(critic.features(*rest)[0]).numpy().astype(np.float64)
        for critic in (algorithm._critic, algorithm._target_critic)
        for rest in [(experience.observation["seen"], critic_state, tf.constant(STEP_TYPE == FIRST), False)]
    )
    allowed, alpha = allowed_of(experience), 0.4
    parts = {"critic_loss": [], "actor_loss": [], "alpha_loss": []}
    for t, b, total, factor, k in list_transitions(experience, n, DISCOUNT):

        def policy(row, b=b):
            """The allowed actions of a row, with their probabilities."""
            actions = np.flatnonzero(allowed[row, b])
            p = np.exp(logits[row, b, actions] - logits[row, b, actions].max())
            return list(zip(actions, p / p.sum()))

        smallest = target_q[:, k, b].min(axis=0)
        target = total + factor * sum(p * (smallest[i] - alpha * np.log(p)) for i, p in policy(k))
        w, taken = experience.weight[t, b], experience.action[t, b] - 1
        parts["critic_loss"].append(w * sum((q[c, t, b, taken] - target) ** 2 / 2 for c in (0, 1)))
        smallest = q[:, t, b].min(axis=0)
        parts["actor_loss"].append(w * sum(p * (alpha * np.log(p) - smallest[i]) for i, p in policy(t)))
        entropy = -sum(p * np.log(p) for _, p in policy(t))
        most = np.log(len(policy(t)))
        goal = 0.4 * most if target_entropy is None else min(target_entropy, most)
        parts["alpha_loss"].append(w * np.log(alpha) * (entropy - goal))
    loss = loss_of(algorithm, experience)
    for name, terms in parts.items():
        np.testing.assert_allclose(loss.extra[name], np.mean(terms), rtol=1e-3, err_msg=name)
    gradient = _gradient(algorithm, experience)
    assert gradient and all(np.isfinite(x).all() for x in gradient)


def _gradient(algorithm, experience):
    with tf.GradientTape() as tape:
        loss = loss_of(algorithm, experience).loss
    return tape.gradient(loss, [v for group in algorithm.parameter_groups().values() for v in group])


def test_one_allowed_action_does_not_move_the_temperature():
    algorithm = make_algorithm(SacAlgorithm, target_entropy=0.8)
    experience = make_experience(algorithm)
    observation = {**experience.observation, "mask": tf.one_hot(tf.zeros((L + 1, B), tf.int32), 3)}
    loss = loss_of(algorithm, experience._replace(observation=observation))
    assert abs(loss.extra["alpha_loss"]) < 1e-6 and abs(loss.extra["entropy"]) < 1e-6


@pytest.mark.parametrize("cls", [DqnAlgorithm, SacAlgorithm])
@pytest.mark.parametrize("rnn", [None, GRU])
def test_actions_are_allowed_ones(cls, rnn):
    policy = make_algorithm(cls, rnn).policy
    rows = 3000
    mask = make_masks((rows,))
    mask[:10] = 0
    rng = np.random.default_rng(0)
    seen = tf.constant(rng.normal(size=(rows, 4)), tf.float32)
    zeros = tf.zeros(rows)
    time_step = TimeStep(
        tf.ones(rows, tf.int32),
        zeros,
        zeros + 1,
        {"seen": seen, "mask": tf.constant(mask)},
        tf.ones(rows, tf.int64),
        tf.zeros(rows, tf.int32),
    )
    state = zeros_from_spec(policy.state_spec, rows)
    explored, greedy = (
        tf.function(step, autograph=False)(time_step, state) for step in (policy.rollout, policy.predict)
    )
    allowed = (mask != 0) | ~mask.any(axis=-1, keepdims=True)
    for step in (explored, greedy):
        assert allowed[np.arange(rows), step.action.numpy() - 1].all()
    # The random ones are all of those that are allowed.
    several = explored.action.numpy()[mask.sum(axis=-1) == 3]
    assert set(several) == {1, 2, 3}
    outputs = policy.network.policy(seen, state.train if cls is DqnAlgorithm else state.train[0])[0].numpy()
    np.testing.assert_array_equal(greedy.action - 1, np.where(allowed, outputs, -np.inf).argmax(axis=-1))


BOX = BoundedTensorSpec((2,), tf.float32, -1.0, 1.0)


@pytest.mark.parametrize(
    "cls, action_spec, key, message",
    [
        (EpsilonGreedyPolicy, ACTION, "legal", r"action_mask_key is 'legal': .* \['seen', 'mask'\]"),
        (SacPolicy, ACTION, "legal", r"action_mask_key is 'legal': .* \['seen', 'mask'\]"),
        (SacPolicy, ACTION, "seen", r"the action mask is float32 \[4\]: it must be .* shape \(3,\)"),
        (SacPolicy, BOX, "mask", r"the action mask is int8 \[3\]: an action of floats has none"),
    ],
)
def test_a_mask_that_does_not_fit_is_one_line(cls, action_spec, key, message):
    with pytest.raises(ConfigError, match=message):
        cls(OBSERVATION, action_spec, action_mask_key=key)


@pytest.mark.parametrize("cls", [ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy])
def test_a_mask_that_would_be_scaled_is_one_line(cls):
    """With a mean taken from it and a quotient, a 0 would be another number, and allow its action."""
    for dtype in (tf.float32, tf.int8):
        spec = {"seen": SEEN, "mask": tf.TensorSpec((3,), dtype)}
        make = functools.partial(
            cls,
            spec,
            ACTION,
            action_mask_key="mask",
            data_transformer=Pipeline(spec, tf.TensorSpec((), tf.float32), [ObservationNormalizer]),
        )
        if dtype == tf.int8:
            make()
            continue
        with pytest.raises(ConfigError, match="^action_mask_key is 'mask': it is of float32, which Obs"):
            make()


def test_networks_do_not_see_the_mask():
    seen = []

    def make(cls):
        return lambda spec, *args: (seen.append(spec), functools.partial(cls, **SMALL)(spec, *args))[1]

    SacAlgorithm(
        SacPolicy(OBSERVATION, ACTION, make(PolicyNetwork), action_mask_key="mask"), make(CriticsNetwork)
    )
    EpsilonGreedyPolicy(OBSERVATION, ACTION, make(QValueNetwork), action_mask_key="mask")
    assert seen == [SEEN] * 3
