# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learner: one update against NumPy, divergence, policy lag, counters, traces and state."""

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.data_structures import FIRST, LAST, MID, Experience, LossInfo, PolicyState, PolicyStep
from alf.errors import ConfigError, DivergedError
from alf.learner import Learner
from alf.policies import Policy
from alf.replay import make_replayer

LEGACY = tf.keras.optimizers.legacy
SPEC = tf.TensorSpec((), tf.float32)


class EchoPolicy(Policy):
    """Its action is the observation."""

    def __init__(self):
        super().__init__(SPEC, SPEC)

    def rollout_step(self, time_step, state):
        return PolicyStep(time_step.observation, state)


class Quadratic(Algorithm):
    """Minimises `sum(reward) * |weights|^2 / 2`: the gradient is `sum(reward) * weights`."""

    def __init__(self):
        super().__init__(EchoPolicy())
        self.weights = tf.Variable([3.0, 4.0])
        self.unused = tf.Variable(7.0)
        self.updates_seen = tf.Variable(0, trainable=False)
        self.iterations_seen = []

    def train_step(self, experience, state):
        return tf.reduce_sum(experience.reward)

    def calc_loss(self, experience, train_info):
        half_square = tf.reduce_sum(self.weights**2) / 2
        return LossInfo(train_info * half_square, {"half_square": half_square})

    def after_update(self, experience, train_info):
        self.updates_seen.assign_add(1)

    def after_train_iter(self, experience):
        self.iterations_seen.append(experience)


class InfiniteGradient(Quadratic):
    def calc_loss(self, experience, train_info):
        return LossInfo(tf.reduce_sum(tf.sqrt(self.weights - [3.0, 4.0])))


def make_experience(reward=1.0, q=1, t=1, b=1, observation=0.0, version=0):
    """An `Experience` [Q, T+1, B] whose rewards sum to `reward`."""
    shape = (q, t + 1, b)
    zeros = tf.zeros(shape)
    rewards = np.zeros(shape, np.float32)
    rewards[0, 0, 0] = reward
    return Experience(
        step_type=tf.fill(shape, MID),
        reward=tf.constant(rewards),
        discount=zeros + 1,
        observation=zeros + observation,
        prev_action=zeros,
        env_id=tf.zeros(shape, tf.int32),
        action=zeros,
        info=(),
        policy_version=tf.fill(shape, tf.constant(version, tf.int64)),
        state=PolicyState(),
    )


def make_learner(cls=Quadratic, optimizer=None, **kwargs):
    return Learner(cls(), optimizer or LEGACY.SGD(1.0), **kwargs)


def train(learner, **kwargs):
    learner.observe(make_experience(**kwargs))
    return {name: float(value) for name, value in learner.train().items()}


@pytest.mark.parametrize(
    "max_grad_norm, scale",
    [(None, 1.0), (1e9, 1.0), (10.0, 1.0), (5.0, 0.5), (0.1, 0.01)],
)
def test_gradient_is_limited_by_its_global_norm(max_grad_norm, scale):
    # With reward 2 the gradient is (6, 8), of norm 10.
    learner = make_learner(optimizer=LEGACY.SGD(0.1), max_grad_norm=max_grad_norm)
    summary = train(learner, reward=2.0)
    np.testing.assert_allclose(summary["gradient_norm"], 10.0, rtol=1e-6)
    expected = np.array([3.0, 4.0]) - 0.1 * scale * np.array([6.0, 8.0])
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), expected, rtol=1e-6)
    assert learner.algorithm.unused.numpy() == 7.0


def test_global_norm_spans_all_variables():
    class Two(Quadratic):
        def calc_loss(self, experience, train_info):
            return LossInfo(tf.reduce_sum(self.weights * [2.0, 3.0]) + 6.0 * self.unused)

    learner = make_learner(Two, max_grad_norm=3.5)
    summary = train(learner)
    np.testing.assert_allclose(summary["gradient_norm"], 7.0, rtol=1e-6)
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), [3 - 1.0, 4 - 1.5], rtol=1e-6)
    np.testing.assert_allclose(learner.algorithm.unused.numpy(), 7 - 3.0, rtol=1e-6)


def test_train_says_what_it_did():
    schedule = tf.keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.5, 0.25])
    learner = make_learner(optimizer=LEGACY.Adam(schedule))
    summary = train(learner, reward=2.0, version=0)
    assert summary == {
        "loss": 25.0,
        "half_square": 12.5,
        "gradient_norm": 10.0,
        "learning_rate": 0.5,
        "policy_lag_min": 0.0,
        "policy_lag_mean": 0.0,
        "policy_lag_max": 0.0,
    }
    assert train(learner)["learning_rate"] == 0.25, "of the update, not of the next one"
    assert learner.train_step_counter.numpy() == 2
    assert learner.algorithm.updates_seen.numpy() == 2
    assert [e.reward.shape for e in learner.algorithm.iterations_seen] == [(1, 2, 1)] * 2


def test_one_counter_may_be_shared():
    counter = tf.Variable(5, dtype=tf.int64)
    learner = make_learner(train_step_counter=counter)
    learner.progress.updates.assign(5)
    assert train(learner, version=3)["policy_lag_mean"] == 2.0
    assert counter.numpy() == learner.train_step_counter.numpy() == 6


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    "cls, kwargs, cause",
    [
        (Quadratic, {"reward": np.nan}, "because the environment's reward is not"),
        (Quadratic, {"reward": np.inf}, "because the environment's reward is not"),
        (Quadratic, {"reward": 1e38}, "after 1 updates: lower the optimizer's learning_rate"),
        (InfiniteGradient, {}, "max_grad_norm"),
    ],
)
def test_what_is_not_finite_changes_nothing(cls, kwargs, cause, jit_compile):
    learner = make_learner(optimizer=LEGACY.Adam(0.5), max_grad_norm=1.0, jit_compile=jit_compile)
    if cls is Quadratic:
        train(learner)
    else:
        learner = make_learner(cls, optimizer=LEGACY.Adam(0.5), jit_compile=jit_compile)
        (optimizer,) = learner._optimizer._optimizers.values()
        optimizer._create_all_weights(learner.algorithm.trainable_variables)
    (optimizer,) = learner._optimizer._optimizers.values()
    variables = [*learner.variables, *optimizer.variables()]
    assert len(variables) > len(learner.variables)
    before = [v.numpy() for v in variables]
    with pytest.raises(DivergedError, match=cause):
        train(learner, **kwargs)
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.name)


def test_observation_that_is_not_finite_is_named():
    class Observing(Quadratic):
        def train_step(self, experience, state):
            return tf.reduce_sum(experience.observation)

    with pytest.raises(DivergedError, match="because the environment's observation is not"):
        train(make_learner(Observing), observation=np.nan)


def test_training_goes_on_after_a_batch_that_diverged():
    learner = make_learner(optimizer=LEGACY.SGD(0.1))
    with pytest.raises(DivergedError):
        train(learner, reward=np.nan)
    train(learner, reward=1.0)
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), [2.7, 3.6], rtol=1e-6)
    assert learner.train_step_counter.numpy() == 1


def test_other_errors_of_the_graph_pass_through():
    class Broken(Quadratic):
        def train_step(self, experience, state):
            with tf.control_dependencies([tf.debugging.Assert(tf.constant(False), ["mine"])]):
                return tf.reduce_sum(experience.reward)

    with pytest.raises(tf.errors.InvalidArgumentError, match="mine"):
        train(make_learner(Broken))


def test_what_is_observed_is_trained_on_once_and_together():
    learner = make_learner(optimizer=LEGACY.SGD(0.01))
    learner.observe(make_experience(reward=1.0))
    learner.observe(make_experience(reward=2.0, q=2))
    assert float(learner.train()["loss"]) == 3.0 * 12.5
    with pytest.raises(RuntimeError, match="observe"):
        learner.train()
    with pytest.raises(ConfigError, match="'nope'.*one_time"):
        make_replayer("nope", None, num_envs=1)


def test_one_trace_serves_all_updates():
    learner = make_learner(optimizer=LEGACY.SGD(0.01))
    train(learner, q=2, t=3, b=2)
    traces = learner._training._train_on.experimental_get_tracing_count()
    assert traces <= 2, "one that makes the optimizer's slots, one that uses them"
    for _ in range(4):
        train(learner, q=2, t=3, b=2)
    assert learner._training._train_on.experimental_get_tracing_count() == traces


@pytest.mark.parametrize("norm", [0, -1.0])
def test_max_grad_norm_is_checked(norm):
    with pytest.raises(ConfigError, match=f"max_grad_norm is {norm}"):
        make_learner(max_grad_norm=norm)


# [T+1, B]: the bootstrap row and the rows that begin at LAST are no transitions.
STEP_TYPES = [[FIRST, MID], [LAST, MID], [FIRST, MID], [MID, LAST]]
VERSIONS = [[7, 9], [-50, 9], [8, 10], [-90, -90]]
UPDATES = 10


class Weighted(Quadratic):
    """The loss is the sum of the transitions' weights, which it keeps."""

    def __init__(self):
        super().__init__()
        self.progress.updates.assign(UPDATES)
        self.seen = tf.Variable(tf.zeros((4, 2)), trainable=False)

    def train_step(self, experience, state):
        return self.seen.assign(experience.weight)

    def calc_loss(self, experience, train_info):
        return LossInfo(tf.reduce_sum(train_info) + 0.0 * tf.reduce_sum(self.weights))


def train_on_versions(learner):
    experience = make_experience(t=3, b=2)._replace(
        step_type=tf.constant([STEP_TYPES]), policy_version=tf.constant([VERSIONS], tf.int64)
    )
    learner.observe(experience)
    return {name: float(value) for name, value in learner.train().items()}


def test_policy_lag_counts_the_rows_that_train():
    learner = make_learner(Weighted)
    summary = train_on_versions(learner)
    assert {k: v for k, v in summary.items() if "lag" in k} == {
        "policy_lag_min": 0.0,
        "policy_lag_mean": pytest.approx((3 + 1 + 1 + 2 + 0) / 5),
        "policy_lag_max": 3.0,
    }
    np.testing.assert_array_equal(learner.algorithm.seen, [[1, 1], [0, 1], [1, 1], [0, 0]])
    assert "dropped_steps" not in summary


@pytest.mark.parametrize(
    "max_policy_lag, weight, dropped",
    [
        (3, [[1, 1], [0, 1], [1, 1], [0, 0]], 0),
        (1, [[0, 1], [0, 1], [0, 1], [0, 0]], 2),
        (0, [[0, 0], [0, 0], [0, 1], [0, 0]], 4),
    ],
)
def test_steps_of_too_old_policies_are_dropped_and_counted(max_policy_lag, weight, dropped):
    learner = make_learner(Weighted, max_policy_lag=max_policy_lag)
    summary = train_on_versions(learner)
    np.testing.assert_array_equal(learner.algorithm.seen, weight)
    assert summary["dropped_steps"] == dropped
    assert learner.dropped_steps.numpy() == dropped
    # One update later they are one update older.
    assert train_on_versions(learner)["dropped_steps"] >= dropped + (max_policy_lag < 3)


class TwoGroups(Quadratic):
    def parameter_groups(self):
        return {"slow": [self.weights], "fast": [self.unused]}

    def calc_loss(self, experience, train_info):
        return LossInfo(tf.reduce_sum(self.weights * [3.0, 4.0]) + 12.0 * self.unused)


def test_each_optimizer_has_its_variables_and_its_own_limit():
    optimizers = {"slow": LEGACY.SGD(0.1), "fast": LEGACY.SGD(1.0)}
    learner = make_learner(TwoGroups, optimizers, max_grad_norm=10.0)
    summary = train(learner)
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), [3 - 0.3, 4 - 0.4], rtol=1e-6)
    np.testing.assert_allclose(learner.algorithm.unused.numpy(), 7 - 10.0, rtol=1e-6)
    assert summary["gradient_norm"] == pytest.approx(13.0)
    assert summary["learning_rate_slow"] == pytest.approx(0.1)
    assert summary["learning_rate_fast"] == 1.0
