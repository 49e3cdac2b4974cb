# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Clocks of stages, with a time of the test's own, and those of the threads of real drivers."""

import time

import pytest
import tensorflow as tf

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.stage_clock import (
    ASK,
    COPY,
    HAND_OVER,
    IDLE,
    INFERENCE,
    LOG,
    RECEIVE,
    REST,
    STEP,
    STORE,
    WAIT,
    Spent,
    StageClock,
    StageClocks,
    subtract,
)
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, RecordingLearner
from tests.drivers.collectors_test import make_counting
from tests.drivers.collectors_test import make_driver as make_collecting_driver

T, SLOW = 3, 0.05  # steps of an unroll; seconds


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_each_lap_counts_the_time_since_the_one_before():
    now = Time()
    clock = StageClock(now)
    for stage, seconds, times in [("a", 2.0, 1), ("b", 3.0, 5), ("a", 0.5, 0)]:
        now.now += seconds
        assert clock.lap(stage, times=times) == now.now
    assert clock.read() == {"a": (2.5, 1), "b": (3.0, 5)}


def test_parts_of_a_lap_are_not_counted_twice():
    now = Time()
    clock = StageClock(now)
    now.now += 10.0
    clock.lap("rest", [("a", 3.0, 2), ("b", 2.0, 1)], times=4)
    assert clock.read() == {"rest": (5.0, 4), "a": (3.0, 2), "b": (2.0, 1)}


def test_parts_by_a_clock_that_was_set_count_no_more_than_there_was():
    now = Time()
    clock = StageClock(now)
    now.now += 10.0
    clock.lap("rest", [("a", -3.0, 1), ("b", 12.0, 1), ("c", 1.0, 1)])
    assert clock.read() == {"rest": (0.0, 1), "a": (0.0, 1), "b": (10.0, 1), "c": (0.0, 1)}


def test_time_that_is_dropped_counts_for_no_stage():
    now = Time()
    clock = StageClock(now)
    now.now += 10.0
    StageClocks(environments=[clock]).drop()
    now.now += 1.0
    clock.lap("rest", [("a", 10.5, 1)])
    assert clock.read() == {"rest": (0.0, 1), "a": (1.0, 1)}


def test_a_reading_stays_as_it_is():
    clock = StageClock()
    clock.lap("a")
    before = clock.read()
    clock.lap("a")
    clock.lap("b")
    spent = subtract(clock.read(), before)
    assert before.keys() == {"a"} and {stage: x.times for stage, x in spent.items()} == {"a": 1, "b": 1}
    assert all(isinstance(x, Spent) and x.seconds >= 0 for x in spent.values())


def test_groups_without_threads_are_none():
    learner, actor = StageClock(), StageClock()
    assert StageClocks(learner=learner).by_group() == {"learner": [learner]}
    assert StageClocks(actors=[actor], learner=learner).by_group() == {
        "actors": [actor],
        "learner": [learner],
    }


class SlowEnvironment(FakeEnvironment):
    def __init__(self, env_index, seconds):
        super().__init__(2, env_index=env_index)
        self._seconds = seconds

    def answer(self, number, time_step):
        time.sleep(self._seconds)
        return time_step


def make_slow_policy(env):
    """A policy that sleeps."""

    def change(policy_step):
        def sleep():
            time.sleep(SLOW)
            return False

        with tf.control_dependencies([tf.numpy_function(sleep, [], tf.bool)]):
            return tf.nest.map_structure(tf.identity, policy_step)

    return FrozenPolicy(env, change=change)


def run(driver_class, num_batches=3, env=0.0, policy=FrozenPolicy, train=0.0, num_envs=1, **kwargs):
    """Collects batches; returns the envs, and what each thread has spent on all but the first two.

    That is a dict of lists by group. With the first two graphs run for the first time.
    """
    envs = [SlowEnvironment(i, env) for i in range(num_envs)]
    driver = driver_class(envs, RecordingLearner(policy(envs[0])), unroll_length=T, **kwargs)
    groups = driver.clocks.by_group()
    try:
        driver.start()
        for i in range(2 + num_batches):
            if i == 2:
                before = {clock: clock.read() for clocks in groups.values() for clock in clocks}
            driver.collect()
            time.sleep(train)
            driver.clocks.learner.lap("training")
    finally:
        driver.stop()
    spent = {x: [subtract(clock.read(), before[clock]) for clock in clocks] for x, clocks in groups.items()}
    return envs, spent, groups


def read_all(groups):
    return {group: [clock.read() for clock in clocks] for group, clocks in groups.items()}


def seconds_of(spent, *stages):
    return sum(spent.get(stage, Spent()).seconds for stage in stages)


def total(spent):
    return seconds_of(spent, *spent)


def test_all_stages_count_what_they_did():
    envs, _, groups = run(AsyncOffPolicyDriver, num_envs=3, num_actor_queues=1, actor_queue_cap=2)
    spent = read_all(groups)
    assert spent.keys() == {"environments", "actors", "learner"}
    assert len(spent["environments"]) == 3 and len(spent["actors"]) == 1
    for env, stages in zip(envs, spent["environments"], strict=True):
        # The end may refuse a step that has begun.
        assert stages[STEP].times - env.num_steps - env.num_resets in (0, 1)
        assert stages[ASK].times == stages[STEP].times
        num_unrolls = stages[REST].times - 1  # and the start
        assert num_unrolls <= env.num_steps // T <= num_unrolls + 2
        # One of the three may have waited for an actor from the beginning to the end.
        assert [stages.get(x, Spent()).times for x in (HAND_OVER, LOG)] == [num_unrolls] * 2
    (actor,) = spent["actors"]
    assert actor[INFERENCE].times == actor[IDLE].times
    num_answers = 2 * actor[INFERENCE].times
    # A call that the end broke off is not counted.
    assert 0 < num_answers <= sum(env.num_steps + 1 for env in envs)
    (learner,) = spent["learner"]
    assert learner[WAIT].times == learner["training"].times == 5 and learner[STORE].times >= 5
    assert COPY not in learner


def test_a_synchronous_driver_has_a_thread_of_environments_that_makes_the_inference():
    envs, _, groups = run(SyncOffPolicyDriver, num_envs=2)
    spent = read_all(groups)
    assert spent.keys() == {"environments", "learner"}
    (stages,) = spent["environments"]
    assert stages[STEP].times == sum(env.num_steps + env.num_resets for env in envs) == 2 * (5 * T + 1)
    assert stages[INFERENCE].times == stages[STEP].times
    assert stages[HAND_OVER].times == 5
    assert spent["learner"][0][WAIT].times == 5 + 1  # and for the resets


class TakenActions(FakeEnvironment):
    def _step(self, action):
        self._taken = action
        return super()._step(action)

    def taken_action(self):
        return self._taken


def test_the_action_that_was_taken_is_a_part_of_its_step():
    env = TakenActions(2)
    settings = {"overwrite_policy_output": True, "one_env_at_a_time": True}
    driver = AsyncOffPolicyDriver([env], RecordingLearner(FrozenPolicy(env)), unroll_length=T, **settings)
    assert driver.clocks.takes_turns
    try:
        driver.start()
        for _ in range(3):
            driver.collect()
    finally:
        driver.stop()
    spent = driver.clocks.environments[0].read()
    assert (
        0 <= spent[STEP].times - env.num_steps - env.num_resets <= 1 and spent[ASK].times == spent[STEP].times
    )


@pytest.mark.parametrize("driver_class", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_a_slow_environment(driver_class):
    _, spent, _ = run(driver_class, env=SLOW)
    (stages,), (learner,) = spent["environments"], spent["learner"]
    assert stages[STEP].seconds >= SLOW * (stages[STEP].times - 1)  # the end may refuse one that has begun
    assert learner[WAIT].seconds >= 2 * T * SLOW * 0.9
    assert stages[STEP].seconds > 0.5 * total(stages)


def test_a_slow_actor():
    _, spent, _ = run(AsyncOffPolicyDriver, policy=make_slow_policy)
    (stages,), (actor,), (learner,) = spent.values()
    assert actor[INFERENCE].seconds >= 0.99 * SLOW * actor[INFERENCE].times
    assert stages[ASK].seconds >= 0.99 * SLOW * (stages[ASK].times - 1)
    assert actor[INFERENCE].seconds > 0.5 * total(actor) and stages[ASK].seconds > 0.5 * total(stages)
    assert learner[WAIT].seconds >= 2 * T * SLOW * 0.9


def test_a_slow_policy_of_a_synchronous_driver():
    _, spent, _ = run(SyncOffPolicyDriver, policy=make_slow_policy)
    (stages,) = spent["environments"]
    assert stages[INFERENCE].seconds >= 0.99 * SLOW * 3 * T > 0.5 * total(stages)


@pytest.mark.parametrize(
    "driver_class, kwargs",
    [
        pytest.param(AsyncOffPolicyDriver, {}, id="async"),
        pytest.param(AsyncOffPolicyDriver, {"max_waiting_batches": 0}, id="lockstep"),
        pytest.param(SyncOffPolicyDriver, {}, id="sync"),
    ],
)
def test_a_slow_learner(driver_class, kwargs):
    train = 0.5
    _, spent, _ = run(driver_class, num_batches=5, train=train, **kwargs)
    (stages,), (learner,) = spent["environments"], spent["learner"]
    assert stages[HAND_OVER].seconds >= 3 * train  # the last one or two waits had not ended
    assert stages[HAND_OVER].seconds > max(seconds_of(stages, stage) for stage in (STEP, ASK, INFERENCE, LOG))
    assert learner["training"].seconds >= 5 * train


def test_slow_metrics():
    observers = [lambda record: time.sleep(0.2)]
    _, spent, _ = run(AsyncOffPolicyDriver, num_batches=10, observers=observers)
    (stages,) = spent["environments"]
    assert stages[LOG].seconds >= 3 * 0.2  # the log queue has room for a few
    assert stages[LOG].seconds > seconds_of(stages, STEP, ASK, HAND_OVER)


def test_copies_of_the_weights_are_no_wait_for_experience():
    envs = [SlowEnvironment(0, 0.0)]
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    driver = AsyncOffPolicyDriver(envs, learner, unroll_length=T, parameter_update_period=1)
    try:
        driver.start()
        for _ in range(4):
            driver.collect()
            learner.progress.updates.assign_add(1)
    finally:
        driver.stop()
    spent = driver.clocks.learner.read()
    assert spent[COPY].times == 3 and spent[WAIT].times == 4


@pytest.mark.parametrize("max_waiting_batches", [0, 1])
def test_collectors(max_waiting_batches):
    def make_slow(first_env, num_envs):
        envs, policy = make_counting(first_env, num_envs)
        for env in envs:
            step = env._step
            env._step = lambda action, step=step: (time.sleep(0.02), step(action))[1]
        return envs, policy

    driver, learner, _ = make_collecting_driver(
        0, 1, 2, make=make_slow, learn_queue_cap=2, max_waiting_batches=max_waiting_batches
    )
    try:
        driver.start()
        for _ in range(4):
            driver.collect()
            time.sleep(0.2)
    finally:
        driver.stop()
    groups = driver.clocks.by_group()
    assert groups.keys() == {"collectors", "learner"}
    spent = groups["collectors"][0].read()
    assert spent[REST].times >= 4 * 2  # unrolls
    assert spent[RECEIVE].seconds > 0.02 and spent[HAND_OVER].seconds > 0.1
