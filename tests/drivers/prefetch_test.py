# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""DriverSettings.prefetch: the next batch is taken and loaded while the learner trains.

That nothing is lost and that all threads end is in the tests of all drivers, such as `accounting_test`.
"""

import threading
import time

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.drivers import AsyncOffPolicyDriver
from alf.drivers.collector import Collector
from alf.drivers.prefetch_thread import PrefetchThread
from alf.errors import InterruptedDriverError, StallError
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, RecordingLearner, make_counting_envs
from tests.builders import build_driver, collect_and_observe

T = 3
PATIENCE = 60.0  # seconds


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.002)


@pytest.fixture
def start_driver():
    """A function that starts a driver of one environment and returns both; it is stopped after the test."""
    drivers, timers = [], []

    def start(driver_class=AsyncOffPolicyDriver, **kwargs):
        (env,) = make_counting_envs(1, cls=FakeEnvironment)
        learner = RecordingLearner(FrozenPolicy(env))
        driver = build_driver(driver_class, [env], learner, unroll_length=T, **kwargs)
        timers.append(threading.Timer(PATIENCE, driver.interrupt))
        timers[-1].start()
        driver.start()
        drivers.append(driver)
        return driver, env

    yield start
    for timer in timers:
        timer.cancel()
    for driver in drivers:
        driver.stop()


@pytest.mark.parametrize("prefetch", [False, True])
def test_one_batch_more_is_there_before_training_ends_and_is_one_update_older(start_driver, prefetch):
    driver, env = start_driver(prefetch=prefetch)
    # The batch of the thread, one in the learn queue, and an unroll that finds no place there.
    waiting = 2 + prefetch
    for number in range(8):
        collect_and_observe(driver)
        # The learner trains until all stands still.
        steps = T * (number + 1 + waiting)
        wait_until(lambda steps=steps: env.num_steps == steps)
        wait_until(lambda: driver._tf_queues.batch_ready.size() == prefetch)
        wait_until(lambda: driver.queue_sizes()["learn_queue"] == 1)
        driver.learner.progress.updates.assign_add(1)
    lags = [number - e.policy_version for number, e in enumerate(driver.learner.observed)]
    assert set(np.ravel(lags[4:])) == {waiting}


class FailingDriver(AsyncOffPolicyDriver):
    """Its second batch cannot be loaded."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loads = tf.Variable(0)

    def _load_batch(self):
        fits = self.loads.assign_add(1) < 2
        with tf.control_dependencies([tf.debugging.Assert(fits, ["no memory on the device"])]):
            return super()._load_batch()


def test_an_error_of_the_thread_ends_the_run(start_driver):
    driver, env = start_driver(FailingDriver, prefetch=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no memory on the device"):
        for _ in range(3):
            collect_and_observe(driver)
    driver.stop()
    assert env.num_closes == 1


def test_a_batch_that_does_not_come_is_a_stall(start_driver, monkeypatch):
    monkeypatch.setattr(PrefetchThread, "work", lambda thread: thread._queues.batch_taken.dequeue())
    driver, _ = start_driver(prefetch=True, stall_timeout=1)
    with pytest.raises(StallError, match="^collect waits for .* longer than stall_timeout=1"):
        collect_and_observe(driver)


def test_an_interrupt_while_a_call_of_the_environments_makes_room(start_driver, monkeypatch):
    driver, env = start_driver(prefetch=True)
    take = driver._take_batch

    def interrupt_and_take():
        driver.interrupt()
        return take()

    monkeypatch.setattr(driver, "_take_batch", interrupt_and_take)
    # All stands still, and the learn queue is full.
    wait_until(lambda: env.num_steps == 3 * T and driver.queue_sizes()["learn_queue"] == 1)
    with pytest.raises(InterruptedDriverError):
        driver.call_envs("no_such_method")


def test_a_collector_does_not_prefetch():
    """It has no learner, and its driver may be in lockstep."""
    gin.bind_parameter("DriverSettings.prefetch", True)
    for num_unrolls in (1, 2):
        envs = make_counting_envs(2)
        Collector(envs, FrozenPolicy(envs[0]), num_unrolls=num_unrolls).close()
