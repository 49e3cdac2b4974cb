# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learner: one update against NumPy, divergence, policy lag, counters, traces and state."""

import contextlib
import functools
import gc
import json
import weakref

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from alf.algorithms import Algorithm
from alf.core.devices import list_devices
from alf.core.tf_runtime import single_threaded
from alf.data_structures import FIRST, LAST, MID, NO_VERSION, Experience, LossInfo, PolicyState, PolicyStep
from alf.errors import ConfigError, DivergedError, EnvError
from alf.learner import ReplayLearner, optimizers
from alf.policies import Policy
from alf.replay import MixInReplayer, PrioritizedReplayer, UniformReplayer, make_replayer
from alf.schedules import Schedule
from tests.builders import build_learner

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

    def train_step(self, experience, prepared):
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
    return build_learner(cls(), optimizer or optimizers.SGD(1.0), **kwargs)


def train(learner, **kwargs):
    learner.observe(make_experience(**kwargs))
    return {name: float(value) for name, value in learner.train().items()}


@pytest.mark.parametrize(
    "max_grad_norm, scale",
    [(None, 1.0), (10.0, 1.0), (5.0, 0.5)],
)
def test_the_gradient_is_limited_by_its_global_norm(max_grad_norm, scale):
    # With reward 2 the gradient is (6, 8), of norm 10.
    learner = make_learner(optimizer=optimizers.SGD(0.1), max_grad_norm=max_grad_norm)
    summary = train(learner, reward=2.0)
    np.testing.assert_allclose(summary["gradient_norm"], 10.0, rtol=1e-6)
    expected = np.array([3.0, 4.0]) - 0.1 * scale * np.array([6.0, 8.0])
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), expected, rtol=1e-6)
    assert learner.algorithm.unused.numpy() == 7.0


def test_the_global_norm_spans_all_variables():
    class Two(Quadratic):
        def calc_loss(self, experience, train_info):
            return LossInfo(tf.reduce_sum(self.weights * [2.0, 3.0]) + 6.0 * self.unused)

    learner = make_learner(Two, max_grad_norm=3.5)
    summary = train(learner)
    np.testing.assert_allclose(summary["gradient_norm"], 7.0, rtol=1e-6)
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), [3 - 1.0, 4 - 1.5], rtol=1e-6)
    np.testing.assert_allclose(learner.algorithm.unused.numpy(), 7 - 3.0, rtol=1e-6)


def test_train_returns_the_figures_of_its_updates():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [0.5, 0.25])
    learner = make_learner(optimizer=keras.optimizers.Adam(schedule))
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


class Summarizing(Quadratic):
    """Shows what its hooks were given."""

    def summarize_rollout(self, experience):
        return {"rollout_reward": tf.reduce_sum(experience.reward), "length": experience.reward.shape[1]}

    def summarize_train(self, experience, train_info, loss_info):
        squares = tf.reduce_sum(self.weights**2)  # before the update
        return {"given": train_info, "twice": 2 * loss_info.loss, "squares": squares}


def test_hooks_add_scalars_to_the_summary():
    learner = make_learner(Summarizing, optimizers.SGD(0.1), num_epochs=2)
    summary = train(learner, reward=2.0)
    # The weights are (3, 4), then 0.8 times that.
    np.testing.assert_allclose(summary["squares"], (25 + 0.64 * 25) / 2, rtol=1e-6)
    np.testing.assert_allclose(summary["twice"], 2 * summary["loss"], rtol=1e-6)
    assert summary["given"] == 2.0 and summary["rollout_reward"] == 2.0 and summary["length"] == 2.0
    assert train(learner, reward=5.0)["rollout_reward"] == 5.0


def test_without_the_hook_nothing_runs_for_a_rollout(monkeypatch):
    learner = make_learner()
    monkeypatch.setattr(learner, "_summarize_rollout", lambda experience: pytest.fail("it ran"))
    assert "loss" in train(learner)


WRONG_RESULTS = [
    ("summarize_rollout", None, "returned None: it must return a dict of scalars by name"),
    ("summarize_rollout", {"a": tf.zeros(2)}, "for 'a': it must return scalars by name"),
    # Known only where the summary of an update is there.
    ("summarize_rollout", {"loss": 1.0}, "returned the name 'loss', which another value has"),
    ("summarize_train", None, "returned None: it must return a dict of scalars by name"),
    ("summarize_train", {"a": tf.zeros(2)}, "for 'a': it must return scalars by name"),
    ("summarize_train", {"loss": 1.0}, "returned the name 'loss', which another value has"),
]


def test_a_hook_that_returns_something_else_is_named(subtests):
    for hook, result, message in WRONG_RESULTS:
        wrong = type("Wrong", (Quadratic,), {hook: lambda self, *args, result=result: result})
        with subtests.test(hook=hook, message=message):
            with pytest.raises(ConfigError, match=f"^{hook} .*{message}"):
                train(make_learner(wrong))


WRONG_LOSSES = [
    (None, "returned NoneType: it must return an alf.LossInfo"),
    (tf.constant(1.0), "returned EagerTensor: it must return an alf.LossInfo"),
    (LossInfo(None), "returned the loss None: it must be a float32 scalar"),
    (LossInfo(1.0), "returned the loss 1.0: it must be a float32 scalar, a tensor"),
    (LossInfo(tf.constant(1)), "the loss 1: it must be a float32 scalar"),
    (LossInfo(tf.zeros([3, 2])), r"returned a loss of shape \(3, 2\): it must be a scalar"),
    (LossInfo(tf.constant(0.0), {"loss": 1.0}), "the name 'loss', which another value has"),
    (LossInfo(tf.constant(0.0), {"gradient_norm": 1.0}), "the name 'gradient_norm', which another value has"),
    (LossInfo(tf.constant(0.0), {"a": tf.zeros(2)}), "for 'a': it must return scalars by name"),
]


def test_a_loss_that_is_none_is_named(subtests):
    for result, message in WRONG_LOSSES:
        wrong = type("Wrong", (Quadratic,), {"calc_loss": lambda self, *args, result=result: result})
        with subtests.test(message=message):
            with pytest.raises(ConfigError, match=f"calc_loss .*{message}"):
                train(make_learner(wrong))


def test_a_counter_of_the_users_own_counts_updates_too(tmp_path):
    counter = tf.Variable(7, dtype=tf.int64)
    learner = make_learner(train_step_counter=counter)
    learner.progress.updates.assign(5)
    assert train(learner, version=3)["policy_lag_mean"] == 2.0
    assert learner.train_step_counter == 6 and counter == 8
    path = tf.train.Checkpoint(learner).write(str(tmp_path / "saved"))
    other = make_learner(train_step_counter=tf.Variable(0, dtype=tf.int64))
    tf.train.Checkpoint(other).read(path)
    train(other)
    assert other.train_step_counter == 7 and counter == 8
    assert [int(v) for v in other.variables if v.dtype == tf.int64].count(9) == 1


def test_gin_sets_the_train_step_counter():
    counter = tf.Variable(0, dtype=tf.int64)
    with gin.unlock_config():
        gin.external_configurable(lambda: counter, "own_counter")
        gin.parse_config("LearnerSettings.train_step_counter = @own_counter()")
    try:
        train(make_learner())
    finally:
        gin.clear_config()
    assert counter == 1


def test_a_counter_that_cannot_count_updates_is_refused(subtests):
    kinds = {"a Variable": (5,), "int64 scalar": (tf.Variable(0), tf.Variable([0], dtype=tf.int64))}
    for kind, counters in kinds.items():
        for counter in counters:
            with subtests.test(counter=counter):
                with pytest.raises(ConfigError, match=f"LearnerSettings.train_step_counter is .* {kind}"):
                    make_learner(train_step_counter=counter)


def assert_changes_nothing(learner, error, cause, **kwargs):
    """Trains on a batch that must raise an error, and leave all variables as they are."""
    variables = learner.variables
    assert {*map(id, learner._optimizer.variables)} < {*map(id, variables)}
    before = [v.numpy() for v in variables]
    with pytest.raises(error, match=cause):
        train(learner, **kwargs)
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.name)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_batch_whose_loss_is_not_finite_changes_nothing(jit_compile, subtests):
    learner = make_learner(optimizer=optimizers.Adam(0.5), max_grad_norm=1.0, jit_compile=jit_compile)
    train(learner)
    by_reward = "because the reward in the experience is not"
    by_weights = "after 1 updates: lower the optimizer's learning_rate"
    for reward, error, cause in [
        (np.nan, EnvError, by_reward),
        (np.inf, EnvError, by_reward),
        (1e38, DivergedError, by_weights),
    ]:
        with subtests.test(reward=reward):
            assert_changes_nothing(learner, error, cause, reward=reward)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_gradient_that_is_not_finite_changes_nothing(jit_compile):
    learner = make_learner(InfiniteGradient, optimizer=optimizers.Adam(0.5), jit_compile=jit_compile)
    assert_changes_nothing(learner, DivergedError, "max_grad_norm")


class Log(Schedule):
    """The logarithm of a number that is below 0 after an update."""

    def at(self, count):
        return tf.math.log(0.5 - count)


def test_a_learning_rate_that_is_not_finite_is_named_and_changes_nothing():
    learner = make_learner(optimizer=optimizers.Adam(Log([1.0], "updates")))
    train(learner)
    assert_changes_nothing(learner, DivergedError, "^the learning_rate is not finite after 1 updates: ")


def sum_observation(experience):
    return tf.reduce_sum(experience.observation)


def fail(experience):
    with tf.control_dependencies([tf.debugging.Assert(tf.constant(False), ["mine"])]):
        return tf.reduce_sum(experience.reward)


FAILURES = [
    (sum_observation, EnvError, "because the observation in the experience is not"),
    (fail, tf.errors.InvalidArgumentError, "mine"),  # other errors of the graph pass through
]


@pytest.mark.parametrize("step, error, message", FAILURES)
def test_an_error_in_the_graph_is_named(step, error, message):
    class Failing(Quadratic):
        def train_step(self, experience, prepared):
            return step(experience)

    with pytest.raises(error, match=message):
        train(make_learner(Failing), observation=np.nan)


def test_training_goes_on_after_a_batch_that_diverged():
    learner = make_learner(optimizer=optimizers.SGD(0.1))
    with pytest.raises(DivergedError):
        train(learner, reward=3e38)
    train(learner, reward=1.0)
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), [2.7, 3.6], rtol=1e-6)
    assert learner.train_step_counter.numpy() == 1


def test_an_error_of_python_code_in_the_loss_comes_out():
    error = LookupError("x" * 100_000)

    def fail(x):
        raise error

    class Broken(Quadratic):
        def calc_loss(self, experience, train_info):
            loss = tf.py_function(fail, [tf.reduce_sum(self.weights)], tf.float32)
            return LossInfo(tf.ensure_shape(loss, ()))

    with pytest.raises(LookupError) as info:
        train(make_learner(Broken))
    assert info.value is error


def test_experience_is_trained_on_once_and_together():
    learner = make_learner(optimizer=optimizers.SGD(0.01))
    learner.observe(make_experience(reward=1.0))
    learner.observe(make_experience(reward=2.0, q=2))
    assert float(learner.train()["loss"]) == 3.0 * 12.5
    with pytest.raises(RuntimeError, match="observe"):
        learner.train()
    with pytest.raises(ConfigError, match="'nope'.*one_time"):
        make_replayer("nope", None, num_groups=1)


def test_one_trace_serves_all_updates():
    learner = make_learner(optimizer=optimizers.SGD(0.01))
    train(learner, q=2, t=3, b=2)
    traces = learner._graph.num_traces
    assert traces <= 2, "one that makes the optimizer's slots, one that uses them"
    for _ in range(4):
        train(learner, q=2, t=3, b=2)
    assert learner._graph.num_traces == traces


def test_max_grad_norm_is_checked(subtests):
    for norm in (0, -1.0):
        with subtests.test(norm=norm), pytest.raises(ConfigError, match=f"max_grad_norm is {norm}"):
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

    def train_step(self, experience, prepared):
        return self.seen.assign(experience.weight)

    def calc_loss(self, experience, train_info):
        return LossInfo(tf.reduce_sum(train_info) + 0.0 * tf.reduce_sum(self.weights))


def train_on_versions(learner, step_types=STEP_TYPES, versions=VERSIONS):
    experience = make_experience(t=3, b=2)._replace(
        step_type=tf.constant([step_types]), policy_version=tf.constant([versions], tf.int64)
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


def test_without_a_transition_the_policy_lag_is_that_of_all_rows():
    """Not NaN and infinity, as the mean, minimum and maximum of nothing would be."""
    learner = make_learner(Weighted, max_policy_lag=1)
    summary = train_on_versions(learner, np.full_like(STEP_TYPES, FIRST))
    assert all(np.isfinite(list(summary.values())))
    lags = UPDATES - np.array(VERSIONS[:-1])
    assert summary["policy_lag_min"] == lags.min() and summary["policy_lag_max"] == lags.max()
    assert summary["policy_lag_mean"] == pytest.approx(lags.mean())
    assert summary["dropped_fraction"] == 0


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


def test_steps_of_a_file_have_no_policy_lag_and_are_never_dropped():
    learner = make_learner(Weighted, max_policy_lag=0)
    mixed = [[NO_VERSION, version] for _, version in VERSIONS]
    summary = train_on_versions(learner, versions=mixed)
    np.testing.assert_array_equal(learner.algorithm.seen, [[1, 0], [0, 0], [1, 1], [0, 0]])
    assert summary["policy_lag_min"] == 0 and summary["policy_lag_max"] == 1
    assert summary["policy_lag_mean"] == pytest.approx((0 + 1 + 1 + 0 + 0) / 5)
    learner.progress.updates.assign(10**9)
    summary = train_on_versions(learner, versions=mixed)
    np.testing.assert_array_equal(learner.algorithm.seen, [[1, 0], [0, 0], [1, 0], [0, 0]])
    assert summary["policy_lag_min"] == 0 and summary["dropped_steps"] == 2 + 3


def test_a_limit_that_drops_most_steps_is_one_warning(caplog):
    def list_warnings():
        return [text for text in caplog.messages if "max_policy_lag" in text]

    for limit, dropped in ((3, 0.0), (0, 0.8)):
        learner = make_learner(Weighted, max_policy_lag=limit)
        for i in range(53):
            learner.progress.updates.assign(UPDATES)
            assert train_on_versions(learner)["dropped_fraction"] == pytest.approx(dropped)
            assert len(list_warnings()) == (limit == 0 and i >= 49)
    assert list_warnings() == [
        "LearnerSettings.max_policy_lag = 0 drops 80 % of the steps, whose policies are 1.4 updates old: "
        "raise it, or lower DriverSettings.max_waiting_batches or the updates of each batch"
    ]


class TwoGroups(Quadratic):
    def parameter_groups(self):
        return {"slow": [self.weights], "fast": [self.unused]}

    def calc_loss(self, experience, train_info):
        return LossInfo(tf.reduce_sum(self.weights * [3.0, 4.0]) + 12.0 * self.unused)


def test_each_optimizer_has_its_variables_and_its_own_limit():
    both = {"slow": optimizers.SGD(0.1), "fast": optimizers.SGD(1.0)}
    learner = make_learner(TwoGroups, both, max_grad_norm=10.0)
    summary = train(learner)
    np.testing.assert_allclose(learner.algorithm.weights.numpy(), [3 - 0.3, 4 - 0.4], rtol=1e-6)
    np.testing.assert_allclose(learner.algorithm.unused.numpy(), 7 - 10.0, rtol=1e-6)
    assert summary["gradient_norm"] == pytest.approx(13.0)
    assert summary["learning_rate_slow"] == pytest.approx(0.1)
    assert summary["learning_rate_fast"] == 1.0


# Learners that train from a replay buffer.
UNROLL_SPEC = tf.nest.map_structure(
    lambda x: tf.TensorSpec(x.shape[1:], x.dtype), make_experience(t=2)._replace(state=PolicyState())
)


class Prioritizing(Quadratic):
    """Observations count too, and the priorities are the rewards, finite or not."""

    def train_step(self, experience, prepared):
        return tf.reduce_sum(experience.reward) + 0.0 * tf.reduce_sum(experience.observation)

    def calc_loss(self, experience, train_info):
        return (
            super().calc_loss(experience, train_info)._replace(priority=tf.reduce_sum(experience.reward, 0))
        )


def make_replay_learner(cls=Quadratic, replayer_class=UniformReplayer, jit_compile=False, **settings):
    replayer = replayer_class(UNROLL_SPEC, num_groups=1, capacity=100)
    training = functools.partial(ReplayLearner, replayer=replayer, **{"mini_batch_size": 4, **settings})
    return build_learner(cls(), optimizers.SGD(0.001), training, jit_compile=jit_compile)


def observe_unroll(learner, start=MID, reward=1.0, **kwargs):
    """An unroll of two steps whose rewards are all `reward`; `start` is FIRST in the first unroll."""
    experience = make_experience(t=2, **kwargs)
    step_type = tf.constant([[[start], [MID], [MID]]])
    learner.observe(experience._replace(step_type=step_type, reward=tf.fill((1, 3, 1), reward)))


@pytest.fixture
def without_updates(monkeypatch):
    """Learners count updates and make none: for tests of how many are due."""

    def count(learner, replayer, num_updates):
        learner.progress.updates.assign_add(num_updates)
        return {"loss": 0.0} if num_updates else {}

    monkeypatch.setattr(ReplayLearner, "_train_on_part", count)


@pytest.mark.parametrize(
    "replayer_class, takes_all",
    [(UniformReplayer, False), (PrioritizedReplayer, False), (PrioritizedReplayer, True)],
)
def test_a_replayed_number_that_is_not_finite_is_named(replayer_class, takes_all, subtests):
    learner = make_replay_learner(Prioritizing, replayer_class, whole_replay_buffer_training=takes_all)
    before = learner.algorithm.weights.numpy()
    for culprit in ("reward", "observation"):
        learner.replayer.clear()
        observe_unroll(learner, FIRST, **{culprit: np.nan})
        message = f"the loss is not finite, because the {culprit} in the experience is not"
        with subtests.test(culprit=culprit):
            with pytest.raises(EnvError, match=message):
                learner.train()
            np.testing.assert_array_equal(learner.algorithm.weights, before)
            assert int(learner.progress.updates) == int(learner.algorithm.updates_seen) == 0


def test_two_learners_with_different_settings_do_not_disturb_each_other(without_updates):
    def run(ratio, max_grad_norm, num_epochs):
        replaying = make_replay_learner(replay_ratio=ratio)
        unrolling = make_learner(
            optimizer=optimizers.SGD(0.1), num_epochs=num_epochs, max_grad_norm=max_grad_norm
        )
        return replaying, unrolling

    learners = [run(0.5, None, 1), run(2, 0.25, 3)]
    for i in range(4):
        for replaying, unrolling in learners:
            observe_unroll(replaying, MID if i else FIRST)
            replaying.train()
            train(unrolling, reward=0.1)
    # The first call only fills the buffer; then 3 calls with 2 steps each.
    assert [int(replaying.progress.updates) for replaying, _ in learners] == [3, 12]
    assert [int(unrolling.progress.updates) for _, unrolling in learners] == [4, 12]
    weights = [np.linalg.norm(unrolling.algorithm.weights) for _, unrolling in learners]
    # The gradients' norms are 0.1 * |weights|, of the second learner limited to 0.25.
    np.testing.assert_allclose(weights, [5 * 0.99**4, 5 - 12 * 0.1 * 0.25], rtol=1e-5)


def restore(learner, state, like):
    """Sets a learner to a state that went through a file, and its variables to those of another one."""
    for ours, theirs in zip(learner.variables, like.variables, strict=True):
        ours.assign(theirs)
    learner.set_state(json.loads(json.dumps(state)))


def step(learner, i):
    """Two more environment steps; returns the updates so far, and the replay ratio if it was shown."""
    observe_unroll(learner, MID if i else FIRST)
    summary = learner.train()
    return int(learner.progress.updates), summary.get("replay_ratio")


def restart(learner, **settings):
    """Makes the learner of a process that continues, whose replay buffer is empty."""
    successor = make_replay_learner(**settings)
    restore(successor, learner.get_state(), like=learner)
    return successor


def test_credit_and_replay_ratio_survive_a_restart(without_updates):
    """At a ratio of 0.3, with 2 steps a call, some calls make 1 update and some none."""
    settings = {"replay_ratio": 0.3}
    whole = make_replay_learner(**settings)
    expected = [step(whole, i) for i in range(12)]
    assert {ratio is None for _, ratio in expected} == {True, False}
    assert expected[-1][0] == int(0.3 * 22)
    learner, shown = make_replay_learner(**settings), []
    for i in range(12):
        if i in (1, 5, 8):
            learner = restart(learner, **settings)
            # A checkpoint does not hold the buffer, which is full before the next call here.
            with single_threaded():
                unroll = make_experience(t=2)._replace(step_type=tf.constant([[[FIRST], [MID], [MID]]]))
                learner.replayer.observe(unroll)
        shown.append(step(learner, i))
    assert shown == expected


@pytest.mark.parametrize("num_stops", [0, 1, 2])
def test_steps_that_fill_a_buffer_again_after_a_restart_earn_no_updates(num_stops, without_updates):
    """Each call has 2 steps; the buffer must hold 6 before the first update, also that of a new process.

    The run stops again so many times while it fills the buffer.
    """
    settings = {"replay_ratio": 0.5, "initial_collect_steps": 6}
    learner = make_replay_learner(**settings)
    before = [step(learner, i)[0] for i in range(5)]
    assert before == [0, 0, 0, 1, 2]
    learner = restart(learner, **settings)
    for _ in range(num_stops):
        assert [step(learner, i) for i in range(2)] == [(2, None)] * 2
        learner = restart(learner, **settings)
    after = [step(learner, i) for i in range(5)]
    # The 6 steps that fill the buffer earn no update, and the ratio does not count them.
    assert after == [(2, None), (2, None), (2, None), (3, 0.5), (4, 0.5)]
    assert int(learner.progress.env_steps) == 2 * (10 + 2 * num_stops)


def test_the_credit_of_mixed_in_unrolls_survives_a_restart():
    def make():
        replayer = MixInReplayer(UNROLL_SPEC, max_unrolls=8, replay_proportion=0.4)
        learner = build_learner(Quadratic(), optimizers.SGD(0.001), replayer=replayer)
        learner._train_on = lambda *inputs: {"loss": tf.constant(0.0)}  # no update
        return learner

    def num_unrolls(learner, i):
        observe_unroll(learner, MID if i else FIRST)
        learner.train()
        return learner.algorithm.iterations_seen[-1].reward.shape[0]

    learner = make()
    counts = [num_unrolls(learner, i) for i in range(4)]
    assert counts == [1, 1, 1, 2], "0.4, 0.8 and 1.2 older unrolls are due after the first one"
    restored = make()
    num_unrolls(restored, 0)  # there must be an older unroll
    restore(restored, learner.get_state(), like=learner)
    assert [num_unrolls(restored, i) for i in range(4, 9)] == [num_unrolls(learner, i) for i in range(4, 9)]


def test_a_copy_has_its_new_version_once_all_weights_are_there(monkeypatch):
    """Whoever has read the version acts with weights of that version, or newer ones."""
    learner, other = make_learner(), make_learner()
    learner.progress.updates.assign(5)
    other.algorithm.weights.assign([1.0, 2.0])
    version_at = []  # for each variable that was assigned

    class Noting:
        def __init__(self, variable):
            self._variable = variable

        def assign(self, value):
            version_at.append(int(learner.progress.updates))
            return self._variable.assign(value)

    learned = learner.list_learned()
    monkeypatch.setattr(learner, "list_learned", lambda: list(map(Noting, learned)))
    learner.copy_from(other)
    assert version_at == [5] * len(learned) and len(learned) > 2
    assert int(learner.progress.updates) == 6
    np.testing.assert_array_equal(learner.algorithm.weights, [1.0, 2.0])


def count_traces(learner):
    """How often the updates of a learner were traced."""
    return learner._graph.num_traces + learner._compiled.num_traces


def test_a_call_with_many_updates_does_not_change_how_many_are_read_at_once():
    learner = make_replay_learner(replay_ratio=2.0)
    numbers = []
    for i in range(20):
        for _ in range(5 if i == 10 else 1):
            observe_unroll(learner, FIRST if not i else MID)
        learner.train()
        numbers.append((learner._num_at_once, int(learner.progress.updates)))
    filled = numbers[0][1]
    assert {number for number, _ in numbers[2:]} == {4}
    assert numbers[-1][1] - filled == 2 * 2 * (19 + 4)
    state = learner.get_state()
    other = make_replay_learner(replay_ratio=2.0)
    other.set_state(state)
    assert other._num_at_once == 4, "draws depend on it"


def test_learners_from_replay_do_not_trace_again():
    learners = [make_replay_learner(replay_ratio=0.75), make_replay_learner(num_updates_per_train_iter=2)]
    counts = []
    for i in range(16):
        for learner in learners:
            observe_unroll(learner, MID if i else FIRST)
            learner.train()
        counts.append([count_traces(learner) for learner in learners])
    assert counts[-1] == [2, 1], "one for a larger number of updates, once it has come several times"
    assert counts[-3:] == counts[-1:] * 3


@pytest.mark.parametrize("replayer_class", [UniformReplayer, PrioritizedReplayer])
def test_passes_over_a_growing_buffer_are_traced_once(replayer_class):
    """Before a minibatch is full and afterwards; and nothing is kept for a number of sequences."""
    learner = make_replay_learner(
        Prioritizing, replayer_class, whole_replay_buffer_training=True, mini_batch_size=8
    )
    updates = []
    for i in range(12):
        observe_unroll(learner, MID if i else FIRST)
        learner.train()
        updates.append(int(learner.progress.updates))
    assert np.diff(updates, prepend=0).tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert count_traces(learner) == len(learner._graph._traces) == 1


def test_learners_of_unrolls_do_not_trace_again():
    training = dict(num_epochs=2, num_minibatches=2)
    learners = [make_learner(**training, jit_compile=jit_compile) for jit_compile in (False, True)]
    for learner in learners:
        train(learner, reward=0.01, b=2)
    counts = [count_traces(learner) for learner in learners]
    assert max(counts) <= 2
    for _ in range(5):
        for learner in learners:
            train(learner, reward=0.01, b=2)
    assert [count_traces(learner) for learner in learners] == counts


def test_nothing_keeps_a_learner_alive():
    kinds = {
        "unrolls": make_learner(),
        "jit": make_learner(jit_compile=True, num_epochs=2),
        "replay": make_replay_learner(),
        "whole buffer": make_replay_learner(whole_replay_buffer_training=True, jit_compile=True),
    }
    references, kinds_of_learners = {}, list(kinds)
    for kind in kinds_of_learners:
        learner = kinds.pop(kind)
        observe_unroll(learner, FIRST)
        assert learner.train()
        parts = learner, learner.algorithm, learner.policy
        references[kind] = [weakref.ref(part) for part in parts]
    del learner, parts
    gc.collect()
    alive = {kind: [reference() for reference in found] for kind, found in references.items()}
    assert alive == dict.fromkeys(kinds_of_learners, [None] * 3)


_ONE = "SINGLE_THREADED_EXECUTOR"


@pytest.mark.parametrize(
    "num_threads, replays, executor", [(0, True, None), (1, True, _ONE), (0, False, _ONE)]
)
def test_operations_run_at_the_same_time_where_losses_have_several_passes(
    num_threads, replays, executor, monkeypatch
):
    if len(list_devices()) > 1:
        pytest.skip("with a GPU every graph has TensorFlow's own executor")
    seen = []

    def train():
        seen.append(context.context().function_call_options.executor_type)
        return method()

    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: num_threads)
    learner = make_replay_learner() if replays else make_learner()
    method = learner._make_due_updates
    monkeypatch.setattr(learner, "_make_due_updates", train)
    # Also inside the other: a graph that was traced for one executor does not run with the other.
    for outside in (contextlib.nullcontext, single_threaded):
        with outside():
            observe_unroll(learner, FIRST)
            assert learner.train()
    assert seen == [executor, executor]
