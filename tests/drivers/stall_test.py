# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A driver that waits for something that does not come says so, and ends if it should."""

import re
import threading
import time

import pytest
from absl import logging

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import StallError
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, RecordingLearner

DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]
TIMEOUT = 1.5  # seconds; a step and a switch of threads take less, beside a busy process too
SECONDS = 15.0  # that the watch may take, with the stacks, beside a busy process


class WaitingEnvironment(FakeEnvironment):
    """Waits `seconds` in each step from `wait_from` on, 0 being the reset, or until `release` is set.

    Attributes:
        num_dumps: calls of `dump_stacks`.
    """

    def __init__(self, batch_size, env_index=0, wait_from=10**9, seconds=0.0):
        super().__init__(batch_size, env_index=env_index)
        self._wait_from = wait_from
        self._seconds = seconds
        self.release = threading.Event()
        self.num_dumps = 0

    def answer(self, number, time_step):
        if number >= self._wait_from:
            self.release.wait(self._seconds)
        return time_step

    def dump_stacks(self):
        self.num_dumps += 1
        raise OSError("no stacks")


@pytest.fixture
def make_driver():
    drivers = []

    def make(driver_class, *kwargs_of_envs, policy=FrozenPolicy, **kwargs):
        envs = [WaitingEnvironment(2, i, **kwargs) for i, kwargs in enumerate(kwargs_of_envs)]
        kwargs = {"stall_timeout": TIMEOUT, "stop_timeout": 0.5, **kwargs}
        driver = driver_class(envs, RecordingLearner(policy(envs[0])), unroll_length=3, **kwargs)
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


def collect_for(driver, seconds):
    """Calls `collect` until it fails, at most for some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        driver.collect()


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("wait_from, stage", [(0, "reset"), (5, "step")])
def test_an_environment_that_hangs(make_driver, errors, capfd, driver_class, wait_from, stage):
    driver, envs = make_driver(driver_class, {}, {"wait_from": wait_from, "seconds": 60})
    start = time.monotonic()
    with pytest.raises(StallError) as raised:
        driver.start()
        collect_for(driver, 40)
    assert time.monotonic() - start < SECONDS
    assert str(raised.value).startswith(f"envs[1] (WaitingEnvironment) in {stage} for ")
    # The other environment goes on until the learner has no place for its unrolls.
    other = r"(no environment|envs\[0\] \(WaitingEnvironment\) in (reset|step) for 0\.\d s)"
    text = rf"longer than stall_timeout=1\.5; also in a call: {other}; queues: \{{"
    assert re.search(text, str(raised.value))
    assert ("learn_queue" in str(raised.value)) == (driver_class is AsyncOffPolicyDriver)
    assert errors == [str(raised.value)]
    stacks = capfd.readouterr().err
    assert "most recent call first" in stacks and "in answer" in stacks
    assert [env.num_dumps for env in envs] == [1, 1]
    with pytest.raises(StallError):
        driver.collect()


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_a_warning_comes_once_in_a_timeout_and_the_run_goes_on(make_driver, errors, driver_class):
    driver, envs = make_driver(driver_class, {"wait_from": 4, "seconds": 60}, on_stall="warn")

    def release():
        deadline = time.monotonic() + SECONDS
        while len(errors) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        envs[0].release.set()

    helper = threading.Thread(target=release)
    start = time.monotonic()
    helper.start()
    driver.start()
    for _ in range(5):
        driver.collect()
    helper.join()
    assert 2 <= len(errors) <= (time.monotonic() - start) / TIMEOUT
    assert len(driver.learner.observed) == 5


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_slow_environments_and_a_slow_learner_are_no_stall(make_driver, errors, driver_class):
    # An unroll of 3 steps in two environments takes 0.6 s.
    slow = {"wait_from": 0, "seconds": 0.1}
    driver, _ = make_driver(driver_class, slow, slow, stall_timeout=3.0)
    driver.start()
    collect_for(driver, 4.0)
    time.sleep(4.0)  # The learner trains.
    driver.collect()
    assert errors == []


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_none_never_watches(make_driver, errors, driver_class):
    driver, _ = make_driver(driver_class, {"wait_from": 2, "seconds": 1.0}, stall_timeout=None)
    driver.start()
    driver.collect()
    assert errors == []
    assert "StallWatch" not in [thread.name for thread in threading.enumerate()]


def test_collect_waits_although_no_environment_does(make_driver, errors):
    """Each step is quick, but nothing ever arrives: the unroll needs more steps than there is time."""
    driver, envs = make_driver(AsyncOffPolicyDriver, {})
    driver._is_lockstep = True
    queue = driver._tf_queues.learn_queue
    driver.start()
    take = type(queue).dequeue_many
    queue.dequeue_many = lambda n: take(queue, n + 1)  # of one unroll that can wait
    driver._is_lockstep = False
    with pytest.raises(StallError, match="^collect waits for .* s, longer than stall_timeout=1.5"):
        collect_for(driver, 40)
    assert len(errors) == 1
