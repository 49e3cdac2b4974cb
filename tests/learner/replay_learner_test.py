# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Training from a replay buffer: when, how often, from what."""

import functools
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.data_structures import LossInfo, PolicyStep
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import ReplayLearner, optimizers
from alf.policies import Policy
from alf.policies.data_transformers import FrameStacker, Pipeline
from alf.replay import UniformReplayer, make_replayer
from alf.testing.toy_environments import CountingEnvironment
from alf.training.collection import check_parts
from tests.builders import build_driver, build_learner, collect_and_observe

ENV_ID, ROW, STEP = range(3)  # of the counting environment's observation


class ZeroPolicy(Policy):
    """Its action is 0."""

    def rollout_step(self, time_step, state):
        return PolicyStep(tf.zeros_like(time_step.prev_action), state)


class Watching(Algorithm):
    """Notes every batch that it trains on."""

    def __init__(self, policy):
        super().__init__(policy)
        self.weights = tf.Variable(1.0)
        self.batches = []

    def train_step(self, experience, prepared):
        leaves = [experience.observation, experience.weight, experience.step_type]
        noted = tf.numpy_function(self._note, leaves, tf.float32)
        noted.set_shape(())
        return noted

    def _note(self, *leaves):
        self.batches.append([np.array(x) for x in leaves])
        return np.float32(0.0)

    def calc_loss(self, experience, train_info):
        priority = tf.ones(experience.weight.shape[1])
        return LossInfo(self.weights * 0.0 + train_info, {}, priority)


def make_envs(num_groups):
    return [CountingEnvironment(2, 5, env_index=i) for i in range(num_groups)]


def make_policy(envs, transformers=()):
    specs = EnvSpecs(envs)
    transformer = Pipeline(specs.observation, specs.reward, transformers)
    return ZeroPolicy(transformer.observation_spec, specs.action, data_transformer=transformer)


def make_learner(envs, transformers=(), unroll_length=4, **settings):
    """A learner that notes what it samples from a uniform buffer; 3 sequences a batch, if not set."""
    specs, policy = EnvSpecs(envs), make_policy(envs, transformers)
    unroll_spec = specs.unroll_spec(policy, unroll_length)
    replayer = UniformReplayer(unroll_spec, specs.num_groups, policy.data_transformer.context)
    training = functools.partial(ReplayLearner, replayer=replayer, **{"mini_batch_size": 3, **settings})
    return build_learner(Watching(policy), optimizers.SGD(0.1), training)


def make(num_groups=2, driver_class=SyncOffPolicyDriver, transformers=(), driver_settings=None, **settings):
    """A driver that runs, 2 x 4 steps x 2 environments a call; its learner and algorithm."""
    envs = make_envs(num_groups)
    learner = make_learner(envs, transformers, **settings)
    driver = build_driver(driver_class, envs, learner, unroll_length=4, **(driver_settings or {}))
    driver.start()
    return driver, learner, learner.algorithm


def iterate(driver, count):
    """Iterations as the trainer makes them.

    Returns the numbers of steps and updates after each, and the last of what `train` showed.
    """
    steps, updates, total = [], [], 0
    try:
        for _ in range(count):
            total += collect_and_observe(driver)
            shown = driver.learner.train()
            steps.append(total)
            updates.append(int(driver.learner.train_step_counter))
            assert bool(shown) == (updates[-1] > (updates[-2] if len(updates) > 1 else 0))
    finally:
        driver.stop()
    return np.array(steps), np.array(updates), shown


@pytest.fixture(scope="module")
def run():
    """A run whose observations are stacks of frames; what it did and saw."""
    settings = dict(transformers=[FrameStacker], mini_batch_length=3, num_updates_per_train_iter=5)
    driver, learner, algorithm = make(**settings)
    _, updates, _ = iterate(driver, 6)
    # 4 frames each, oldest first.
    batches = [(x.reshape(4, 3, 4, 3), *others) for x, *others in algorithm.batches]
    return types.SimpleNamespace(learner=learner, updates=updates, batches=batches)


def test_each_call_makes_a_number_of_updates(run):
    # The first unroll, of 4 steps, has no sequence of 3 steps with the 3 rows before it.
    np.testing.assert_array_equal(run.updates, [0, 5, 10, 15, 20, 25])
    assert len(run.batches) == 25


def test_sequences_are_whole_and_in_order(run):
    for frames, weight, step_type in run.batches:
        observation = frames[:, :, -1]
        assert weight.shape == (4, 3)
        assert np.all(np.diff(observation[..., ROW], axis=0) == 1)
        assert np.all(np.diff(observation[..., ENV_ID], axis=0) == 0)
        # Nothing is learned across the seam of two episodes, nor from the row that bootstraps.
        np.testing.assert_array_equal(weight[:-1], step_type[1:] != 0)
        assert not weight[-1].any()


def test_transformers_see_the_rows_before_a_sequence(run):
    for frames, _, _ in run.batches:
        steps = frames[..., STEP]
        ages = np.array([3, 2, 1, 0])
        np.testing.assert_array_equal(steps, np.maximum(steps[..., 3:] - ages, 0))


def test_a_buffer_keeps_what_it_was_not_told_to_clear(run):
    assert run.learner.replayer.num_steps() == 6 * 16


def due_updates(ratio, steps):
    """The updates that a ratio asks for, after each of some numbers of steps."""
    return [int(round(ratio * (s - steps[0]), 6)) for s in steps]


@pytest.mark.parametrize("driver_class, ratio", [(SyncOffPolicyDriver, 0.3), (AsyncOffPolicyDriver, 2.5)])
def test_a_replay_ratio_is_held_exactly_and_shown(driver_class, ratio):
    driver, learner, algorithm = make(driver_class=driver_class, replay_ratio=ratio)
    steps, updates, shown = iterate(driver, 6)
    np.testing.assert_array_equal(updates, due_updates(ratio, steps))
    assert learner.progress.env_steps == steps[-1] and len(algorithm.batches) == updates[-1]
    assert shown["replay_ratio"] == updates[-1] / (steps[-1] - steps[0])
    assert {"loss", "policy_lag_mean", "learning_rate"} <= shown.keys()


@pytest.mark.parametrize("ratio", [1, 0.01])
def test_no_fraction_of_an_update_is_lost(ratio, monkeypatch):
    def count(learner, replayer, num_updates):
        learner.progress.updates.assign_add(num_updates)
        return {"loss": 0.0} if num_updates else {}

    monkeypatch.setattr(ReplayLearner, "_train_on_part", count)
    driver, _, _ = make(replay_ratio=ratio)
    steps, updates, _ = iterate(driver, 15)
    np.testing.assert_array_equal(updates, due_updates(ratio, steps))
    assert updates[-1] > 0


def test_no_update_before_the_initial_steps():
    driver, _, _ = make(initial_collect_steps=50, num_updates_per_train_iter=1)
    _, updates, _ = iterate(driver, 6)
    # A call adds 16 rows, among them those that lead to a FIRST step.
    np.testing.assert_array_equal(updates, [0, 0, 0, 1, 2, 3])


def test_actors_go_on_while_the_learner_samples(monkeypatch):
    driver, learner, algorithm = make(
        driver_class=AsyncOffPolicyDriver,
        driver_settings={"max_waiting_batches": 20},
        num_updates_per_train_iter=1,
    )
    sample = learner.replayer.sample
    waiting = []

    def until_20_batches_wait():
        deadline = time.monotonic() + 60
        while driver.queue_sizes()["learn_queue"] < 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        waiting.append(driver.queue_sizes()["learn_queue"])
        return np.int32(0)

    def slow_sample(*args):
        with tf.control_dependencies([tf.numpy_function(until_20_batches_wait, [], tf.int32)]):
            return tf.nest.map_structure(tf.identity, sample(*args))

    monkeypatch.setattr(learner.replayer, "sample", slow_sample)
    iterate(driver, 3)
    assert waiting == [20, 20, 20]


def test_updates_take_the_whole_buffer_in_turn():
    passes = 2
    driver, learner, algorithm = make(
        whole_replay_buffer_training=True,
        clear_replay_buffer=True,
        num_updates_per_train_iter=passes,
        mini_batch_size=2,
        mini_batch_length=2,
    )
    collect_and_observe(driver)
    learner.train()
    # 4 columns of 4 steps are 8 sequences of 2 steps.
    assert len(algorithm.batches) == 4 * passes
    for i in range(passes):
        seen = np.concatenate([b[0][:-1] for b in algorithm.batches[4 * i : 4 * i + 4]], axis=1)
        rows = sorted((int(x[ENV_ID]), int(x[ROW])) for x in seen.reshape(-1, 3))
        assert rows == [(env, row) for env in range(4) for row in range(4)]
    assert learner.replayer.num_steps() == 0
    algorithm.batches.clear()
    collect_and_observe(driver)
    learner.train()
    rows = {int(x) for b in algorithm.batches for x in b[0][:-1, :, ROW].ravel()}
    assert rows == {4, 5, 6, 7}, "what came since, from the seam on"
    driver.stop()


@pytest.mark.parametrize("unroll_length, length, num_frames", [(2, 4, 1), (10, 1, 4)])
def test_a_buffer_that_is_cleared_trains_on_every_step_once(unroll_length, length, num_frames):
    """Also if a sequence is longer than an unroll, and if frames are stacked."""
    envs = make_envs(1)
    learner = make_learner(
        envs,
        [functools.partial(FrameStacker, num_frames=num_frames)] if num_frames > 1 else (),
        unroll_length,
        whole_replay_buffer_training=True,
        clear_replay_buffer=True,
        mini_batch_size=2,
        mini_batch_length=length,
    )
    driver = build_driver(SyncOffPolicyDriver, envs, learner, unroll_length=unroll_length)
    driver.start()
    for _ in range(12):
        collect_and_observe(driver)
        learner.train()
    driver.stop()
    trained = set()
    for observation, *_ in learner.algorithm.batches:
        rows = observation[:-1, :, -3:]  # the newest frame
        trained |= {(int(x[ENV_ID]), int(x[ROW])) for x in rows.reshape(-1, 3)}
    last = max(row for _, row in trained)
    assert last == 12 * unroll_length - 1
    assert trained == {(env, row) for env in range(2) for row in range(num_frames - 1, last + 1)}


@pytest.mark.parametrize("settings", [{"num_updates_per_train_iter": 2}, {"replay_ratio": 0.25}], ids=str)
def test_unrolls_add_up_to_a_sequence_in_a_buffer_that_is_cleared(settings):
    envs = make_envs(1)
    lengths = dict(unroll_length=8, mini_batch_length=16)
    learner = make_learner(envs, clear_replay_buffer=True, **lengths, **settings)
    driver = build_driver(SyncOffPolicyDriver, envs, learner, unroll_length=8)
    driver.start()
    steps, updates, _ = iterate(driver, 7)
    if "replay_ratio" in settings:
        # The second unroll completes the first sequence. From then on the ratio counts.
        due = due_updates(settings["replay_ratio"], steps[1:])
        np.testing.assert_array_equal(updates, [0, 0, due[1], due[1], due[3], due[3], due[5]])
    else:
        np.testing.assert_array_equal(updates, [0, 2, 2, 4, 4, 6, 6])


@pytest.mark.parametrize(("size", "num_updates"), [(5, 2), (8, 1), (20, 1)])
def test_the_last_update_of_a_pass_over_the_buffer_takes_the_rest(size, num_updates):
    driver, learner, algorithm = make(
        whole_replay_buffer_training=True,
        clear_replay_buffer=True,
        mini_batch_size=size,
        mini_batch_length=2,
    )
    collect_and_observe(driver)
    learner.train()
    driver.stop()
    # 8 sequences of 2 steps: 5, and 3 with 2 of the first ones, which have weight 0; or 8 with 12 of them.
    assert [batch[0].shape[1] for batch in algorithm.batches] == [size] * num_updates
    rows = [batch[0][:-1] for batch in algorithm.batches]
    weights = [batch[1][:-1] for batch in algorithm.batches]
    seen = [(int(x[ENV_ID]), int(x[ROW])) for r, w in zip(rows, weights, strict=True) for x in r[w > 0]]
    assert sorted(seen) == [(env, row) for env in range(4) for row in range(4)]


def test_with_a_fraction_as_its_length_an_unroll_comes_every_few_calls():
    envs = make_envs(1)
    driver = build_driver(AsyncOffPolicyDriver, envs, make_learner(envs, unroll_length=1), unroll_length=0.25)
    driver.start()
    taken = [collect_and_observe(driver) for _ in range(12)]
    driver.stop()
    assert [t > 0 for t in taken] == [False, False, False, True] * 3
    assert taken[3] == 2


def test_with_an_unroll_length_of_0_collect_takes_what_waits():
    envs = make_envs(2)
    learner = make_learner(envs, unroll_length=1)
    driver = build_driver(
        AsyncOffPolicyDriver, envs, learner, unroll_length=1, mode="poll", max_waiting_batches=4
    )
    driver.start()
    taken, deadline = [], time.monotonic() + 60
    try:
        while sum(taken) <= 40:
            taken.append(collect_and_observe(driver))
            learner.train()
            assert time.monotonic() < deadline
    finally:
        driver.stop()
    assert learner.progress.env_steps == sum(taken)
    # Before the first step is there, nothing waits and nothing is taken.
    assert all(t >= 0 for t in taken)


# A driver's class, its unroll_length, whether its learner has a replay buffer, and the message.
WRONG_LENGTHS = [
    (SyncOffPolicyDriver, 0, True, "unroll_length is 0"),
    (SyncOffPolicyDriver, 0.5, False, "unroll_length is 0.5, not an integer above 0: exp_rep"),
    (AsyncOffPolicyDriver, 0, False, "unroll_length is 0: it must be a number above 0"),
    (AsyncOffPolicyDriver, -1, False, "unroll_length is -1"),
    (AsyncOffPolicyDriver, 1.5, False, "unroll_length is 1.5, not an integer above 0: exp"),
]


def test_unroll_lengths_that_make_no_sense_are_refused(subtests):
    envs = make_envs(1)
    for driver_class, unroll_length, replays, message in WRONG_LENGTHS:
        if replays:
            learner = make_learner(envs)
        else:
            learner = build_learner(Watching(make_policy(envs)), optimizers.SGD(0.1))
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            driver = build_driver(driver_class, envs, learner, unroll_length=unroll_length)
            check_parts(driver, learner, 1)


WRONG_SETTINGS = [
    ({"mini_batch_size": 0}, "ReplayLearner.mini_batch_size is 0"),
    ({"mini_batch_length": 0}, "ReplayLearner.mini_batch_length is 0"),
    ({"mini_batch_length": 2_000_000}, "it is too small for sequences of 2000000 steps"),
    ({"initial_collect_steps": -1}, "ReplayLearner.initial_collect_steps is -1"),
    ({"replay_ratio": 0}, "ReplayLearner.replay_ratio is 0"),
    ({"num_updates_per_train_iter": 0}, "ReplayLearner.num_updates_per_train_iter is 0"),
    ({"replay_ratio": 1, "num_updates_per_train_iter": 1}, "leave num_updates_per_train_iter"),
    ({"replay_ratio": 1, "whole_replay_buffer_training": True}, "whole_replay_buffer_training out"),
    ({"whole_replay_buffer_training": 1}, "ReplayLearner.whole_replay_buffer_training is 1"),
    ({"clear_replay_buffer": "yes"}, "ReplayLearner.clear_replay_buffer is 'yes'"),
]


def test_settings_are_checked(subtests):
    envs = make_envs(1)
    policy = make_policy(envs)
    replayer = UniformReplayer(EnvSpecs(envs).unroll_spec(policy, 4), num_groups=1)
    for settings, message in WRONG_SETTINGS:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            ReplayLearner(Watching(policy), optimizers.SGD(0.1), replayer, **settings)


def test_the_buffer_must_be_able_to_hold_the_initial_steps():
    envs = make_envs(2)
    specs, policy = EnvSpecs(envs), make_policy(envs)
    replayer = UniformReplayer(specs.unroll_spec(policy, 4), num_groups=2, capacity=30)
    assert replayer.capacity == 32  # the same number of steps of each of 4 environments

    def make_learner(steps):
        sizes = {"mini_batch_size": 3, "initial_collect_steps": steps}
        return build_learner(Watching(policy), optimizers.SGD(0.1), replayer=replayer, **sizes)

    with pytest.raises(ConfigError, match="initial_collect_steps is 33: the replay buffer holds 32 steps"):
        make_learner(33).check_batch(2, 4, 2)
    learner = make_learner(32)
    learner.check_batch(2, 4, 2)
    driver = build_driver(SyncOffPolicyDriver, envs, learner, unroll_length=4)
    driver.start()
    for _ in range(4):
        collect_and_observe(driver)
        learner.train()
    driver.stop()
    assert learner.train_step_counter > 0


@pytest.mark.parametrize("replayer, num_unrolls", [("cyclic_one_time", 2), ("mix_in", 3)])
def test_older_unrolls_that_are_mixed_in_train_and_are_no_new_steps(replayer, num_unrolls):
    envs = make_envs(2)
    specs, policy = EnvSpecs(envs), make_policy(envs)
    algorithm = Watching(policy)
    replayer = make_replayer(replayer, specs.unroll_spec(policy, 4), num_groups=2)
    learner = build_learner(algorithm, optimizers.SGD(0.1), replayer=replayer)
    driver = build_driver(SyncOffPolicyDriver, envs, learner, unroll_length=4)
    driver.start()
    steps = 0
    for _ in range(6):
        steps += collect_and_observe(driver)
        learner.train()
    driver.stop()
    assert learner.progress.env_steps == steps
    assert learner.train_step_counter == 6
    observation = algorithm.batches[-1][0]
    assert observation.shape == (5, num_unrolls * 2, 3)
    rows = observation[0, :, ROW]
    np.testing.assert_array_equal(rows[:4], [20] * 4)
    assert np.all(rows[4:] < 20)
