# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Training from a replay buffer: when, how often, from what."""

import time

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.data_structures import LossInfo, PolicyStep
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import Learner, ReplayTraining, UnrollTraining
from alf.policies import Policy
from alf.policies.data_transformers import FrameStacker, Pipeline
from alf.replay import UniformReplayer, make_replayer
from alf.testing.toy_environments import CountingEnvironment

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

    def train_step(self, experience, state):
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


def make_envs(num_envs):
    return [CountingEnvironment(2, 5, env_index=i) for i in range(num_envs)]


def make_policy(envs, transformers=()):
    specs = EnvSpecs(envs)
    transformer = Pipeline(specs.observation, specs.reward, transformers)
    return ZeroPolicy(transformer.observation_spec, specs.action, data_transformer=transformer)


def make_learner(envs, transformers=(), unroll_length=4, **settings):
    """A learner that notes what it samples from a uniform buffer; 3 sequences a batch, if not set."""
    specs, policy = EnvSpecs(envs), make_policy(envs, transformers)
    unroll_spec = specs.unroll_spec(policy, unroll_length)
    replayer = UniformReplayer(unroll_spec, specs.num_envs, policy.data_transformer.context)
    training = ReplayTraining(replayer, **{"mini_batch_size": 3, **settings})
    return Learner(Watching(policy), tf.keras.optimizers.legacy.SGD(0.1), training)


def make(num_envs=2, driver_class=SyncOffPolicyDriver, transformers=(), driver_settings=None, **settings):
    """A driver that runs, 2 x 4 steps x 2 environments a call; its learner and algorithm."""
    envs = make_envs(num_envs)
    learner = make_learner(envs, transformers, **settings)
    driver = driver_class(envs, learner, unroll_length=4, **(driver_settings or {}))
    driver.start()
    return driver, learner, learner.algorithm


def iterate(driver, count):
    """Iterations as the trainer makes them; returns the numbers of steps and updates after each."""
    steps, updates, total = [], [], 0
    try:
        for _ in range(count):
            total += driver.collect()
            driver.learner.train()
            steps.append(total)
            updates.append(int(driver.learner.train_step_counter))
    finally:
        driver.stop()
    return np.array(steps), np.array(updates)


def test_a_number_of_updates_for_each_call():
    driver, learner, algorithm = make(num_updates_per_train_iter=3)
    _, updates = iterate(driver, 4)
    np.testing.assert_array_equal(updates, [3, 6, 9, 12])
    assert len(algorithm.batches) == 12


@pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
@pytest.mark.parametrize("ratio", [0.3, 1, 0.01, 2.5])
def test_a_replay_ratio_is_held_exactly(driver_class, ratio):
    driver, learner, algorithm = make(driver_class=driver_class, replay_ratio=ratio)
    steps, updates = iterate(driver, 12)
    np.testing.assert_array_equal(updates, [int(round(ratio * (s - steps[0]), 6)) for s in steps])
    assert learner.progress.env_steps == steps[-1]


def test_the_ratio_is_shown():
    driver, learner, algorithm = make(replay_ratio=0.25)
    driver.collect()
    assert learner.train() == {}, "nothing is due yet"
    num_steps = driver.collect()
    summary = learner.train()
    assert summary["replay_ratio"] == int(0.25 * num_steps) / num_steps
    assert {"loss", "policy_lag_mean", "learning_rate"} <= summary.keys()
    driver.stop()


def test_no_update_before_the_initial_steps():
    driver, learner, algorithm = make(initial_collect_steps=50, num_updates_per_train_iter=1)
    _, updates = iterate(driver, 6)
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


def test_sequences_are_whole_and_in_order():
    driver, learner, algorithm = make(mini_batch_length=3, num_updates_per_train_iter=5)
    iterate(driver, 6)
    for observation, weight, step_type in algorithm.batches:
        assert observation.shape == (4, 3, 3) and weight.shape == (4, 3)
        assert np.all(np.diff(observation[..., ROW], axis=0) == 1)
        assert np.all(np.diff(observation[..., ENV_ID], axis=0) == 0)
        # Nothing is learned across the seam of two episodes, nor from the row that bootstraps.
        np.testing.assert_array_equal(weight[:-1], step_type[1:] != 0)
        assert not weight[-1].any()


@pytest.mark.parametrize("passes", [1, 2])
def test_the_whole_buffer_in_turn(passes):
    driver, learner, algorithm = make(
        whole_replay_buffer_training=True,
        clear_replay_buffer=True,
        num_updates_per_train_iter=passes,
        mini_batch_size=2,
        mini_batch_length=2,
    )
    driver.collect()
    learner.train()
    # 4 columns of 4 steps are 8 sequences of 2 steps.
    assert len(algorithm.batches) == 4 * passes
    for i in range(passes):
        seen = np.concatenate([b[0][:-1] for b in algorithm.batches[4 * i : 4 * i + 4]], axis=1)
        rows = sorted((int(x[ENV_ID]), int(x[ROW])) for x in seen.reshape(-1, 3))
        assert rows == [(env, row) for env in range(4) for row in range(4)]
    assert learner.replayer.num_steps() == 0
    algorithm.batches.clear()
    driver.collect()
    learner.train()
    rows = {int(x) for b in algorithm.batches for x in b[0][:-1, :, ROW].ravel()}
    assert rows == {4, 5, 6, 7}, "what came since, from the seam on"
    driver.stop()


def test_a_buffer_keeps_what_it_was_not_told_to_clear():
    driver, learner, algorithm = make(num_updates_per_train_iter=1)
    iterate(driver, 3)
    assert learner.replayer.num_steps() == 3 * 16


def test_transformers_see_the_rows_before_a_sequence():
    driver, learner, algorithm = make(transformers=[FrameStacker], num_updates_per_train_iter=8)
    iterate(driver, 5)
    assert len(algorithm.batches) > 8
    for observation, _, _ in algorithm.batches:
        frames = observation.reshape(2, 3, 4, 3)  # 4 frames, oldest first
        ages = np.array([3, 2, 1, 0])
        steps = frames[..., 3, STEP]
        expected = np.maximum(steps[..., np.newaxis] - ages, 0)
        np.testing.assert_array_equal(frames[..., STEP], expected)


@pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_a_fraction_of_an_unroll(driver_class):
    envs = make_envs(1)
    driver = driver_class(envs, make_learner(envs, unroll_length=1), unroll_length=0.25)
    driver.start()
    taken = [driver.collect() for _ in range(12)]
    driver.stop()
    assert [t > 0 for t in taken] == [False, False, False, True] * 3
    assert taken[3] == 2


def test_what_is_there():
    envs = make_envs(2)
    learner = make_learner(envs, unroll_length=1)
    driver = AsyncOffPolicyDriver(envs, learner, unroll_length=0, max_waiting_batches=4)
    driver.start()
    taken = []
    for _ in range(1000):
        taken.append(driver.collect())
        learner.train()
        if sum(taken) > 40:
            break
    driver.stop()
    assert sum(taken) > 40
    assert learner.progress.env_steps == sum(taken)
    # Before the first step is there, nothing waits and nothing is taken.
    assert all(t >= 0 for t in taken)


@pytest.mark.parametrize(
    "driver_class, kwargs, message",
    [
        (SyncOffPolicyDriver, dict(unroll_length=0, replays=True), "unroll_length is 0"),
        (SyncOffPolicyDriver, dict(unroll_length=0.5), "unroll_length is 0.5, no integer above 0: exp_rep"),
        (AsyncOffPolicyDriver, dict(unroll_length=0), "unroll_length is 0, no integer above 0: exp_replay"),
        (AsyncOffPolicyDriver, dict(unroll_length=-1), "unroll_length is -1"),
        (AsyncOffPolicyDriver, dict(unroll_length=1.5), "unroll_length is 1.5, no integer above 0: exp"),
    ],
)
def test_unroll_lengths_that_make_no_sense(driver_class, kwargs, message):
    envs = make_envs(1)
    replays = kwargs.pop("replays", False)
    learner = (
        make_learner(envs)
        if replays
        else Learner(Watching(make_policy(envs)), tf.keras.optimizers.legacy.SGD(0.1))
    )
    with pytest.raises(ConfigError, match=message):
        driver_class(envs, learner, **kwargs)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"mini_batch_size": 0}, "ReplayTraining.mini_batch_size is 0"),
        ({"mini_batch_length": 0}, "ReplayTraining.mini_batch_length is 0"),
        ({"initial_collect_steps": -1}, "ReplayTraining.initial_collect_steps is -1"),
        ({"replay_ratio": 0}, "ReplayTraining.replay_ratio is 0"),
        ({"num_updates_per_train_iter": 0}, "ReplayTraining.num_updates_per_train_iter is 0"),
        ({"replay_ratio": 1, "num_updates_per_train_iter": 1}, "leave num_updates_per_train_iter"),
        ({"replay_ratio": 1, "whole_replay_buffer_training": True}, "whole_replay_buffer_training out"),
        ({"whole_replay_buffer_training": 1}, "ReplayTraining.whole_replay_buffer_training is 1"),
        ({"clear_replay_buffer": "yes"}, "ReplayTraining.clear_replay_buffer is 'yes'"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ConfigError, match=message):
        ReplayTraining(None, **settings)


def test_the_buffer_must_be_able_to_hold_the_initial_steps():
    envs = make_envs(2)
    specs, policy = EnvSpecs(envs), make_policy(envs)
    replayer = UniformReplayer(specs.unroll_spec(policy, 4), num_envs=2, capacity=30)
    assert replayer.capacity == 32  # the same number of steps of each of 4 environments

    def make_learner(steps):
        training = ReplayTraining(replayer, mini_batch_size=3, initial_collect_steps=steps)
        return Learner(Watching(policy), tf.keras.optimizers.legacy.SGD(0.1), training)

    with pytest.raises(ConfigError, match="initial_collect_steps is 33: the replay buffer holds 32 steps"):
        make_learner(33).check_batch(2, 4, 2)
    learner = make_learner(32)
    learner.check_batch(2, 4, 2)
    driver = SyncOffPolicyDriver(envs, learner, unroll_length=4)
    driver.start()
    for _ in range(4):
        driver.collect()
        learner.train()
    driver.stop()
    assert learner.train_step_counter > 0


@pytest.mark.parametrize("replayer, num_unrolls", [("one_time", 2), ("cyclic_one_time", 2), ("mix_in", 3)])
def test_replayers_of_unrolls(replayer, num_unrolls):
    """Older unrolls that are mixed in train too, and are no new environment steps."""
    envs = make_envs(2)
    specs, policy = EnvSpecs(envs), make_policy(envs)
    algorithm = Watching(policy)
    training = UnrollTraining(make_replayer(replayer, specs.unroll_spec(policy, 4), num_envs=2))
    learner = Learner(algorithm, tf.keras.optimizers.legacy.SGD(0.1), training)
    driver = SyncOffPolicyDriver(envs, learner, unroll_length=4)
    driver.start()
    steps = 0
    for _ in range(6):
        steps += driver.collect()
        learner.train()
    driver.stop()
    assert learner.progress.env_steps == steps
    assert learner.train_step_counter == 6
    observation = algorithm.batches[-1][0]
    assert observation.shape == (5, num_unrolls * 2, 3)
    rows = observation[0, :, ROW]
    np.testing.assert_array_equal(rows[:4], [20] * 4)
    assert np.all(rows[4:] < 20)


def test_sequences_longer_than_the_buffer_are_refused_before_anything_starts():
    with pytest.raises(ConfigError, match="too little for sequences of 2000000 steps"):
        make(mini_batch_length=2_000_000)
