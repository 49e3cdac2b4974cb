# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ImpalaAlgorithm: its loss and gradients against literal formulas, its steps, its checks, what it learns."""

import re
from functools import partial

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm, PPOAlgorithm
from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST, LAST, MID, EnvStep, Experience, PolicyState, TimeStep
from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.environments import ArraySpec, BatchedEnvironment, BoundedArraySpec
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.learner.minibatches import merge_unrolls
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.policies.action_distributions import ActionInfo, make_action_distribution
from alf.policies.actor_critic_policy import ActorCriticInfo
from tests.algorithms.literal_returns import literal_n_step, literal_vtrace
from tests.builders import build_driver, build_learner, collect_and_observe

OBSERVATION = tf.TensorSpec((4,), tf.float32)
DISCRETE = BoundedTensorSpec((), tf.int64, 0, 2)
CONTINUOUS = BoundedTensorSpec((2,), tf.float32, -1.0, 1.0)
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
    "clip_c_threshold": 0.8,
    "value_loss_weight": 0.7,
    "entropy_weight": 0.05,
}


def make_algorithm(action_spec=DISCRETE, **kwargs):
    return ImpalaAlgorithm(ActorCriticPolicy(OBSERVATION, action_spec), **kwargs)


def make_batch(action_spec, seed=0):
    """Returns a time-major `Experience` and an `ActorCriticInfo` of another policy, as NumPy arrays."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=(T + 1, B, *shape)).astype(np.float32)

    def params():
        if action_spec is DISCRETE:
            return normal(3)
        return normal(2), 0.3 * normal(2)

    raw = rng.integers(0, 3, (T + 1, B)) if action_spec is DISCRETE else normal(2)
    action = np.zeros_like(raw)  # nobody learns from it
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
        info=ActionInfo(params(), raw),
        policy_version=np.zeros((T + 1, B), np.int64),
        weight=np.pad((STEP_TYPE[1:] != FIRST) * np.float32(1), [(0, 1), (0, 0)]),
    )
    return experience, ActorCriticInfo(params(), normal())


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


def literal_loss(action_spec, experience, info, settings):
    """Returns the parts of the loss, and targets, advantages and valid, [T, B], in float64."""
    first_rows = lambda x: tf.nest.map_structure(lambda y: y[:-1].astype(np.float64), x)  # noqa: E731
    raw = experience.info.raw[:-1]
    log_p, entropy = log_prob_and_entropy(action_spec, first_rows(info.params), raw)
    log_b, _ = log_prob_and_entropy(action_spec, first_rows(experience.info.params), raw)
    last = experience.step_type == LAST
    rho = np.exp(log_p - log_b)
    thresholds = {k: settings[k] for k in ("clip_rho_threshold", "clip_c_threshold")}
    target, advantage = literal_vtrace(
        rho,
        info.value.astype(np.float64),
        experience.reward[1:].astype(np.float64),
        settings["discount"] * experience.discount[1:].astype(np.float64),
        last,
        settings["vtrace_lambda"],
        **thresholds,
    )
    advantage = np.minimum(settings["clip_pg_rho_threshold"], rho) * advantage
    valid = ~last[:-1]
    parts = {
        "policy_loss": -(advantage * log_p)[valid].mean(),
        "value_loss": 0.5 * ((target - info.value[:-1]) ** 2)[valid].mean(),
        "entropy": entropy[valid].mean(),
        "explained_variance": 1 - (target - info.value[:-1])[valid].var() / target[valid].var(),
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
def test_loss_is_the_literal_formula(action_spec, changes):
    settings = {**SETTINGS, **changes}
    experience, info = make_batch(action_spec)
    algorithm = make_algorithm(action_spec, **settings)
    to_tensors = lambda x: tf.nest.map_structure(tf.constant, x)  # noqa: E731
    loss = algorithm.calc_loss(to_tensors(experience), to_tensors(info))
    parts, _, _, valid = literal_loss(action_spec, experience, info, settings)
    assert valid.sum() == T * B - 3
    assert loss.extra.keys() == {*parts, "entropy_weight"}
    assert loss.extra["entropy_weight"] == np.float32(settings["entropy_weight"])
    for name, expected in parts.items():
        np.testing.assert_allclose(loss.extra[name], expected, rtol=2e-4, err_msg=name)
    expected = parts["policy_loss"] + 0.7 * parts["value_loss"] - 0.05 * parts["entropy"]
    np.testing.assert_allclose(loss.loss, expected, rtol=2e-4)


@pytest.mark.parametrize("action_spec, lambda_", [(DISCRETE, 0.0), (CONTINUOUS, 0.8), (DISCRETE, 1.0)])
def test_without_vtrace_the_returns_are_those_of_the_steps(action_spec, lambda_):
    experience, info = make_batch(action_spec)
    first = lambda x: tf.nest.map_structure(lambda y: y[:-1].astype(np.float64), x)  # noqa: E731
    log_p, _ = log_prob_and_entropy(action_spec, first(info.params), experience.info.raw[:-1])
    value = info.value.astype(np.float64)
    reward, discount = (x[1:].astype(np.float64) for x in (experience.reward, 0.9 * experience.discount))
    target = literal_n_step(value, reward, discount, STEP_TYPE == LAST, lambda_)
    valid = STEP_TYPE[:-1] != LAST
    error = (target - value[:-1])[valid]
    settings = dict(SETTINGS, vtrace=False, vtrace_lambda=lambda_, entropy_weight=0.0)
    batch = tf.nest.map_structure(tf.constant, (experience, info))
    loss = make_algorithm(action_spec, **settings).calc_loss(*batch)
    np.testing.assert_allclose(loss.extra["policy_loss"], -(error * log_p[valid]).mean(), rtol=2e-4)
    np.testing.assert_allclose(loss.extra["value_loss"], 0.5 * (error**2).mean(), rtol=2e-4)
    expected = -(error * log_p[valid]).mean() + 0.7 * 0.5 * (error**2).mean()
    np.testing.assert_allclose(loss.loss, expected, rtol=2e-4)
    corrected = make_algorithm(action_spec, **{**settings, "vtrace": True}).calc_loss(*batch)
    assert np.abs(expected - corrected.loss) > 0.01


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
    score = np.eye(3)[experience.info.raw] - np.exp(log_softmax(info.params.astype(np.float64)))
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
        info=ActionInfo(
            np.where(last[..., np.newaxis], 9.0, experience.info.params).astype(np.float32),
            np.where(last, 0, experience.info.raw),
        ),
        # The reward that arrives at FIRST belongs to no transition.
        reward=np.where(STEP_TYPE == FIRST, 1e6, experience.reward).astype(np.float32),
    )
    algorithm = make_algorithm(**SETTINGS)
    losses = [
        float(algorithm.calc_loss(tf.nest.map_structure(tf.constant, e), info).loss)
        for e in (experience, changed)
    ]
    assert losses[0] == losses[1]


def test_the_weight_of_a_transition_is_that_of_its_loss():
    experience, info = make_batch(DISCRETE)
    weight = experience.weight * np.random.default_rng(1).uniform(0.5, 2.0, (T + 1, B)).astype(np.float32)
    weight[1, 1] = 0.0
    _, target, advantage, _ = literal_loss(DISCRETE, experience, info, SETTINGS)
    loss = make_algorithm(**SETTINGS).calc_loss(
        *tf.nest.map_structure(tf.constant, (experience._replace(weight=weight), info))
    )
    weight = weight[:-1]
    expected = np.sum(weight * 0.5 * (target - info.value[:-1]) ** 2) / np.count_nonzero(weight)
    np.testing.assert_allclose(loss.extra["value_loss"], expected, rtol=2e-4)


def test_drop_last_ts_leaves_the_last_transition_of_each_unroll_out():
    experience, info = tf.nest.map_structure(tf.constant, make_batch(DISCRETE))
    weight = experience.weight.numpy()
    weight[T - 1] = 0.0
    expected = make_algorithm(**SETTINGS).calc_loss(experience._replace(weight=tf.constant(weight)), info)
    loss = make_algorithm(**SETTINGS, drop_last_ts=True).calc_loss(experience, info)
    whole = make_algorithm(**SETTINGS).calc_loss(experience, info)
    assert loss.loss == expected.loss != whole.loss
    short = tf.nest.map_structure(lambda x: x[:2], (experience, info))
    with pytest.raises(ConfigError, match="drop_last_ts leaves nothing"):
        make_algorithm(**SETTINGS, drop_last_ts=True).calc_loss(*short)


@pytest.mark.parametrize("cls", [ImpalaAlgorithm, PPOAlgorithm])
def test_policy_and_value_are_groups_unless_they_share_layers(cls):
    def make_groups(share_layers):
        network = partial(ActorCriticNetwork, share_layers=share_layers)
        algorithm = cls(ActorCriticPolicy(OBSERVATION, DISCRETE, network))
        return algorithm.trainable_variables, algorithm.parameter_groups()

    variables, groups = make_groups(share_layers=False)
    assert len(groups["policy"]) == len(groups["value"]) == len(variables) / 2
    assert {id(v) for group in groups.values() for v in group} == {id(v) for v in variables}
    variables, groups = make_groups(share_layers=True)
    assert {id(v) for v in groups["policy"]} == {id(v) for v in variables} and "value" not in groups


def test_a_separate_optimizer_for_the_value():
    def make(share_layers):
        network = partial(ActorCriticNetwork, share_layers=share_layers)
        algorithm = ImpalaAlgorithm(ActorCriticPolicy(OBSERVATION, DISCRETE, network))
        policy, value = (optimizers.SGD(rate) for rate in (0.0, 0.1))
        return build_learner(algorithm, {"policy": policy, "value": value})

    learner = make(share_layers=False)
    algorithm = learner.algorithm
    before = [v.numpy() for v in algorithm.trainable_variables]
    experience, _ = make_batch(DISCRETE)
    add_q = lambda x: tf.constant(x)[tf.newaxis]  # noqa: E731
    learner.observe(tf.nest.map_structure(add_q, experience._replace(weight=())))
    summary = learner.train()
    assert summary["learning_rate_value"] == np.float32(0.1) and summary["learning_rate_policy"] == 0.0
    of_value = {id(v) for v in algorithm.parameter_groups()["value"]}
    for variable, old in zip(algorithm.trainable_variables, before, strict=True):
        assert np.any(variable.numpy() != old) == (id(variable) in of_value), variable.name
    with pytest.raises(
        ConfigError, match="Where policy and value share their layers, there is no group 'value'"
    ):
        make(share_layers=True)


def time_step(rows=5):
    rng = np.random.default_rng(0)
    observation = tf.constant(rng.normal(size=(rows, 4)), tf.float32)
    zeros = tf.zeros((rows,))
    index = tf.zeros((rows,), tf.int32)
    return TimeStep(index + 1, zeros, zeros + 1, observation, zeros, index)


def test_train_step_evaluates_every_row():
    algorithm = make_algorithm()
    experience, _ = make_batch(DISCRETE)
    info = algorithm.train_step(tf.nest.map_structure(tf.constant, experience), ())
    assert info.params.shape == (T + 1, B, 3) and info.value.shape == (T + 1, B)
    rows = time_step()._replace(observation=tf.constant(experience.observation[3]))
    row = algorithm.policy.rollout_step(rows, PolicyState())
    np.testing.assert_allclose(info.params[3], row.info.params, rtol=1e-5, atol=1e-7)


WRONG = (
    ("discount", -0.1),
    ("discount", 1.1),
    ("vtrace_lambda", -0.1),
    ("vtrace_lambda", 1.1),
    ("clip_rho_threshold", 0),
    ("clip_pg_rho_threshold", -1.0),
    ("clip_c_threshold", 0.0),
    ("clip_c_threshold", 1.5),  # more than clip_rho_threshold
    ("vtrace", 1),
    ("value_loss_weight", -0.5),
    ("entropy_weight", "high"),
    ("entropy_weight", -1),
)


@pytest.fixture(scope="module")
def policy():
    return ActorCriticPolicy(OBSERVATION, DISCRETE)


def test_settings_are_checked(policy, subtests):
    for name, value in WRONG:
        message = rf"ImpalaAlgorithm\.{name} is {re.escape(repr(value))}"
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            ImpalaAlgorithm(policy, **{name: value})
    for optimizer, shown in (("adam", ": .* is 'adam': Keras has"), (optimizers.Adam, " is .*Adam.*: it")):
        with subtests.test(shown), pytest.raises(ConfigError, match=rf"Learner\.optimizer{shown}"):
            build_learner(ImpalaAlgorithm(policy), optimizer)


NUMBERS = (
    "discount",
    "vtrace_lambda",
    "clip_rho_threshold",
    "clip_c_threshold",
    "clip_pg_rho_threshold",
    "value_loss_weight",
    "entropy_weight",
)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_finite_and_not_negative(name, policy):
    for value in (float("nan"), float("inf"), -1.0, True):
        with pytest.raises(ConfigError, match=f"^ImpalaAlgorithm.{name} is {value}: it must be a number"):
            ImpalaAlgorithm(policy, **{name: value})


def test_gin_configures_it():
    gin.parse_config(
        "UnrollLearner.optimizer = @SGD()\nSGD.learning_rate = 0.5\nImpalaAlgorithm.discount = 0.5\n"
        "ActorCriticNetwork.share_layers = False\nActorCriticNetwork.fc_layer_params = (8,)"
    )
    algorithm = ImpalaAlgorithm(ActorCriticPolicy(OBSERVATION, DISCRETE))
    assert build_learner(algorithm)._optimizer.learning_rates() == {"learning_rate": 0.5}
    assert algorithm._discount(algorithm.progress) == 0.5
    assert len(algorithm.trainable_variables) == 8


# Every kind of action, with environments, drivers and updates.


class Bandit(BatchedEnvironment):
    """Asks for three integers, a move of two numbers and the best of the allowed buttons, all at once.

    Episodes have one step and terminate; a final observation is zeros.
    """

    LOW, SIZES = np.array([0, 1, -1]), np.array([2, 3, 4])

    def __init__(self, batch_size=256):
        vector = ArraySpec((9 + 2 + 5,), np.float32)
        mask = {"button": BoundedArraySpec((5,), np.int8, 0, 1)}
        action_spec = {
            "button": BoundedArraySpec((), np.int64, 1, 5),
            "keys": BoundedArraySpec((3,), np.int32, self.LOW, self.LOW + self.SIZES - 1),
            "move": BoundedArraySpec((2,), np.float64, 1.0, 5.0),
        }
        super().__init__(batch_size, {"action_mask": mask, "observation": vector}, action_spec)
        self._rng = np.random.default_rng(0)

    def observe(self, rng, rows):
        keys = [np.eye(n)[rng.integers(n, size=rows)] for n in self.SIZES]
        worth = rng.uniform(-1, 1, (rows, 5))
        seen = np.concatenate([*keys, rng.uniform(-1, 1, (rows, 2)), worth], axis=1)
        mask = rng.integers(0, 2, (rows, 5)) | np.eye(5, dtype=np.int64)[rng.integers(5, size=rows)]
        return {"action_mask": {"button": mask.astype(np.int8)}, "observation": seen.astype(np.float32)}

    def pay(self, observation, action):
        """What each part of the action earns, a dict of [rows]; at best 1."""
        keys, move, worth = np.split(observation["observation"], [9, 11], axis=1)
        mask, rows = observation["action_mask"]["button"], np.arange(len(keys))
        target = np.stack([x.argmax(axis=1) for x in np.split(keys, [2, 5], axis=1)], axis=1)
        assert np.all(mask[rows, action["button"] - 1] == 1), "a forbidden action was taken"
        assert {name: x.dtype for name, x in action.items()} == {
            name: spec.dtype for name, spec in self.action_spec().items()
        }
        best = np.where(mask == 1, worth, -1).max(axis=1)
        return {
            "button": 1 + worth[rows, action["button"] - 1] - best,
            "keys": (action["keys"] - self.LOW == target).mean(axis=1),
            "move": 1 - 4 * np.square((action["move"] - 3) / 2 - 0.75 * move).mean(axis=1),
        }

    def _reset(self):
        self._seen = self.observe(self._rng, self.batch_size)
        return self._time_step(FIRST, np.zeros(self.batch_size), self._seen)

    def _step(self, action):
        if self._seen is None:
            return self._reset()
        seen, self._seen = self._seen, None
        reward = sum(self.pay(seen, action).values())
        return self._time_step(LAST, reward, tf.nest.map_structure(np.zeros_like, seen))

    def _time_step(self, step_type, reward, observation):
        rows = self.batch_size
        discount = np.full(rows, step_type == FIRST, np.float32)
        return EnvStep(np.full(rows, step_type, np.int32), reward.astype(np.float32), discount, observation)


def make_for(env, action_distribution):
    """A learner with a small network."""
    specs = EnvSpecs([env])
    network = partial(ActorCriticNetwork, fc_layer_params=(32,), seed=0)
    policy = ActorCriticPolicy(
        specs.observation, specs.action, network, action_distribution, action_mask_key="action_mask"
    )
    algorithm = ImpalaAlgorithm(policy, entropy_weight=0.001)
    return build_learner(algorithm, optimizers.Adam(0.01), max_grad_norm=0.5)


def greedy_rewards(policy, env):
    """The average of each part in 1000 rows."""
    seen = env.observe(np.random.default_rng(1), 1000)
    rows = time_step(1000)._replace(observation=tf.nest.map_structure(tf.constant, seen))
    action = policy.predict_step(rows, PolicyState()).action
    pay = env.pay(seen, tf.nest.map_structure(lambda x: x.numpy(), action))
    return {name: x.mean() for name, x in pay.items()}


BOXES = {
    "squashed": partial(
        make_action_distribution, continuous="tanh_gaussian", std="shared", init_log_std=-0.5
    ),
    "beta": partial(make_action_distribution, continuous="beta"),
    "scaled": partial(make_action_distribution, scale_to_bounds=True, init_log_std=-1.0),
}


@pytest.mark.parametrize("box", BOXES)
def test_learns_every_kind_of_action_and_is_on_policy_before(box):
    tf.random.set_seed(0)
    env = Bandit()
    learner = make_for(env, BOXES[box])
    driver = build_driver(SyncOffPolicyDriver, [env], learner, unroll_length=4)
    before = greedy_rewards(learner.policy, env)
    try:
        driver.start()
        check_ratio_is_1(learner, merge_unrolls(driver.get_training_exps()))
        for _ in range(80):
            collect_and_observe(driver)
            learner.train()
    finally:
        driver.stop()
    after = greedy_rewards(learner.policy, env)
    for name in after:
        assert before[name] < 0.7 and after[name] > 0.85, (before, after)
    for variable in learner.policy.actions.trainable_variables:
        assert np.all(variable < -0.6), "the shared deviation was not trained"


def check_ratio_is_1(learner, experience):
    """Checks that the learner's distributions are those that the actions were drawn from, masks included."""
    train_info = learner.algorithm.train_step(experience, ())
    # Row T is not answered yet.
    experience, train_info = tf.nest.map_structure(
        lambda x: x[:-1], (experience._replace(state=()), train_info)
    )
    info = experience.info
    log_probs = (learner.policy.actions.log_prob(p, info.raw) for p in (train_info.params, info.params))
    np.testing.assert_allclose(*log_probs, rtol=1e-5, atol=1e-5)
    for x, y in zip(tf.nest.flatten(train_info.params), tf.nest.flatten(info.params), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    mask = experience.observation["action_mask"]["button"].numpy()
    allowed = np.where(mask.any(axis=-1, keepdims=True), mask, 1)
    assert 0.3 < allowed.mean() < 0.9
    for params in (train_info.params, info.params):
        np.testing.assert_array_equal(tf.nn.softmax(params["button"]) > 0, allowed == 1)
