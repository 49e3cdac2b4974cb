# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How far actors and learner may be apart: waiting batches, lockstep, overlap, copies of the weights."""

import functools
import time
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm, PPOAlgorithm
from alf.core.nest_utils import to_tensor_spec
from alf.data_structures import PolicyStep
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import load
from alf.errors import ConfigError
from alf.learner import LearnerSettings, UnrollLearner, optimizers
from alf.networks import GRU, LSTM, ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.policies.data_transformers import ObservationNormalizer, Pipeline
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, RecordingLearner, make_counting_envs
from alf.testing.toy_environments import CountingEnvironment
from tests.builders import build_driver, build_learner, collect_and_observe

SGD = functools.partial(optimizers.SGD, 0.1)


class KeepingLearner(UnrollLearner):
    """Keeps what it observed."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.observed = []

    def observe(self, experience):
        self.observed.append(tf.nest.map_structure(lambda x: x.numpy(), experience))
        super().observe(experience)


def make_specs(env):
    return [to_tensor_spec(spec) for spec in (env.observation_spec(), env.action_spec())]


def train(make_driver, iterations=4, seed=0):
    """Trains on CartPole; returns the experience and the weights."""
    tf.random.set_seed(seed)
    envs = [load("CartPole-v1", 4, seed=100 * index) for index in range(3)]
    network = functools.partial(ActorCriticNetwork, rnn=functools.partial(GRU, units=8), seed=1)
    algorithm = PPOAlgorithm(ActorCriticPolicy(*make_specs(envs[0]), network=network))
    settings = LearnerSettings(max_grad_norm=0.5)
    learner = KeepingLearner(algorithm, SGD(), num_epochs=2, num_minibatches=2, settings=settings)
    driver = make_driver(envs, learner, unroll_length=7)
    driver.start()
    try:
        for _ in range(iterations):
            collect_and_observe(driver)
            learner.train()
    finally:
        driver.stop()
    return learner.observed, [v.numpy() for v in algorithm.trainable_variables]


def test_lockstep_learns_what_the_synchronous_driver_learns():
    lockstep = functools.partial(
        build_driver, AsyncOffPolicyDriver, learn_queue_cap=3, mode="lockstep", num_actor_queues=3
    )
    ours, theirs = train(lockstep), train(functools.partial(build_driver, SyncOffPolicyDriver))
    tf.nest.assert_same_structure(ours, theirs)
    for x, y in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
        assert x.dtype == y.dtype
        # The graphs differ, and so do the roundings of float32.
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6 * (x.dtype == np.float32))


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "lockstep", "num_actor_queues": 2},
        {"mode": "overlap", "num_actor_queues": 3},
        {"mode": "overlap", "actor_queue_cap": 3},
        {"mode": "overlap", "num_actor_queues": 0},
        {"mode": "overlap", "num_env_threads": 1},
    ],
    ids=["lockstep", "overlap", "one batch", "without actors", "one thread"],
)
def test_a_seed_repeats_bit_for_bit(settings):
    make = functools.partial(build_driver, AsyncOffPolicyDriver, **settings)
    ours, same, other = (train(make, iterations=2, seed=seed) for seed in (1, 1, 2))
    for x, y in zip(tf.nest.flatten(ours), tf.nest.flatten(same), strict=True):
        np.testing.assert_array_equal(x, y)
    assert (ours[0][0].action != other[0][0].action).any()


@pytest.mark.parametrize("mode", ["lockstep", "overlap"])
@pytest.mark.parametrize("setting", ["num_actor_queues=0", "num_env_threads=1"])
def test_without_actors_or_threads_a_run_is_the_same_bit_for_bit(mode, setting):
    make = functools.partial(build_driver, AsyncOffPolicyDriver, mode=mode)
    name, _, value = setting.partition("=")
    usual, other = (train(functools.partial(make, **x), 2, seed=1) for x in ({}, {name: int(value)}))
    for x, y in zip(tf.nest.flatten(usual), tf.nest.flatten(other), strict=True):
        np.testing.assert_array_equal(x, y)


LOCKSTEP = dict(learn_queue_cap=2, mode="lockstep")


class LockstepRun(NamedTuple):
    """What a driver did that waits for the learner."""

    unroll_length: int
    learner: RecordingLearner
    num_steps: list  # of each environment, a while after each batch
    num_waiting: list  # unrolls that waited then


@pytest.fixture(
    scope="module",
    params=[
        (SyncOffPolicyDriver, 3, {}),
        (AsyncOffPolicyDriver, 3, LOCKSTEP),
        (AsyncOffPolicyDriver, 1, {**LOCKSTEP, "actor_queue_cap": 2}),
        (AsyncOffPolicyDriver, 3, {**LOCKSTEP, "num_actor_queues": 2, "parameter_update_period": 1}),
        (AsyncOffPolicyDriver, 3, {**LOCKSTEP, "num_actor_queues": 0}),
        (AsyncOffPolicyDriver, 3, {**LOCKSTEP, "num_env_threads": 1}),
    ],
    ids=["sync", "one actor", "one batch", "two actors with a copy", "without actors", "one thread"],
)
def lockstep_run(request):
    """Runs each setting once for the tests that read it; the counter of updates moves as if one trained."""
    driver_class, unroll_length, kwargs = request.param
    envs = make_counting_envs(2, cls=FakeEnvironment)
    learner = RecordingLearner(FrozenPolicy(envs[0], counts_steps=True))
    driver = build_driver(driver_class, envs, learner, unroll_length=unroll_length, **kwargs)
    num_steps, num_waiting = [], []
    driver.start()
    try:
        for _ in range(8):
            collect_and_observe(driver)
            time.sleep(0.02)  # Here the learner trains.
            num_steps.append([env.num_steps for env in envs])
            num_waiting.append(driver.queue_sizes().get("learn_queue", 0))
            learner.progress.updates.assign_add(1)
    finally:
        driver.stop()
    return LockstepRun(unroll_length, learner, num_steps, num_waiting)


def test_the_newest_weights_choose_every_action(lockstep_run):
    for updates, experience in enumerate(lockstep_run.learner.observed):
        assert set(experience.policy_version.ravel()) == {updates}
        assert set(experience.info["version"].ravel()) == {updates}
        # The recurrent state goes on from one unroll to the next: it counts the steps of the episode.
        step = experience.observation[:, :-1, :, 2]
        np.testing.assert_array_equal(experience.info["state"][:, :-1], step)


def test_lockstep_collects_nothing_while_it_trains(lockstep_run):
    expected = [[lockstep_run.unroll_length * i] * 2 for i in range(1, 9)]
    assert lockstep_run.num_steps == expected and not any(lockstep_run.num_waiting)


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"actor_queue_cap": 2}, {"num_actor_queues": 2}, {"num_actor_queues": 0}],
    ids=["one actor", "one batch", "two", "none"],
)
def test_overlap_collects_one_batch_while_the_learner_trains(kwargs):
    envs = make_counting_envs(2, cls=FakeEnvironment)
    learner = RecordingLearner(FrozenPolicy(envs[0], counts_steps=True))
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=3, mode="overlap", **kwargs)
    driver.start()
    try:
        for i in range(1, 9):
            # Also by the method that `collect` uses.
            collect_and_observe(driver) if i % 2 else learner.observe(driver.get_training_exps())
            # Here the learner trains on batch i, and batch i + 1 is collected meanwhile, but not more.
            deadline = time.monotonic() + 60
            while driver.queue_sizes()["learn_queue"] < 2:
                assert time.monotonic() < deadline, "the environments stand still"
                time.sleep(0.001)
            assert driver.call_envs("observation_spec") and len(learner.observed) == i
            assert [env.num_steps for env in envs] == [3 * (i + 1)] * 2
            learner.progress.updates.assign_add(1)
    finally:
        driver.stop()
    for updates, experience in enumerate(learner.observed):
        # Batch i was ordered before the learner trained on batch i - 1.
        assert set(experience.policy_version.ravel()) == {max(0, updates - 1)}
        assert set(experience.info["version"].ravel()) == {max(0, updates - 1)}
        np.testing.assert_array_equal(experience.env_id[:, 0, 0], [0, 2])
        step = experience.observation[:, :-1, :, 2]
        np.testing.assert_array_equal(experience.info["state"][:, :-1], step)
    steps = np.concatenate([x.observation[:, :-1, :, 1] for x in learner.observed], axis=1)
    np.testing.assert_array_equal(steps, np.arange(24)[np.newaxis, :, np.newaxis] + np.zeros((2, 1, 2)))


def test_so_many_batches_wait_for_the_learner():
    envs = make_counting_envs(2, cls=FakeEnvironment)
    kwargs = dict(unroll_length=3, learn_queue_cap=2, max_waiting_batches=3)
    driver = build_driver(AsyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), **kwargs)
    driver.start()
    try:
        waiting = 2 * 3
        # Each environment has one more unroll, for which there is no room.
        steps = 3 * (waiting + 2)
        deadline = time.monotonic() + 60
        while driver.queue_sizes()["learn_queue"] < waiting or sum(env.num_steps for env in envs) < steps:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.1)
        assert driver.queue_sizes()["learn_queue"] == waiting
        assert sum(env.num_steps for env in envs) == steps
    finally:
        driver.stop()


@pytest.mark.parametrize(
    "kwargs, message",
    [
        (dict(mode="overlap", learn_queue_cap=9, max_waiting_batches=3), None),
        (dict(mode="overlap", actor_queue_cap=3), "mode is 'overlap': actor_queue_cap must be 1 then"),
        (
            dict(mode="overlap", parameter_update_period=1),
            "parameter_update_period is 1: in the mode 'overlap'",
        ),
        (dict(mode="overlap", actor_device="CPU:0"), None),
        (dict(learn_queue_cap=9, max_waiting_batches=3), None),  # without effect
        (dict(actor_queue_cap=3), "actor_queue_cap must be 1 then, or num_groups / num_actor_queues = 4 / 1"),
        (dict(num_actor_queues=3), None),
        (dict(num_actor_queues=0), None),
        (dict(num_env_threads=2, actor_queue_cap=2), None),
        (dict(num_env_threads=2, num_actor_queues=2), None),
        (dict(num_actor_queues=2, actor_queue_cap=2), None),
        (dict(max_waiting_batches=-1), "max_waiting_batches is -1"),
        (dict(parameter_update_period=0), "parameter_update_period is 0"),
    ],
)
def test_settings_of_lockstep(kwargs, message):
    envs = make_counting_envs(4)
    kwargs = {"mode": "lockstep", **kwargs}
    make = functools.partial(
        build_driver, AsyncOffPolicyDriver, envs, RecordingLearner(FrozenPolicy(envs[0])), **kwargs
    )
    if message is None:
        make().stop()
    else:
        with pytest.raises(ConfigError, match=message):
            make()


class Twins(FrozenPolicy):
    """Two variables that every update counts up; a rollout step reads one long after the other."""

    def __init__(self, env):
        super().__init__(env, info_spec={"twins": tf.TensorSpec((2,), tf.int64)})
        self.twins = [tf.Variable(0, dtype=tf.int64) for _ in range(2)]

    def rollout_step(self, time_step, state):
        step = super().rollout_step(time_step, state)
        first = self.twins[0].read_value()
        slept = tf.numpy_function(lambda x: (time.sleep(0.003), x)[1], [first], tf.int64)
        with tf.control_dependencies([slept]):
            second = self.twins[1].read_value()
        rows = time_step.step_type.shape[0]
        twins = tf.tile([[first, second]], (rows, 1))
        return PolicyStep(step.action, step.state, {**step.info, "twins": twins})

    def update(self):
        for variable in (*self.twins, self.progress.updates):
            variable.assign_add(1)


def run_twins(**kwargs):
    """Returns the versions of the weights and the twins of all steps, and the learner's policy."""
    envs = [CountingEnvironment(2, 4, env_index=i) for i in range(2)]
    policy = Twins(envs[0])
    learner = RecordingLearner(policy)
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=3, **kwargs)
    driver.start()
    try:
        for _ in range(30):
            collect_and_observe(driver)
            policy.update()
    finally:
        driver.stop()
    versions = np.concatenate([e.policy_version.ravel() for e in learner.observed])
    twins = np.concatenate([e.info["twins"].reshape(-1, 2) for e in learner.observed])
    return versions, twins, policy


@pytest.mark.parametrize("num_actor_queues", [2, 0])
def test_actors_use_a_copy_of_the_weights_that_is_whole(num_actor_queues):
    versions, twins, _ = run_twins(num_actor_queues=num_actor_queues, parameter_update_period=3)
    np.testing.assert_array_equal(twins[:, 0], twins[:, 1])
    np.testing.assert_array_equal(versions, twins[:, 0])
    assert set(versions % 3) == {0}
    assert versions.max() > 0


@pytest.mark.parametrize("num_actor_queues", [2, 0])
def test_without_a_period_actors_use_the_learners_policy_which_may_change_meanwhile(num_actor_queues):
    """The test above would see it."""
    _, twins, policy = run_twins(num_actor_queues=num_actor_queues)
    assert policy.rows
    assert np.any(twins[:, 0] != twins[:, 1])


class CountedPolicy(FrozenPolicy):
    """Counts how often it was made. `info["version"]` is that of the weights that it acts with."""

    made = 0

    def __init__(self, env):
        CountedPolicy.made += 1
        super().__init__(env)


def test_the_actors_copy_is_no_new_policy_and_has_variables_of_its_own():
    envs = make_counting_envs(2)
    policy = CountedPolicy(envs[0])
    made = CountedPolicy.made
    learner = RecordingLearner(policy)
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=3, parameter_update_period=4)
    assert learner.policy is policy
    try:
        policy.progress.updates.assign(8)  # as a checkpoint that is loaded before start() does
        driver.start()
        for _ in range(10):
            collect_and_observe(driver)
            policy.progress.updates.assign_add(1)
    finally:
        driver.stop()
    assert CountedPolicy.made == made, "the constructor was called again"
    assert not policy.rows, "the learner's own policy acted"
    assert driver.num_broadcasts == 2  # before the updates 12 and 16
    versions = np.concatenate([e.policy_version.ravel() for e in learner.observed])
    acting = np.concatenate([e.info["version"].ravel() for e in learner.observed])
    np.testing.assert_array_equal(versions, acting)
    assert set(versions) <= {8, 12, 16} and len(set(versions)) > 1


@pytest.mark.parametrize("cls", [ImpalaAlgorithm, PPOAlgorithm])
def test_a_copy_acts_like_the_policy_and_shares_no_variable(cls):
    env = load("CartPole-v1", 4, seed=0)
    network = functools.partial(ActorCriticNetwork, rnn=LSTM, share_layers=False, spectral_norm=True)
    policy = ActorCriticPolicy(*make_specs(env), network=network)
    build_learner(cls(policy), SGD())
    actor = policy.copy()
    assert not {id(v) for v in actor.variables} & {id(v) for v in policy.variables}
    for ours, theirs in zip(actor.variables, policy.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    observation = tf.random.stateless_normal((5, 4), (1, 2))
    state = tf.nest.map_structure(lambda s: tf.ones((5, *s.shape)), policy.state_spec.train)
    before = actor._network.policy(observation, state)[0]
    np.testing.assert_array_equal(policy._network.policy(observation, state)[0], before)
    for variable in policy.trainable_variables:
        variable.assign_add(tf.ones_like(variable))
    np.testing.assert_array_equal(actor._network.policy(observation, state)[0], before)
    actor.assign(policy)
    after = policy._network.policy(observation, state)[0]
    assert np.any(after != before)
    np.testing.assert_array_equal(actor._network.policy(observation, state)[0], after)
    env.close()


def test_a_copy_has_statistics_and_a_counter_of_its_own():
    specs = make_specs(CountingEnvironment(2, 4))
    transformer = Pipeline(specs[0], tf.TensorSpec(()), [ObservationNormalizer])
    policy = ActorCriticPolicy(*specs, data_transformer=transformer)
    policy.progress.updates.assign(3)
    for variable in policy.variables:
        variable.assign_add(tf.ones_like(variable))
    actor = policy.copy()
    assert len(actor.variables) > len(actor._network.variables) + len(actor.progress)
    assert not {id(v) for v in actor.variables} & {id(v) for v in policy.variables}
    tf.nest.map_structure(np.testing.assert_array_equal, actor.variables, policy.variables)
    assert actor.data_transformer is not policy.data_transformer
    assert actor.progress.updates == 4
