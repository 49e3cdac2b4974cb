# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ImpalaAlgorithm: its loss and gradients against the literal formulas, its steps, its checks."""

import re

import gin
import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import tensor_spec

import alf.algorithms.optimizers  # noqa: F401  (for gin)
from alf.algorithms import ImpalaAlgorithm
from alf.algorithms.impala import TrainInfo
from alf.data_structures import FIRST, LAST, MID, Experience, TimeStep
from alf.errors import ConfigError

OBSERVATION = tf.TensorSpec((4,), tf.float32)
DISCRETE = tensor_spec.BoundedTensorSpec((), tf.int64, 0, 2)
CONTINUOUS = tensor_spec.BoundedTensorSpec((2,), tf.float32, -1.0, 1.0)
T, B = 7, 3
# An end inside, an end at row 0, a whole episode between two ends, an end in the bootstrap row.
STEP_TYPE = np.full((T + 1, B), MID)
STEP_TYPE[2, 0], STEP_TYPE[3, 0] = LAST, FIRST
STEP_TYPE[0, 1], STEP_TYPE[1, 1], STEP_TYPE[4, 1], STEP_TYPE[5, 1] = LAST, FIRST, LAST, FIRST
STEP_TYPE[7, 2] = LAST
SETTINGS = {
    "discount": 0.9,
    "vtrace_lambda": 0.8,
    "clip_rho_threshold": 0.9,
    "clip_pg_rho_threshold": 1.2,
    "reward_scale": 0.5,
    "value_loss_weight": 0.7,
    "entropy_weight": 0.05,
}


def make_algorithm(action_spec=DISCRETE, optimizer=None, **kwargs):
    optimizer = optimizer or tf.keras.optimizers.legacy.SGD(0.1)
    return ImpalaAlgorithm(OBSERVATION, action_spec, optimizer, **kwargs)


def make_batch(action_spec, seed=0):
    """Returns a time-major `Experience` and a `TrainInfo` of another policy, as NumPy arrays."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=(T + 1, B, *shape)).astype(np.float32)

    def params():
        if action_spec is DISCRETE:
            return normal(3)
        return normal(2), 0.3 * normal(2)

    action = rng.integers(0, 3, (T + 1, B)) if action_spec is DISCRETE else normal(2)
    # Terminations and a time limit: discount 0 at LAST or not.
    discount = np.ones((T + 1, B), np.float32)
    discount[2, 0] = discount[7, 2] = 0.0
    experience = Experience(
        step_type=STEP_TYPE.astype(np.int32),
        reward=normal(),
        discount=discount,
        observation=normal(4),
        prev_action=action,
        env_id=np.zeros((T + 1, B), np.int32),
        action=action,
        info=params(),
        policy_version=np.zeros((T + 1, B), np.int64),
    )
    return experience, TrainInfo(params(), normal())


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def log_prob_and_entropy(action_spec, params, action):
    if action_spec is DISCRETE:
        log_p = log_softmax(params)
        chosen = np.take_along_axis(log_p, action[..., np.newaxis], axis=-1)[..., 0]
        return chosen, -(np.exp(log_p) * log_p).sum(axis=-1)
    loc, log_scale = params
    z = (action - loc) / np.exp(log_scale)
    log_p = (-0.5 * z**2 - log_scale - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    return log_p, (log_scale + 0.5 * np.log(2 * np.pi * np.e)).sum(axis=-1)


def literal_vtrace(rho, value, reward, discount, last, settings):
    """Equation (1) of arXiv 1802.01561 term by term, for one column; rows that are LAST stay 0.

    v_s = V(x_s) + sum of (discounts before t) (c_s ... c_{t-1}) delta_t over t >= s in the episode.
    """
    lam, rho_bar, pg_bar = (
        settings[k] for k in ("vtrace_lambda", "clip_rho_threshold", "clip_pg_rho_threshold")
    )
    c = lam * np.minimum(1.0, rho)
    delta = np.minimum(rho_bar, rho) * (reward + discount * value[1:] - value[:-1])
    target, advantage = np.zeros(T), np.zeros(T)
    for s in range(T):
        if not last[s]:
            end = next((t for t in range(s, T) if last[t + 1]), T - 1)  # the episode's last row
            target[s] = value[s] + sum(
                np.prod(discount[s:t]) * np.prod(c[s:t]) * delta[t] for t in range(s, end + 1)
            )
    for s in range(T):
        if not last[s]:
            has_next = s + 1 < T and not last[s + 1]
            v_next = lam * target[s + 1] + (1 - lam) * value[s + 1] if has_next else value[s + 1]
            q = reward[s] + discount[s] * v_next
            advantage[s] = min(pg_bar, rho[s]) * (q - value[s])
    return target, advantage


def literal_loss(action_spec, experience, info, settings):
    """Returns the parts of the loss, and targets, advantages and valid, [T, B], in float64."""
    first_rows = lambda x: tf.nest.map_structure(lambda y: y[:-1].astype(np.float64), x)  # noqa: E731
    action = experience.action[:-1]
    log_p, entropy = log_prob_and_entropy(action_spec, first_rows(info.params), action)
    log_b, _ = log_prob_and_entropy(action_spec, first_rows(experience.info), action)
    last = experience.step_type == LAST
    columns = [
        literal_vtrace(
            np.exp(log_p - log_b)[:, b],
            info.value[:, b].astype(np.float64),
            settings["reward_scale"] * experience.reward[1:, b].astype(np.float64),
            settings["discount"] * experience.discount[1:, b].astype(np.float64),
            last[:, b],
            settings,
        )
        for b in range(B)
    ]
    target, advantage = (np.stack(x, axis=1) for x in zip(*columns))
    valid = ~last[:-1]
    parts = {
        "policy_loss": -(advantage * log_p)[valid].mean(),
        "value_loss": 0.5 * ((target - info.value[:-1]) ** 2)[valid].mean(),
        "entropy": entropy[valid].mean(),
    }
    return parts, target, advantage, valid


@pytest.mark.parametrize("action_spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"vtrace_lambda": 0.0},
        {"vtrace_lambda": 1.0, "discount": 1.0},
        {"discount": 0.0},
        {"clip_rho_threshold": 100.0, "clip_pg_rho_threshold": 100.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_is_the_literal_formula(action_spec, changes, seed):
    settings = {**SETTINGS, **changes}
    experience, info = make_batch(action_spec, seed)
    algorithm = make_algorithm(action_spec, **settings)
    to_tensors = lambda x: tf.nest.map_structure(tf.constant, x)  # noqa: E731
    loss = tf.function(algorithm.calc_loss)(to_tensors(experience), to_tensors(info))
    parts, _, _, valid = literal_loss(action_spec, experience, info, settings)
    assert valid.sum() == T * B - 3
    assert loss.extra.keys() == parts.keys()
    for name, expected in parts.items():
        np.testing.assert_allclose(loss.extra[name], expected, rtol=2e-4, err_msg=name)
    expected = parts["policy_loss"] + 0.7 * parts["value_loss"] - 0.05 * parts["entropy"]
    np.testing.assert_allclose(loss.loss, expected, rtol=2e-4)


def test_gradients_are_the_literal_ones():
    experience, info = make_batch(DISCRETE)
    settings = {**SETTINGS, "entropy_weight": 0.0}
    info = tf.nest.map_structure(tf.constant, info)
    with tf.GradientTape() as tape:
        tape.watch(info)
        batch = tf.nest.map_structure(tf.constant, experience)
        loss = make_algorithm(**settings).calc_loss(batch, info)
    gradient = tape.gradient(loss.loss, info)
    info = tf.nest.map_structure(lambda x: x.numpy(), info)
    _, target, advantage, valid = literal_loss(DISCRETE, experience, info, settings)
    # d log pi(a) / d logits = onehot(a) - pi; minimising the loss follows the policy gradient.
    score = np.eye(3)[experience.action] - np.exp(log_softmax(info.params.astype(np.float64)))
    logits = np.zeros((T + 1, B, 3))
    logits[:-1] = -(valid * advantage)[..., np.newaxis] * score[:-1] / valid.sum()
    np.testing.assert_allclose(gradient.params, logits, rtol=1e-3, atol=1e-6)
    # Targets are constants: the value moves towards them, and nothing flows into the bootstrap row.
    value = np.zeros((T + 1, B))
    value[:-1] = 0.7 * valid * (info.value[:-1] - target) / valid.sum()
    np.testing.assert_allclose(gradient.value, value, rtol=1e-3, atol=1e-6)


def test_rows_that_are_no_transitions_do_not_matter():
    experience, info = make_batch(DISCRETE)
    last = STEP_TYPE == LAST
    changed = experience._replace(
        action=np.where(last, 0, experience.action),
        info=np.where(last[..., np.newaxis], 9.0, experience.info).astype(np.float32),
        # The reward that arrives at FIRST belongs to no transition.
        reward=np.where(STEP_TYPE == FIRST, 1e6, experience.reward).astype(np.float32),
    )
    algorithm = make_algorithm(**SETTINGS)
    losses = [
        float(algorithm.calc_loss(tf.nest.map_structure(tf.constant, e), info).loss)
        for e in (experience, changed)
    ]
    assert losses[0] == losses[1]


def time_step(rows=5):
    rng = np.random.default_rng(0)
    observation = tf.constant(rng.normal(size=(rows, 4)), tf.float32)
    zeros = tf.zeros((rows,))
    index = tf.zeros((rows,), tf.int32)
    return TimeStep(index + 1, zeros, zeros + 1, observation, zeros, index)


@pytest.mark.parametrize("action_spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_rollout_step_samples_and_says_from_what(action_spec):
    algorithm = make_algorithm(action_spec)
    rows = time_step(5000)
    rows = rows._replace(observation=tf.ones_like(rows.observation))
    step = tf.function(algorithm.rollout_step)(rows, ())
    spec = algorithm.rollout_info_spec
    tf.nest.assert_same_structure(spec, step.info)
    for x, s in zip(tf.nest.flatten(step.info), tf.nest.flatten(spec), strict=True):
        assert x.shape == (5000, *s.shape) and x.dtype == s.dtype
    assert step.action.dtype == action_spec.dtype
    assert step.action.shape == (5000, *action_spec.shape)
    # The same observation everywhere, yet the actions follow a distribution: about that of `info`.
    if action_spec is DISCRETE:
        p = np.exp(log_softmax(step.info.numpy()))[0]
        frequencies = np.bincount(step.action.numpy(), minlength=3) / 5000
        np.testing.assert_allclose(frequencies, p, atol=0.04)
    else:
        loc, log_scale = (x.numpy()[0] for x in step.info)
        np.testing.assert_allclose(step.action.numpy().mean(axis=0), loc, atol=0.1)
        np.testing.assert_allclose(step.action.numpy().std(axis=0), np.exp(log_scale), rtol=0.1)


@pytest.mark.parametrize("action_spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_predict_step_is_greedy(action_spec):
    algorithm = make_algorithm(action_spec)
    rows = time_step(50)
    step = algorithm.predict_step(rows, ())
    outputs, _ = algorithm._network(rows.observation)
    if action_spec is DISCRETE:
        np.testing.assert_array_equal(step.action, outputs.numpy().argmax(axis=-1))
    else:
        np.testing.assert_allclose(step.action, outputs.numpy()[:, :2], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(step.action, algorithm.predict_step(rows, ()).action)


def test_train_step_evaluates_every_row():
    algorithm = make_algorithm()
    experience, _ = make_batch(DISCRETE)
    info = algorithm.train_step(tf.nest.map_structure(tf.constant, experience), ())
    assert info.params.shape == (T + 1, B, 3) and info.value.shape == (T + 1, B)
    row = algorithm.rollout_step(time_step()._replace(observation=tf.constant(experience.observation[3])), ())
    np.testing.assert_allclose(info.params[3], row.info, rtol=1e-5, atol=1e-7)


def test_network_and_heads_can_be_chosen():
    made = []

    class Linear(tf.Module):
        def __init__(self, observation_spec, num_outputs):
            super().__init__()
            made.append((observation_spec, num_outputs))
            self.weights = tf.Variable(tf.ones((4, num_outputs)))

        def policy(self, observation):
            return observation @ self.weights

    algorithm = make_algorithm(network_ctor=Linear)
    assert made == [(OBSERVATION, 3)]
    assert [v is algorithm._network.weights for v in algorithm.trainable_variables] == [True]
    algorithm.predict_step(time_step(), ())


@pytest.mark.parametrize(
    "name, value",
    [
        ("discount", -0.1),
        ("discount", 1.1),
        ("vtrace_lambda", -0.1),
        ("vtrace_lambda", 1.1),
        ("clip_rho_threshold", 0),
        ("clip_pg_rho_threshold", -1.0),
        ("reward_scale", 0.0),
        ("value_loss_weight", -0.5),
        ("entropy_weight", "high"),
        ("optimizer", "adam"),
        ("learning_rate", "fast"),
        ("learning_rate", -1.0),
        ("optimizer", tf.keras.optimizers.legacy.Adam),
    ],
)
def test_settings_are_checked(name, value):
    prefix, kwargs = "" if name == "optimizer" else r"ImpalaAlgorithm\.", {name: value}
    if name == "learning_rate":
        prefix, kwargs = "the optimizer's ", {"optimizer": tf.keras.optimizers.legacy.SGD(value)}
    with pytest.raises(ConfigError, match=rf"{prefix}{name} is {re.escape(repr(value))}"):
        make_algorithm(**kwargs)


def test_gin_configures_it():
    gin.parse_config(
        "ImpalaAlgorithm.optimizer = @SGD()\nSGD.learning_rate = 0.5\n"
        "ActorCriticNetwork.share_layers = False\nActorCriticNetwork.fc_layer_params = (8,)"
    )
    algorithm = ImpalaAlgorithm(OBSERVATION, DISCRETE)
    assert float(algorithm.optimizer.learning_rate) == 0.5
    assert len(algorithm.trainable_variables) == 8
