# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Clocks of stages, with a time of the test's own, and those of the threads of real drivers."""

import functools
import itertools
import time

import numpy as np
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
from tests.builders import build_driver, collect_and_observe
from tests.drivers.collectors_test import make_counting
from tests.drivers.collectors_test import make_driver as make_collecting_driver

T, SLOW = 3, 0.5  # steps of an unroll; seconds of the time of `clock`
# Places in `Time.stamps`: a thread of an environment is at the log queue, at the learn queue, and after both.
AT_LOG, AT_LEARNER, DONE = range(3)


class Time:
    """A time that goes on when the test says so.

    Attributes:
        stamps: how often each operation that graphs have in place of `tf.timestamp` was run.
    """

    def __init__(self):
        self.now, self.stamps = 100.0, []

    def __call__(self):
        return self.now

    def make_timestamp(self):
        """What `tf.timestamp` does, with this time."""
        place = len(self.stamps)
        self.stamps.append(0)

        def stamp():
            self.stamps[place] += 1
            return np.float64(self.now)

        timestamp = tf.numpy_function(stamp, [], tf.float64)
        timestamp.set_shape(())
        return timestamp


@pytest.fixture
def clock(monkeypatch):
    """The time of all clocks of drivers and of their graphs: nothing but what is slow in a test takes any."""
    time = Time()
    monkeypatch.setattr(StageClock.__init__, "__defaults__", (time,))
    monkeypatch.setattr(tf, "timestamp", time.make_timestamp)
    return time


def wait_until(condition):
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


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
    def __init__(self, env_index, take):
        super().__init__(2, env_index=env_index)
        self._take = take

    def answer(self, number, time_step):
        self._take()
        return time_step


def make_slow_policy(env, take):
    """A policy that takes its time."""

    def change(policy_step):
        with tf.control_dependencies([tf.numpy_function(lambda: (take(), False)[1], [], tf.bool)]):
            return tf.nest.map_structure(tf.identity, policy_step)

    return FrozenPolicy(env, change=change)


def take_nothing():
    pass


def make_driver(driver_class, env=take_nothing, policy=None, num_groups=1, **kwargs):
    """A driver whose environments call `env` in each step."""
    envs = [SlowEnvironment(i, env) for i in range(num_groups)]
    learner = RecordingLearner(policy or FrozenPolicy(envs[0]))
    # The watch for stalls has a time of its own.
    return build_driver(driver_class, envs, learner, unroll_length=T, stall_timeout=None, **kwargs), envs


def run(driver, num_batches=5, train=lambda: None):
    """Collects batches, with `train` after each; returns what each thread has spent, dicts by group."""
    try:
        driver.start()
        for _ in range(num_batches):
            collect_and_observe(driver)
            train()
            driver.clocks.learner.lap("training")
    finally:
        driver.stop()
    return {group: [clock.read() for clock in clocks] for group, clocks in driver.clocks.by_group().items()}


def seconds_of(spent):
    """The seconds of the stages that took any."""
    return {stage: pytest.approx(x.seconds) for stage, x in spent.items() if x.seconds}


def test_all_stages_count_what_they_did():
    driver, envs = make_driver(AsyncOffPolicyDriver, num_groups=3, num_actor_queues=1, actor_queue_cap=2)
    spent = run(driver)
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
    assert all(x.seconds > 0 for x in (learner[WAIT], actor[INFERENCE], spent["environments"][0][STEP]))


def test_without_actors_the_threads_of_environments_make_the_inference():
    driver, envs = make_driver(AsyncOffPolicyDriver, num_groups=2, num_actor_queues=0)
    spent = run(driver)
    assert spent.keys() == {"environments", "learner"}
    for env, stages in zip(envs, spent["environments"], strict=True):
        assert stages[STEP].times - env.num_steps - env.num_resets in (0, 1)  # as above
        assert stages[INFERENCE].times == stages[STEP].times and ASK not in stages


def test_a_synchronous_driver_has_a_thread_of_environments_that_makes_the_inference():
    driver, envs = make_driver(SyncOffPolicyDriver, num_groups=2)
    spent = run(driver)
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
    settings = {"overwrite_policy_output": True}
    driver = build_driver(
        AsyncOffPolicyDriver, [env], RecordingLearner(FrozenPolicy(env)), unroll_length=T, **settings
    )
    (spent,) = run(driver, num_batches=3)["environments"]
    assert (
        0 <= spent[STEP].times - env.num_steps - env.num_resets <= 1 and spent[ASK].times == spent[STEP].times
    )


# In lockstep an environment steps while the learner waits for it, and at no other time.
LOCKSTEP = functools.partial(build_driver, AsyncOffPolicyDriver, mode="lockstep")
LOCKSTEP_AND_SYNC = pytest.mark.parametrize(
    "driver_class", [pytest.param(LOCKSTEP, id="lockstep"), pytest.param(SyncOffPolicyDriver, id="sync")]
)


@LOCKSTEP_AND_SYNC
def test_a_slow_environment_is_where_all_time_goes(clock, driver_class):
    driver, (env,) = make_driver(driver_class, env=lambda: setattr(clock, "now", clock.now + SLOW))
    spent = run(driver)
    assert env.num_steps == 5 * T
    assert seconds_of(spent["environments"][0]) == {STEP: SLOW * (5 * T + 1)}  # and the reset
    waits = seconds_of(spent["learner"][0]).keys()
    # The reset may be over before `collect` begins to wait.
    assert waits == {WAIT} if driver_class is SyncOffPolicyDriver else waits <= {WAIT, STORE, REST}
    assert 5 * T * SLOW <= spent["learner"][0][WAIT].seconds + 1e-6 <= (5 * T + 1) * SLOW + 1e-5


@LOCKSTEP_AND_SYNC
def test_a_slow_policy_is_where_all_time_goes(clock, driver_class):
    env = SlowEnvironment(0, take_nothing)
    policy = make_slow_policy(env, take=lambda: setattr(clock, "now", clock.now + SLOW))
    driver, _ = make_driver(driver_class, policy=policy)
    spent = run(driver)
    total = pytest.approx(5 * T * SLOW)
    stages, learner = spent["environments"][0], spent["learner"][0]
    assert seconds_of(stages) == {INFERENCE if driver_class is SyncOffPolicyDriver else ASK: total}
    assert seconds_of(learner) == {WAIT: total}
    for actor in spent.get("actors", ()):
        # The graph of the last batches was broken off by the end, and is not counted.
        assert seconds_of(actor) == {INFERENCE: SLOW * actor[INFERENCE].times}


@pytest.mark.parametrize(
    "driver_class",
    [
        pytest.param(AsyncOffPolicyDriver, id="async"),
        pytest.param(LOCKSTEP, id="lockstep"),
        pytest.param(SyncOffPolicyDriver, id="sync"),
    ],
)
def test_environments_wait_for_a_slow_learner(clock, driver_class):
    driver, _ = make_driver(driver_class)
    (stages,), num_batches = driver.clocks.environments, itertools.count(1)

    def train():
        taken = next(num_batches)
        if driver_class is LOCKSTEP:  # The stage REST counts the start, too.
            wait_until(lambda: stages.read()[REST].times == 1 + taken)
        if driver_class is AsyncOffPolicyDriver:  # One unroll waits in the queue, and the next one at it.
            wait_until(lambda: clock.stamps[AT_LEARNER : DONE + 1] == [taken + 2, taken + 1])
        clock.now += SLOW

    spent = run(driver, train=train)
    # The end broke the last wait off.
    assert seconds_of(spent["environments"][0]) == {HAND_OVER: 4 * SLOW}
    assert seconds_of(spent["learner"][0]) == {"training": 5 * SLOW}


def test_environments_wait_for_slow_metrics(clock):
    num_records = itertools.count(1)

    def observe(record):
        taken = next(num_records)
        if taken <= 2:  # Four records wait in the queue, and the next one at it.
            wait_until(lambda: clock.stamps[: AT_LEARNER + 1] == [taken + 5, taken + 4])
            clock.now += SLOW

    driver, _ = make_driver(AsyncOffPolicyDriver, observers=[observe])
    (stages,) = driver.clocks.environments
    driver.start()
    try:
        is_slow = lambda: stages.read().get(LOG, Spent()).seconds > 1.5 * SLOW  # noqa: E731
        wait_until(lambda: collect_and_observe(driver) and is_slow())
    finally:
        driver.stop()
    assert seconds_of(stages.read()) == {LOG: 2 * SLOW}


def test_copies_of_the_weights_are_no_wait_for_experience():
    driver, _ = make_driver(AsyncOffPolicyDriver, parameter_update_period=1)
    spent = run(driver, 4, train=lambda: driver.learner.progress.updates.assign_add(1))["learner"][0]
    assert spent[COPY].times == 3 and spent[WAIT].times == 4


@pytest.mark.parametrize("mode", ["lockstep", "async"])
def test_a_thread_waits_for_collectors_and_for_the_learner(mode):
    def make_slow(first_env, num_groups):
        envs, policy = make_counting(first_env, num_groups)
        for env in envs:
            step = env._step
            env._step = lambda action, step=step: (time.sleep(0.005), step(action))[1]
        return envs, policy

    driver, *_ = make_collecting_driver(0, 1, 2, make=make_slow, learn_queue_cap=2, mode=mode)
    batches = itertools.count(1)

    def has_waited():
        collect_and_observe(driver)
        next(batches)
        time.sleep(0.05)  # The learner trains.
        spent = driver.clocks.collectors[0].read()
        return all(spent.get(stage, Spent()).seconds > 0.02 for stage in (RECEIVE, HAND_OVER))

    try:
        driver.start()
        wait_until(has_waited)
    finally:
        driver.stop()
    groups = driver.clocks.by_group()
    assert groups.keys() == {"collectors", "learner"}
    assert groups["collectors"][0].read()[REST].times >= 2 * (next(batches) - 1)  # unrolls
