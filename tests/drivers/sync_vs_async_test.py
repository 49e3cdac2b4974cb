# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""With frozen weights and the same seeds, both drivers collect the same, bit for bit."""

import time

import numpy as np
import pytest
import tensorflow as tf

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import BoundedArraySpec, load
from alf.ops import draws
from alf.testing.fakes import (
    FrozenPolicy,
    RecordingLearner,
    SpecEnvironment,
    assert_equal_nests,
    in_a_row,
)
from alf.testing.toy_environments import CountingEnvironment, MatchObservationEnvironment
from tests.builders import build_driver, collect_and_observe

UNROLLS = 6  # of every environment


def make_cartpole(index):
    return load("CartPole-v1", 4, seed=100 * index)


def make_match(index):
    return MatchObservationEnvironment(3, episode_length=7, seed=index)


def make_counting(index):
    return CountingEnvironment(2, 3, env_index=index)


def make_nested(index):
    """Nests of every kind, and a reward vector."""
    return SpecEnvironment(
        batch_size=2,
        observation_spec={
            "image": BoundedArraySpec((4, 3, 1), np.uint8, 0, 255),
            "more": (
                BoundedArraySpec((2,), np.float64, 0, 100),
                BoundedArraySpec((), np.int32, 0, 100),
            ),
        },
        action_spec={
            "move": BoundedArraySpec((), np.int32, 0, 4),
            "turn": BoundedArraySpec((2,), np.float32, -1, 3),
        },
        reward_spec=BoundedArraySpec((3,), np.float32, 0, 100),
        seed=index,
    )


def collect(driver, num_groups, learner):
    """Runs the driver until every environment has given `UNROLLS` unrolls; returns these."""
    deadline = time.monotonic() + 60
    try:
        driver.start()
        while min(map(len, learner.unrolls(num_groups))) < UNROLLS:
            collect_and_observe(driver)
            assert time.monotonic() < deadline, "an environment starves"
    finally:
        driver.stop()
    return [unrolls[:UNROLLS] for unrolls in learner.unrolls(num_groups)]


# num_groups, num_env_threads, num_actor_queues, actor_queue_cap, learn_queue_cap, unroll_length
FEW = (2, None, 1, 1, 1, 5)
PAIRS = (4, None, 2, 2, 3, 3)
UNEVEN = (5, None, 2, 2, 4, 1)
WITHOUT_ACTORS = (3, None, 0, 1, 2, 4)
TWO_THREADS = (6, 2, 1, 2, 4, 3)
ONE_THREAD = (3, 1, 0, 1, 2, 4)


def make_learner(make_env, num_groups):
    envs = [make_env(i) for i in range(num_groups)]
    return envs, RecordingLearner(FrozenPolicy(envs[0], counts_steps=True))


@pytest.fixture(
    scope="module",
    params=[
        (make_cartpole, PAIRS),
        (make_match, FEW),
        (make_counting, UNEVEN),
        (make_counting, WITHOUT_ACTORS),
        (make_nested, PAIRS),
        (make_nested, TWO_THREADS),
        (make_cartpole, ONE_THREAD),
    ],
    ids=["cartpole", "match", "counting", "without actors", "nested", "two threads", "one thread"],
)
def synchronous(request):
    """What the synchronous driver collects with a setting: this, the environments' maker, and the setting."""
    make_env, setting = request.param
    num_groups, *_, unroll_length = setting
    envs, learner = make_learner(make_env, num_groups)
    driver = build_driver(SyncOffPolicyDriver, envs, learner, unroll_length=unroll_length)
    return collect(driver, num_groups, learner), make_env, setting


def test_async_collects_what_sync_collects(synchronous):
    expected, make_env, setting = synchronous
    num_groups, num_env_threads, num_actor_queues, actor_queue_cap, learn_queue_cap, unroll_length = setting
    envs, learner = make_learner(make_env, num_groups)
    driver = build_driver(
        AsyncOffPolicyDriver,
        envs,
        learner,
        num_env_threads=num_env_threads,
        num_actor_queues=num_actor_queues,
        actor_queue_cap=actor_queue_cap,
        learn_queue_cap=learn_queue_cap,
        unroll_length=unroll_length,
    )
    assert_equal_nests(collect(driver, num_groups, learner), expected)


def test_an_environment_answers_the_same_actions_with_the_same_rows(synchronous):
    """What both drivers could get wrong together."""
    collected, make_env, _ = synchronous
    for index, unrolls in enumerate(collected):
        rows = in_a_row(unrolls)
        env = make_env(index)
        time_step = env.reset()
        for t in range(len(rows.step_type)):
            row = tf.nest.map_structure(lambda x, t=t: x[t], rows)
            np.testing.assert_array_equal(row.step_type, time_step.step_type)
            np.testing.assert_array_equal(row.reward, time_step.reward)
            np.testing.assert_array_equal(row.discount, time_step.discount)
            assert_equal_nests(row.observation, time_step.observation)
            time_step = env.step(row.action)


def test_other_environments_collect_something_else(synchronous):
    """The comparisons above would see a difference."""
    collected, *_ = synchronous
    observations = [in_a_row(unrolls).observation for unrolls in collected[:2]]
    with pytest.raises(AssertionError):
        assert_equal_nests(*observations)


def roll(policy_step):
    """Draws the actions: numbers of all kinds."""
    rows = policy_step.action.shape[0]
    drawn = draws.uniform((rows,)) < 0.3
    drawn ^= draws.normal((rows,)) < 0.5
    drawn ^= tf.cast(draws.categorical(tf.zeros((rows, 2)), tf.int32), tf.bool)
    drawn ^= draws.gamma(tf.ones((rows,))) < 0.7
    return policy_step._replace(action=tf.cast(drawn, policy_step.action.dtype))


def roll_in(driver_class, setting, seed):
    num_groups, num_env_threads, num_actor_queues, actor_queue_cap, learn_queue_cap, unroll_length = setting
    tf.random.set_seed(seed)
    envs = [make_counting(i) for i in range(num_groups)]
    learner = RecordingLearner(FrozenPolicy(envs[0], change=roll))
    settings = dict(num_actor_queues=num_actor_queues, actor_queue_cap=actor_queue_cap)
    settings["num_env_threads"] = num_env_threads
    settings |= dict(learn_queue_cap=learn_queue_cap, unroll_length=unroll_length)
    driver = build_driver(driver_class, envs, learner, **settings)
    return [in_a_row(unrolls).action for unrolls in collect(driver, num_groups, learner)]


@pytest.mark.parametrize("setting", [FEW, PAIRS, WITHOUT_ACTORS, TWO_THREADS, ONE_THREAD])
def test_random_numbers_belong_to_environments(setting):
    """Whichever actor answers, and whatever else is in its batch."""
    expected = roll_in(SyncOffPolicyDriver, setting, seed=3)
    assert_equal_nests(roll_in(AsyncOffPolicyDriver, setting, seed=3), expected)
    with pytest.raises(AssertionError):
        assert_equal_nests(roll_in(AsyncOffPolicyDriver, setting, seed=4), expected)
    # Neither do environments share numbers, nor do rows or steps.
    columns = np.concatenate(expected, axis=1).T
    assert len({tuple(column) for column in columns}) == len(columns)
    assert 0.2 < columns.mean() < 0.8 and (columns[:, 1:] != columns[:, :-1]).any(axis=1).all()
