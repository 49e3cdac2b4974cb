# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PPOAlgorithm: its loss against the literal formula, its settings and checks, what it learns."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import PPOAlgorithm
from alf.algorithms.ppo import PPOTargets
from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST, LAST, MID, Experience, PolicyState
from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.learner.minibatches import merge_unrolls
from alf.networks import GRU, LSTM, ActorCriticNetwork, KerasEncoder
from alf.ops import losses, returns
from alf.policies import ActorCriticPolicy
from alf.policies.action_distributions import ActionInfo
from alf.policies.actor_critic_policy import ActorCriticInfo
from tests.algorithms.learning import check_memory, remembering_env, train
from tests.algorithms.literal_returns import literal_vtrace
from tests.builders import build_driver, build_learner

OBSERVATION = tf.TensorSpec((4,), tf.float32)
DISCRETE = BoundedTensorSpec((), tf.int64, 0, 2)
CONTINUOUS = BoundedTensorSpec((2,), tf.float32, -1.0, 1.0)
T, B = 5, 4
STEP_TYPE = np.full((T + 1, B), MID)
STEP_TYPE[2, 0], STEP_TYPE[3, 0] = LAST, FIRST
STEP_TYPE[0, 1] = FIRST
VALID = STEP_TYPE[1:] != FIRST
SETTINGS = {
    "discount": 0.9,
    "lambda_": 0.8,
    "clip_range": 0.3,
    "value_clip_range": 0.4,
    "value_loss_weight": 0.7,
    "entropy_weight": 0.05,
    "kl_weight": 0.2,
}


def make_algorithm(action_spec=DISCRETE, **kwargs):
    return PPOAlgorithm(ActorCriticPolicy(OBSERVATION, action_spec), **kwargs)


def make_learner(algorithm, num_epochs=4, num_minibatches=4, learning_rate=0.1, **kwargs):
    splits = {"num_epochs": num_epochs, "num_minibatches": num_minibatches}
    return build_learner(algorithm, optimizers.SGD(learning_rate), max_grad_norm=0.5, **splits, **kwargs)


def make_batch(seed=0, action_spec=DISCRETE):
    """A time-major `Experience`, and the pair of an `ActorCriticInfo` of other weights and `PPOTargets`."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=(T + 1, B, *shape)).astype(np.float32)

    def params():
        return normal(3) if action_spec is DISCRETE else (normal(2), 0.3 * normal(2))

    raw = rng.integers(0, 3, (T + 1, B)) if action_spec is DISCRETE else normal(2)
    experience = Experience(
        step_type=STEP_TYPE.astype(np.int32),
        reward=normal(),
        discount=(rng.random((T + 1, B)) < 0.8).astype(np.float32),
        observation=normal(4),
        prev_action=np.zeros((T + 1, B), np.int64),
        env_id=np.zeros((T + 1, B), np.int32),
        action=raw,
        info=ActionInfo(params(), raw),
        policy_version=np.zeros((T + 1, B), np.int64),
        state=PolicyState(),
        weight=np.pad(VALID * np.float32(1), [(0, 1), (0, 0)]),
    )
    targets = PPOTargets(experience.info.params, np.exp(normal()), normal(), normal(), normal())
    return experience, (ActorCriticInfo(params(), normal()), targets)


def log_softmax(x):
    x = x.astype(np.float64)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def literal_distributions(p, b, raw):
    """The ratio p / b of the drawn actions, the entropy of p and the KL divergence from b to p."""
    if not isinstance(p, tuple):
        log_p, log_b = log_softmax(p), log_softmax(b)
        log_ratio = np.take_along_axis(log_p - log_b, raw[..., np.newaxis], -1)[..., 0]
        entropy = -(np.exp(log_p) * log_p).sum(-1)
        return np.exp(log_ratio), entropy, (np.exp(log_b) * (log_b - log_p)).sum(-1)
    (loc_p, log_p), (loc_b, log_b) = ([x.astype(np.float64) for x in params] for params in (p, b))
    var_p, var_b = np.exp(2 * log_p), np.exp(2 * log_b)
    log_ratio = log_b - log_p + (raw - loc_b) ** 2 / (2 * var_b) - (raw - loc_p) ** 2 / (2 * var_p)
    kl = log_p - log_b + (var_b + (loc_b - loc_p) ** 2) / (2 * var_p) - 0.5
    return np.exp(log_ratio.sum(-1)), (log_p + 0.5 * np.log(2 * np.pi * np.e)).sum(-1), kl.sum(-1)


def literal_loss(experience, info, settings, normalize, has_choice=np.True_):
    """The parts of the loss, in float64, term by term; `has_choice` is bool [T, B]."""
    info, targets = info
    rows = tf.nest.map_structure(lambda x: x[:-1], (info.params, targets.proximal, experience.info.raw))
    ratio, entropy, kl = literal_distributions(*rows)
    advantage = targets.advantage[:-1].astype(np.float64)
    if normalize:
        counts = VALID & has_choice
        advantage = (advantage - advantage[counts].mean()) / advantage[counts].std() * counts
    e = settings["clip_range"]
    clipped = np.clip(ratio, 1 / (1 + e), 1 + e)
    policy = -targets.importance[:-1] * np.minimum(ratio * advantage, clipped * advantage)
    value, old, target = (x[:-1].astype(np.float64) for x in (info.value, targets.value, targets.target))
    c = settings["value_clip_range"]
    near = old + np.clip(value - old, -c, c)
    value_loss = 0.5 * np.maximum((value - target) ** 2, (near - target) ** 2)
    return {
        "policy_loss": policy[VALID].mean(),
        "value_loss": value_loss[VALID].mean(),
        "entropy": entropy[VALID].mean(),
        "kl": kl[VALID].mean(),
        "clipped_fraction": (ratio != clipped)[VALID].mean(),
        "explained_variance": 1 - (target - value)[VALID].var() / target[VALID].var(),
    }


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("action_spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_loss_is_the_literal_formula(action_spec, normalize):
    experience, info = make_batch(0, action_spec)
    algorithm = make_algorithm(action_spec, **SETTINGS, normalize_advantages=normalize)
    loss = algorithm.calc_loss(*tf.nest.map_structure(tf.constant, (experience, info)))
    parts = literal_loss(experience, info, SETTINGS, normalize)
    assert loss.extra.keys() == {*parts, "clip_range", "entropy_weight"}
    for name, expected in parts.items():
        np.testing.assert_allclose(loss.extra[name], expected, rtol=1e-4, err_msg=name)
    expected = parts["policy_loss"] + 0.7 * parts["value_loss"] - 0.05 * parts["entropy"] + 0.2 * parts["kl"]
    np.testing.assert_allclose(loss.loss, expected, rtol=1e-4)


@pytest.mark.parametrize("normalize", [True, False])
def test_rows_without_a_choice_do_not_count_in_the_normalization(normalize):
    experience, info = make_batch(3)
    has_choice = np.random.default_rng(0).random((T, B)) < 0.5
    assert (VALID & has_choice).sum() > 3 and (VALID & ~has_choice).sum() > 3
    (outputs, targets) = info
    for params in (outputs.params, targets.proximal):
        params[:-1][~has_choice, 1:] = losses.FORBIDDEN_LOGIT
    experience.info.raw[:-1][~has_choice] = 0
    targets.advantage[:-1][~has_choice] += 100  # of waiting, far from that of the choices
    algorithm = make_algorithm(**SETTINGS, normalize_advantages=normalize)
    loss = algorithm.calc_loss(*tf.nest.map_structure(tf.constant, (experience, info)))
    parts = literal_loss(experience, info, SETTINGS, normalize, has_choice)
    for name, expected in parts.items():
        np.testing.assert_allclose(loss.extra[name], expected, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("use_vtrace", [False, True])
def test_targets_come_from_the_weights_before_the_updates(use_vtrace):
    experience, _ = make_batch()
    behaviour = experience.info
    experience = tf.nest.map_structure(tf.constant, experience)
    algorithm = make_algorithm(use_vtrace=use_vtrace, discount=0.9, lambda_=0.8)
    info = algorithm.preprocess(experience)
    before, _ = algorithm.train_step(experience, info)
    unroll = (
        before.value,
        experience.reward[1:],
        0.9 * experience.discount[1:],
        experience.step_type == FIRST,
    )
    if use_vtrace:
        log_prob = [
            np.take_along_axis(log_softmax(np.array(p)), behaviour.raw[..., np.newaxis], -1)[:-1, :, 0]
            for p in (before.params, behaviour.params)
        ]
        log_rho = (log_prob[0] - log_prob[1]).astype(np.float32)
        expected = returns.vtrace(log_rho, *unroll, lambda_=0.8)
    else:
        expected = returns.generalized_advantage(*unroll, lambda_=0.8)
    np.testing.assert_allclose(info.value, before.value)
    np.testing.assert_allclose(info.target[:-1], expected.value_targets, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(info.advantage[:-1], expected.advantages, rtol=1e-4, atol=1e-5)
    assert not np.any(info.target[-1]) and not np.any(info.advantage[-1])
    np.testing.assert_array_equal(info.proximal, behaviour.params)
    np.testing.assert_array_equal(info.importance, np.ones((T + 1, B)))


@pytest.mark.parametrize(
    "thresholds",
    [
        {},
        {"clip_rho_threshold": 1.5},
        {"clip_c_threshold": 0.6},
        {"clip_rho_threshold": 1.5, "clip_c_threshold": 1.3},
    ],
    ids=str,
)
def test_vtrace_is_the_literal_formula(thresholds):
    experience, _ = make_batch()
    behaviour = experience.info
    tensors = tf.nest.map_structure(tf.constant, experience)
    algorithm = make_algorithm(use_vtrace=True, discount=0.9, lambda_=0.8, **thresholds)
    before, _ = algorithm.train_step(tensors, ())
    log_rho = log_softmax(before.params.numpy()) - log_softmax(behaviour.params)
    rho = np.exp(np.take_along_axis(log_rho, behaviour.raw[..., np.newaxis], -1)[:-1, :, 0])
    limits = {"clip_rho_threshold": 1.0, "clip_c_threshold": 1.0, **thresholds}
    assert all(np.any(rho > limit) and np.any(rho < limit) for limit in limits.values())
    target, advantage = literal_vtrace(
        rho,
        before.value.numpy().astype(np.float64),
        experience.reward[1:].astype(np.float64),
        0.9 * experience.discount[1:],
        STEP_TYPE == LAST,
        0.8,
        **limits,
    )
    info = algorithm.preprocess(tensors)
    np.testing.assert_allclose(info.target[:-1] * VALID, target * VALID, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(info.advantage[:-1] * VALID, advantage * VALID, rtol=1e-4, atol=1e-5)


def train_on_batch(learner, seed=0):
    """One batch of one unroll; returns the summary."""
    experience, _ = make_batch(seed)
    experience = experience._replace(state=(), weight=())
    experience = tf.nest.map_structure(lambda x: tf.constant(x)[tf.newaxis], experience)
    learner.observe(experience._replace(state=PolicyState()))
    return {name: float(value) for name, value in learner.train().items()}


def test_a_target_policy_takes_the_place_of_the_one_that_acted():
    """IMPACT: its parameters, limited ratios of it to the one that acted, V-trace for it."""
    experience, _ = make_batch()
    behaviour = experience.info
    experience = tf.nest.map_structure(tf.constant, experience)
    settings = dict(use_vtrace=True, discount=0.9, lambda_=0.8)
    algorithm = make_algorithm(**settings, target_update_period=3, clip_target_ratio=1.1)
    for variable in algorithm._target_policy._network.variables:
        variable.assign_add(tf.random.stateless_normal(variable.shape, (1, 2)))
    info = algorithm.preprocess(experience)
    target = algorithm._target_policy.unroll(experience)
    np.testing.assert_array_equal(info.proximal, target.params)
    log_prob = [
        np.take_along_axis(log_softmax(np.array(p)), behaviour.raw[..., np.newaxis], -1)[..., 0]
        for p in (target.params, behaviour.params)
    ]
    log_rho = (log_prob[0] - log_prob[1]).astype(np.float32)
    importance = np.minimum(np.exp(log_rho), 1.1)
    assert np.any(importance < 1.1) and np.any(importance == 1.1)
    np.testing.assert_allclose(info.importance, importance, rtol=1e-5)
    expected = returns.vtrace(
        log_rho[:-1],
        algorithm.train_step(experience, info)[0].value,
        experience.reward[1:],
        0.9 * experience.discount[1:],
        experience.step_type == FIRST,
        lambda_=0.8,
    )
    np.testing.assert_allclose(info.advantage[:-1], expected.advantages, rtol=1e-4, atol=1e-5)


def make_model(spec):
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.5)])


@pytest.mark.parametrize("target_update_period", [None, 3])
def test_what_is_computed_before_the_updates_trains_no_layer(target_update_period):
    encoder = functools.partial(KerasEncoder, model=make_model)
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(), encoder=encoder)
    policy = ActorCriticPolicy(OBSERVATION, DISCRETE, network)
    algorithm = PPOAlgorithm(policy, target_update_period=target_update_period)
    experience, _ = make_batch()
    experience = tf.nest.map_structure(tf.constant, experience)
    before = [v.numpy() for v in algorithm.variables]
    first, second = (algorithm.preprocess(experience) for _ in range(2))
    tf.nest.map_structure(np.testing.assert_array_equal, first, second)
    for variable, value in zip(algorithm.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_the_target_policy_lags_behind():
    algorithm = make_algorithm(target_update_period=3)
    learner = make_learner(algorithm, num_epochs=1, num_minibatches=1)

    def is_copy():
        networks = (policy._network.variables for policy in (algorithm.policy, algorithm._target_policy))
        pairs = zip(*networks, strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    copies = [is_copy()]
    for seed in range(6):
        train_on_batch(learner, seed)
        copies.append(is_copy())
    assert copies == [True, False, False, True, False, False, True]
    optimized = {id(v) for group in algorithm.parameter_groups().values() for v in group}
    assert not optimized & {id(v) for v in algorithm._target_policy.variables}


def test_updates_end_where_the_policy_has_moved_too_far():
    learner = make_learner(make_algorithm(target_kl=1e-6), 3, num_minibatches=2, learning_rate=1.0)
    train_on_batch(learner)
    assert int(learner.train_step_counter) == 1
    assert int(learner.progress.env_steps) == VALID.sum()
    assert not make_algorithm().stops_early({"kl": tf.constant(100.0)})


def test_symmetric_kl_pulls_towards_the_uniform_policy():
    experience, info = make_batch()
    tensors = tf.nest.map_structure(tf.constant, (experience, info))
    plain = make_algorithm(entropy_weight=0.0).calc_loss(*tensors).loss
    loss = make_algorithm(entropy_weight=0.5, exploration="symmetric_kl").calc_loss(*tensors).loss
    log_p = log_softmax(info[0].params)[:-1]
    symmetric = 0.5 * ((np.exp(log_p) - 1 / 3) * log_p).sum(-1)
    np.testing.assert_allclose(loss - plain, 0.5 * symmetric[VALID].mean(), rtol=1e-4)


WRONG = (
    ({"discount": 1.1}, "PPOAlgorithm.discount is 1.1"),
    ({"lambda_": -1}, "PPOAlgorithm.lambda_ is -1"),
    ({"clip_range": 0}, "PPOAlgorithm.clip_range is 0"),
    ({"value_clip_range": 0}, "PPOAlgorithm.value_clip_range is 0"),
    ({"value_loss_weight": -1}, "PPOAlgorithm.value_loss_weight is -1"),
    ({"entropy_weight": "high"}, "PPOAlgorithm.entropy_weight is 'high'"),
    ({"kl_weight": -1}, "PPOAlgorithm.kl_weight is -1"),
    ({"target_kl": 0}, "PPOAlgorithm.target_kl is 0"),
    ({"exploration": "none"}, "PPOAlgorithm.exploration is 'none'"),
    ({"action_spec": CONTINUOUS, "exploration": "symmetric_kl"}, "exists only for integer actions"),
    ({"use_vtrace": 1}, "PPOAlgorithm.use_vtrace is 1"),
    ({"clip_rho_threshold": 0}, "PPOAlgorithm.clip_rho_threshold is 0"),
    ({"clip_c_threshold": "low"}, "PPOAlgorithm.clip_c_threshold is 'low'"),
    ({"clip_c_threshold": 1.5}, "clip_c_threshold is 1.5: .* PPOAlgorithm.clip_rho_threshold, .* 1.0"),
    ({"target_update_period": 0}, "target_update_period is 0"),
    ({"clip_target_ratio": 0}, "PPOAlgorithm.clip_target_ratio is 0"),
    ({"max_policy_lag": -1}, "max_policy_lag is -1"),
    ({"num_epochs": 0}, "num_epochs is 0"),
    ({"num_minibatches": 1.5}, "num_minibatches is 1.5"),
)


@pytest.fixture(scope="module")
def policies():
    """A policy of choices and one of a box: none of the settings below belongs to them."""
    return [ActorCriticPolicy(OBSERVATION, action_spec) for action_spec in (DISCRETE, CONTINUOUS)]


def test_settings_are_checked(policies, subtests):
    def make(action_spec=DISCRETE, **kwargs):
        policy = policies[action_spec is CONTINUOUS]
        if kwargs.keys() <= {"max_policy_lag", "num_epochs", "num_minibatches"}:
            return make_learner(PPOAlgorithm(policy), **kwargs)
        return PPOAlgorithm(policy, **kwargs)

    for kwargs, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            make(**kwargs)


NUMBERS = (
    "discount",
    "lambda_",
    "clip_rho_threshold",
    "clip_c_threshold",
    "clip_range",
    "value_clip_range",
    "value_loss_weight",
    "entropy_weight",
    "kl_weight",
    "target_kl",
    "clip_target_ratio",
)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_finite_and_not_negative(name, policies):
    for value in (float("nan"), float("inf"), -1.0, True):
        with pytest.raises(ConfigError, match=f"^PPOAlgorithm.{name} is {value}: it must be a number"):
            PPOAlgorithm(policies[0], **{name: value})


def make_recurrent_policy(specs, rnn, compute_dtype="float32"):
    network = functools.partial(
        ActorCriticNetwork,
        fc_layer_params=(16,),
        rnn=functools.partial(rnn, units=8),
        compute_dtype=compute_dtype,
        seed=0,
    )
    return ActorCriticPolicy(specs.observation, specs.action, network)


def test_an_unroll_is_evaluated_with_the_state_that_acted_in_it():
    env = remembering_env(8)
    policy = make_recurrent_policy(EnvSpecs([env]), LSTM)
    for variable in policy.variables:
        if variable.dtype.is_floating:
            variable.assign(3.0 * variable)
    learner = make_learner(PPOAlgorithm(policy))
    driver = build_driver(SyncOffPolicyDriver, [env], learner, unroll_length=4)
    try:
        driver.start()
        for _ in range(2):  # the second one begins inside an episode
            experience = driver.get_training_exps()
    finally:
        driver.stop()
    (batch, prepared), _ = learner._update.prepare(merge_unrolls(experience))
    params = policy.unroll(batch).params
    np.testing.assert_allclose(params[:-1], prepared.proximal[:-1], rtol=1e-4, atol=1e-5)
    other = policy.unroll(batch._replace(state=tf.nest.map_structure(tf.zeros_like, batch.state))).params
    assert np.abs(other[0] - params[0]).max() > 1e-3, "the state matters"


@pytest.mark.parametrize("rnn, compute_dtype", [(LSTM, "float32"), (GRU, "bfloat16")])
def test_learns_to_remember(rnn, compute_dtype):
    def make_learner(specs):
        policy = make_recurrent_policy(specs, rnn, compute_dtype)
        # Where nearly all returns are equal, normalized advantages are noise that makes policies forget.
        algorithm = PPOAlgorithm(policy, normalize_advantages=False)
        optimizer = optimizers.Adam(1e-2, epsilon=1e-5)
        return build_learner(algorithm, optimizer, num_epochs=2, num_minibatches=2, max_grad_norm=0.5)

    learner, _ = train(remembering_env(64), make_learner, 4, 30 * 4)
    check_memory(learner.policy)
