# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Calls of environments from the thread that collects, in every layout of environments."""

import contextlib
import functools
import os
import threading
import time
import traceback
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver
from alf.drivers.collector import Collector
from alf.environments import EnvironmentWrapper, GymnasiumEnvironment, PythonEnvironment
from alf.errors import InterruptedDriverError, StallError
from alf.replay import make_replayer
from alf.testing.fakes import FrozenPolicy, RecordingLearner
from tests.builders import build_driver, collect_and_observe
from tests.drivers.collectors_test import ThreadCollectors
from tests.workers.envs import kill_process, make_wrapped_level_env

PID, NUMBER, LEVEL, STEP = range(4)  # of the observation
B, T = 2, 4


def make_env(index, num_workers=0, **kwargs):
    env_fns = [functools.partial(make_wrapped_level_env, index * B + i, **kwargs) for i in range(B)]
    return PythonEnvironment(env_fns, 0, num_workers)


def make_vector(index):
    env_fns = [functools.partial(make_wrapped_level_env, index * B + i) for i in range(B)]
    return GymnasiumEnvironment(gymnasium.vector.SyncVectorEnv(env_fns), 0)


class Layout(NamedTuple):
    """Environments of a driver: those in its process, and collectors of one environment each."""

    make_envs: Any
    num_groups: int = 3
    num_collectors: int = 0
    driver_class: Any = AsyncOffPolicyDriver
    kwargs: dict = {}  # noqa: RUF012  (nobody changes it)

    def make_driver(self, **kwargs):
        envs = self.make_envs()
        collectors = None
        if self.num_collectors:

            def make_collector(index, **settings):
                env = make_env(self.num_groups + index)
                return Collector([env], FrozenPolicy(env), (self.num_groups + index) * B, **settings)

            collectors = ThreadCollectors(make_collector, EnvSpecs(envs), self.num_collectors, 1)
        learner = RecordingLearner(FrozenPolicy(envs[0]))
        settings = {**self.kwargs, **kwargs}
        if collectors is not None:
            settings["collectors"] = collectors
        return build_driver(self.driver_class, envs, learner, unroll_length=T, **settings)

    @property
    def num_rows(self):
        return (self.num_groups + self.num_collectors) * B


def list_envs(make=make_env, **kwargs):
    return lambda: [make(i, **kwargs) for i in range(3)]


LOCKSTEP = {"mode": "lockstep"}
LAYOUTS = {
    "sync": Layout(list_envs(), driver_class=SyncOffPolicyDriver),
    "lockstep": Layout(list_envs(), kwargs=LOCKSTEP),
    "async": Layout(list_envs()),
    "a full queue": Layout(list_envs(), kwargs={"learn_queue_cap": 2, "max_waiting_batches": 2}),
    "prefetch": Layout(list_envs(), kwargs={"learn_queue_cap": 2, "prefetch": True}),
    "without actors": Layout(list_envs(), kwargs={"num_actor_queues": 0}),
    "one thread": Layout(list_envs(), kwargs={"num_env_threads": 1}),
    "an actor of all": Layout(list_envs(), kwargs={"actor_queue_cap": 3, "learn_queue_cap": 3}),
    "workers": Layout(list_envs(num_workers=2)),
    "workers in lockstep": Layout(list_envs(num_workers=1), kwargs=LOCKSTEP),
    "a vector environment": Layout(list_envs(make_vector)),
    "wrappers": Layout(lambda: [EnvironmentWrapper(make_env(i)) for i in range(3)]),
    "collectors": Layout(list_envs(), num_collectors=2),
    "collectors in lockstep": Layout(list_envs(), num_collectors=2, kwargs=LOCKSTEP),
}


@contextlib.contextmanager
def running(driver):
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return LAYOUTS[request.param]


def test_a_level_arrives_in_all_environments_and_nothing_is_lost(layout):
    driver = layout.make_driver()
    rows = range(layout.num_rows)
    driver.set_attr("level", 7)
    with running(driver):
        levels = [7]
        for level in range(1, 12):
            collect_and_observe(driver)
            if level % 3:
                assert driver.call_envs("set_level", level) == [(i, level) for i in rows]
            else:
                driver.set_attr("level", level)
            levels.append(level)
        assert driver.call_envs("set_level", 12) == [(i, 12) for i in rows]
        deadline = time.monotonic() + 60
        observed = driver.learner.observed
        while min(seen_of(observed, i).max(initial=0) for i in rows) < 12:
            collect_and_observe(driver)
            assert time.monotonic() < deadline
    for i in rows:
        seen = seen_of(observed, i)
        assert seen[0] == 7 and set(seen) <= {*levels, 12}, "set before the start"
        order = [level for level, before in zip(seen[1:], seen) if level != before]
        assert order == sorted(order)
    for unrolls in driver.learner.unrolls(layout.num_rows // B):
        for before, unroll in zip(unrolls, unrolls[1:]):
            np.testing.assert_array_equal(before.observation[-1], unroll.observation[0])


def seen_of(observed, row):
    """The levels that a row has shown, in the order of time; row T of an unroll is row 0 of the next."""
    parts = [e.observation[:, :-1][e.env_id[:, :-1] == row] for e in observed]
    parts = np.concatenate(parts) if parts else np.zeros([0, 4])
    assert (parts[:, NUMBER] == row).all()
    return parts[:, LEVEL]


def test_the_error_of_a_method_is_raised_and_the_driver_goes_on(layout):
    last = layout.num_rows - 1
    with running(layout.make_driver()) as driver:
        collect_and_observe(driver)
        with pytest.raises(KeyError, match="my own bug") as caught:
            driver.call_envs("fail_if", last)
        text = "".join(traceback.format_exception(caught.value))
        assert "in fail_if" in text
        for _ in range(2):
            with pytest.raises(AttributeError, match="has no attribute 'levle'"):
                driver.set_attr("levle", 3)
        collect_and_observe(driver)
        assert driver.call_envs("set_level", 2) == [(i, 2) for i in range(layout.num_rows)]


def test_calls_come_between_unrolls():
    """The level changes in the row after an unroll, never within one."""
    layout = Layout(list_envs(seconds=0.002))
    with running(layout.make_driver()) as driver:
        for level in range(20):
            collect_and_observe(driver)
            driver.call_envs("set_level", level)
    for experience in driver.learner.observed:
        assert (experience.observation[:, 1:, :, LEVEL] == experience.observation[:, 1:2, :, LEVEL]).all()


def test_a_slow_environment_makes_no_batches_gather():
    """While it steps, the others fill the queue: nothing is taken out of it, or it would be without end."""

    def make_envs():
        return [make_env(0, seconds=0.2), make_env(1), make_env(2)]

    layout = Layout(make_envs, kwargs={"learn_queue_cap": 1, "max_waiting_batches": 2})
    with running(layout.make_driver()) as driver:
        for _ in range(2):
            collect_and_observe(driver)
            driver.call_envs("set_level", 1)
            # Each thread gives at most one unroll away, and these may be of the two fast ones in turn.
            # Without end they are about 150 here; on a busy machine there were 23.
            assert len(driver._set_aside) < 60


def test_threads_in_their_start_delay_make_no_batches_gather():
    """They hand nothing over, but the thread that has begun fills the queue again and again."""
    driver = Layout(list_envs(), kwargs={"start_spread": 250.0}).make_driver()
    make_room, looks = driver._make_room, []

    def count(waiting):
        make_room(waiting)
        looks.append(waiting)
        if len(looks) == 30:
            driver.interrupt()

    driver._make_room = count
    with running(driver):
        while driver.queue_sizes()["learn_queue"] < 1:  # it is full then
            time.sleep(0.01)
        with pytest.raises(InterruptedDriverError):
            driver.call_envs("set_level", 1)
    # The one that has begun gives at most an unroll away, and perhaps the next before it answers.
    assert looks[-1] == [1, 2] and len(driver._set_aside) <= 2


def test_polling_takes_what_was_set_aside():
    envs = [make_env(i) for i in range(2)]
    policy, specs = FrozenPolicy(envs[0]), EnvSpecs(envs)
    learner = RecordingLearner(policy, make_replayer("uniform", specs.unroll_spec(policy, 1), 2))
    driver = build_driver(
        AsyncOffPolicyDriver, envs, learner, unroll_length=1, mode="poll", max_waiting_batches=2
    )
    with running(driver):
        while driver.queue_sizes()["learn_queue"] < 2:
            time.sleep(0.01)
        driver.call_envs("set_level", 1)
        assert driver._set_aside
        collect_and_observe(driver)
        assert not driver._set_aside
    for unrolls in learner.unrolls(2):
        for before, unroll in zip(unrolls, unrolls[1:]):
            np.testing.assert_array_equal(before.observation[-1], unroll.observation[0])


def test_the_successor_of_a_worker_that_dies_in_a_call_has_the_attributes_and_is_called(tmp_path):
    with running(LAYOUTS["workers in lockstep"].make_driver()) as driver:
        collect_and_observe(driver)
        driver.set_attr("level", 5)
        before = {pid for pid, _ in driver.call_envs("where")}
        numbers = driver.call_envs("act_once", str(tmp_path / "once"), kill_process)
        assert numbers == list(range(6)) and driver.num_restarts == 1
        now = {pid for pid, _ in driver.call_envs("where")}
        assert len(now) == len(before) and len(now & before) == len(before) - 1
        driver.learner.observed.clear()
        for _ in range(3):
            collect_and_observe(driver)
    for experience in driver.learner.observed:
        # Row 0 is from before the call.
        assert (experience.observation[:, 1:, :, LEVEL] == 5).all()


@pytest.mark.parametrize("name", ["sync", "lockstep", "async", "workers", "collectors"])
def test_an_interrupt_ends_the_wait(name, tmp_path):
    driver = LAYOUTS[name].make_driver(stop_timeout=2.0)
    driver.start()
    collect_and_observe(driver)
    timer = threading.Timer(0.5, driver.interrupt)
    timer.start()
    start = time.monotonic()
    with pytest.raises(InterruptedDriverError):
        driver.call_envs("act_once", str(tmp_path / "once"), functools.partial(time.sleep, 4))
    assert time.monotonic() - start < 2
    for method in (driver.collect, functools.partial(driver.call_envs, "where")):
        with pytest.raises(InterruptedDriverError):
            method()
    time.sleep(4)
    driver.stop()
    with pytest.raises(RuntimeError, match=r"set_attr\(\) needs a driver that runs"):
        driver.set_attr("level", 1)


def test_a_call_that_hangs_is_a_stall(tmp_path):
    before = set(threading.enumerate())
    driver = LAYOUTS["async"].make_driver(stall_timeout=0.5, stop_timeout=0.5)
    driver.start()
    with pytest.raises(StallError, match=r"envs\[.\] \(PythonEnvironment\) in call for"):
        driver.call_envs("act_once", str(tmp_path / "once"), functools.partial(time.sleep, 5))
    driver.stop()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_collectors_are_not_called_before_the_start():
    driver = LAYOUTS["collectors"].make_driver()
    with pytest.raises(RuntimeError, match=r"only after start\(\): set_attr\(\) works before it"):
        driver.call_envs("where")
    driver.stop()


def test_collectors_get_no_attribute_that_an_environment_here_refuses():
    driver = LAYOUTS["collectors"].make_driver()
    with pytest.raises(AttributeError, match="has no attribute 'levle'"):
        driver.set_attr("levle", 3)
    driver.set_attr("level", 3)
    assert driver._collectors.attributes == {"level": 3}
    driver.stop()


def test_before_the_start_this_thread_calls():
    driver = LAYOUTS["async"].make_driver()
    assert driver.call_envs("where") == [(os.getpid(), threading.get_ident())] * 6
    driver.stop()
    with pytest.raises(InterruptedDriverError):
        driver.call_envs("where")
