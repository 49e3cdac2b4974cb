# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A driver that waits for something that does not come says so, and ends if it should."""

import re
import threading
import time
import types
from unittest import mock

import pytest
from absl import logging

from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver, watch
from alf.drivers.stage_clock import StageClock
from alf.drivers.stall_watch import StallWatch
from alf.errors import StallError
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, RecordingLearner
from tests.builders import build_driver, collect_and_observe
from tests.drivers.collectors_test import ThreadCollectors

DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]
TIMEOUT = 0.05  # seconds of the time of `clock`; the watch looks five times as often, in real time


class Time:
    """A time that goes on when the test says so: on a busy machine healthy threads may take long, too."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def wait_until(condition):
    deadline = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class WaitingEnvironment(FakeEnvironment):
    """Calls `act(env)` in each step; and hangs in step `wait_at`, 0 being the reset.

    When it hangs, and no other environment is in a call that began before, much time passes. With `others` it
    waits until another one is in a call that began later, and lets that hang too.

    Attributes:
        hangs, release: `threading.Event`s.
        num_dumps: calls of `dump_stacks`.
    """

    def __init__(self, env_index, clock, wait_at=None, others=False, act=lambda env: None):
        super().__init__(2, env_index=env_index)
        self._env_index, self._clock, self._wait_at, self._act = env_index, clock, wait_at, act
        self._others = others
        self.hangs, self.release = threading.Event(), threading.Event()
        self.num_dumps = 0

    def answer(self, number, time_step):
        self._act(self)
        if number == self._wait_at:
            self.hangs.set()
            self._clock.now += 0.1 * TIMEOUT  # so that later calls of others are later by the clock, too
            wait_until(self._is_first)
            self._clock.now += 100.0
            self.release.wait(60.0)
        return time_step

    def _is_first(self):
        calls = self.driver._unroller.calls.copy()
        _, since = calls.pop(self._env_index)
        others = [call[1] > since for call in calls if call is not None]
        return all(others) and any(others) >= self._others

    def dump_stacks(self):
        self.num_dumps += 1
        raise OSError("no stacks")


@pytest.fixture
def clock(monkeypatch):
    """The time of drivers and of their watches."""
    clock = Time()
    monkeypatch.setattr(StageClock.__init__, "__defaults__", (clock,))
    monkeypatch.setattr(watch, "time", types.SimpleNamespace(monotonic=clock))
    return clock


@pytest.fixture
def looks(monkeypatch):
    """Waits until the watch has looked twice more, from its beginning to its end."""
    count, find = [], StallWatch._find

    def count_and_find(*args):
        found = find(*args)
        count.append(1)
        return found

    def look_twice():
        number = len(count)
        wait_until(lambda: len(count) >= number + 3)  # The first one may have begun before.

    monkeypatch.setattr(StallWatch, "_find", count_and_find)
    return look_twice


@pytest.fixture
def make_driver(clock):
    drivers = []

    def make(driver_class, *kwargs_of_envs, **kwargs):
        envs = [WaitingEnvironment(i, clock, **kwargs) for i, kwargs in enumerate(kwargs_of_envs)]
        kwargs = {"stall_timeout": TIMEOUT, **kwargs}
        driver = build_driver(
            driver_class, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3, **kwargs
        )
        for env in envs:
            env.driver = driver
        drivers.append((driver, envs))
        return driver, envs

    yield make
    for driver, envs in drivers:
        for env in envs:
            env.release.set()
        driver.stop()


@pytest.fixture
def errors(monkeypatch):
    """The errors that are logged, a list of texts."""
    texts = []
    monkeypatch.setattr(logging, "error", lambda text, *args: texts.append(text % args))
    return texts


def collect_on(driver):
    """Calls `collect` until it fails."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        collect_and_observe(driver)


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("wait_at, stage", [(0, "reset"), (5, "step")])
def test_an_environment_that_hangs_ends_the_run(make_driver, errors, capfd, driver_class, wait_at, stage):
    is_async = driver_class is AsyncOffPolicyDriver

    def hang_too(env):
        (_, since), other = driver._unroller.calls
        if envs[1].hangs.is_set() and since > other[1]:
            env.release.wait(60.0)

    driver, envs = make_driver(driver_class, {"act": hang_too}, {"wait_at": wait_at, "others": is_async})
    with pytest.raises(StallError) as raised:
        driver.start()
        collect_on(driver)
    assert str(raised.value).startswith(f"envs[1] (WaitingEnvironment) in {stage} for 100.0 s, longer than")
    other = r"envs\[0\] \(WaitingEnvironment\) in (reset|step) for 100.0 s" if is_async else "no environment"
    text = rf"longer than stall_timeout=0\.05; also in a call: {other}; queues: \{{"
    assert re.search(text, str(raised.value))
    assert ("learn_queue" in str(raised.value)) == is_async
    assert errors == [str(raised.value)]
    stacks = capfd.readouterr().err
    assert "most recent call first" in stacks and "in answer" in stacks
    assert [env.num_dumps for env in envs] == [1, 1]
    with pytest.raises(StallError):
        collect_and_observe(driver)


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_a_warning_comes_once_in_a_timeout_and_the_run_goes_on(
    make_driver, errors, clock, looks, driver_class
):
    driver, envs = make_driver(driver_class, {"wait_at": 4}, on_stall="warn")
    counts = []

    def go_on():
        wait_until(lambda: errors)
        for seconds in (0.0, 0.6 * TIMEOUT, 0.6 * TIMEOUT):
            clock.now += seconds
            looks()
            counts.append(len(errors))
        envs[0].release.set()

    helper = threading.Thread(target=go_on)
    helper.start()
    driver.start()
    for _ in range(5):
        collect_and_observe(driver)
    helper.join(60.0)
    assert counts == [1, 1, 2] and len(errors) == 2
    assert len(driver.learner.observed) == 5


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_slow_environments_and_a_slow_learner_are_no_stall(make_driver, errors, clock, looks, driver_class):
    def step_slowly(env):
        clock.now += 0.2 * TIMEOUT

    # In lockstep, so that no environment steps while the learner trains.
    kwargs = {} if driver_class is SyncOffPolicyDriver else {"mode": "lockstep"}
    driver, (env,) = make_driver(driver_class, {"act": step_slowly}, **kwargs)
    driver.start()
    for _ in range(4):  # The reset and an unroll take 0.8 of the time-out, all together takes much more.
        collect_and_observe(driver)
        looks()
    clock.now += 100.0  # The learner trains.
    looks()
    collect_and_observe(driver)
    assert errors == [] and env.num_steps == 5 * 3


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_none_never_watches(make_driver, errors, driver_class):
    driver, _ = make_driver(driver_class, {}, stall_timeout=None)
    driver.start()
    collect_and_observe(driver)
    assert errors == []
    assert "StallWatch" not in [thread.name for thread in threading.enumerate()]


def test_collect_waits_although_no_environment_does(make_driver, errors, clock):
    """No environment gets the order to make an unroll."""
    driver, (env,) = make_driver(AsyncOffPolicyDriver, {}, mode="lockstep")
    driver._orders = []

    def let_time_pass():
        wait_until(lambda: env.num_resets == 1 and driver._unroller.calls == [None])
        wait_until(lambda: driver._threads._waiting_since is not None)
        clock.now += 100.0

    helper = threading.Thread(target=let_time_pass)
    helper.start()
    driver.start()
    with pytest.raises(StallError, match="^collect waits for 100.0 s, longer than stall_timeout=0.05"):
        collect_on(driver)
    helper.join(60.0)
    assert len(errors) == 1


class SilentCollectors(ThreadCollectors):
    """They answer nothing."""

    def request(self, index):
        pass


def test_collect_waits_for_collectors_alone(errors, clock):
    env = FakeEnvironment(2)
    driver = build_driver(
        AsyncOffPolicyDriver,
        [],
        RecordingLearner(FrozenPolicy(env)),
        collectors=SilentCollectors(mock.Mock(), EnvSpecs([env]), num_collectors=1, num_groups=1),
        stall_timeout=TIMEOUT,
    )

    def let_time_pass():
        wait_until(lambda: driver._threads._waiting_since is not None)
        clock.now += 100.0

    helper, alarm = threading.Thread(target=let_time_pass), threading.Timer(60.0, driver.interrupt)
    for thread in (helper, alarm):
        thread.start()
    try:
        driver.start()
        with pytest.raises(StallError, match="^collect waits for 100.0 s, longer than stall_timeout=0.05"):
            collect_and_observe(driver)
    finally:
        alarm.cancel()
        driver.stop()
    helper.join(60.0)
    assert len(errors) == 1
