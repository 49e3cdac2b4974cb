# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""In which threads an environment is made, reset, stepped, called, rendered and closed."""

import functools
import threading
import time

import numpy as np
import pytest

from alf.data_structures import FIRST, MID
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import load
from alf.testing.fakes import FrozenPolicy, RecordingLearner
from alf.workers import WorkerError
from tests.builders import build_driver, build_python_env, collect_and_observe
from tests.workers.envs import CloseEnv, CountEnv, LevelEnv, act_once


class ThreadEnv(CountEnv):
    """Notes in which thread each of its methods runs."""

    def __init__(self, places):
        super().__init__()
        self._places = places
        self._note("made")

    def _note(self, method):
        self._places.add((method, threading.get_ident()))

    def reset(self, **kwargs):
        self._note("reset")
        return super().reset(**kwargs)

    def step(self, action):
        self._note("step")
        return super().step(action)

    def call_me(self):
        self._note("called")

    def render(self):
        self._note("rendered")

    def close(self):
        self._note("closed")


METHODS = ["called", "closed", "made", "reset", "step"]


def drive(driver_class, num_workers):
    """Lets a driver run, with two environments in one; returns the threads by method."""
    places = set()
    env_fns = [functools.partial(ThreadEnv, places) for _ in range(2)]
    env = build_python_env(env_fns, 0, num_workers)
    driver = build_driver(driver_class, [env], RecordingLearner(FrozenPolicy(env)), unroll_length=4)
    driver.start()
    try:
        for _ in range(10):
            collect_and_observe(driver)
        driver.call_envs("call_me")
    finally:
        driver.stop()
    assert sorted({method for method, _ in places}) == METHODS
    return {method: {thread for name, thread in places if name == method} for method in METHODS}


@pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_one_thread_from_the_constructor_to_the_end(driver_class):
    threads = drive(driver_class, "thread")
    assert len(set.union(*threads.values())) == 1
    assert threading.get_ident() not in threads["made"]


def test_without_it_threads_of_tensorflow_step_and_another_one_closes():
    threads = drive(AsyncOffPolicyDriver, 0)
    assert threads["made"] == {threading.get_ident()}
    assert not threads["step"] & (threads["made"] | threads["closed"] | threads["called"])


def test_all_methods_and_the_end():
    places = set()
    env = load(ThreadEnv, 2, seed=1, num_workers="thread", places=places)
    before = threading.active_count()
    env.seed(3)
    first = env.reset()
    env.step(np.zeros(2, np.int64))
    assert env.call("call_me") == [None, None] and env.render_fps == 30
    env.render()
    env.hold([0, 1])
    env.dump_stacks()
    env.close()
    env.close()
    assert len({thread for _, thread in places}) == 1
    deadline = time.monotonic() + 10
    while threading.active_count() >= before:
        assert time.monotonic() < deadline, "its thread has not ended"
        time.sleep(0.01)
    same = load(ThreadEnv, 2, seed=1, num_workers=0, places=set())
    same.seed(3)
    np.testing.assert_array_equal(first.observation, same.reset().observation)


def test_errors_and_time_outs():
    with pytest.raises(KeyError, match="my own bug"):
        build_python_env([functools.partial(CountEnv, at=0, act=raise_error)], 0, "thread")
    env = build_python_env([functools.partial(CountEnv, at=2, act=raise_error)], 0, "thread")
    env.reset()
    env.step(np.zeros(1, np.int64))
    with pytest.raises(KeyError, match="my own bug"):
        env.step(np.zeros(1, np.int64))
    env.close()
    hanging = functools.partial(CountEnv, at=1, act=functools.partial(time.sleep, 2))
    env = build_python_env([hanging], 0, "thread", step_timeout=0.3)
    env.reset()
    with pytest.raises(WorkerError, match=r"did not answer within step_timeout=0\.3 s"):
        env.step(np.zeros(1, np.int64))
    env.close()


def raise_error():
    raise KeyError("my own bug")


def test_environments_that_raise_are_made_again_in_the_thread():
    places, errors = set(), [KeyError("my own bug")]

    class Env(ThreadEnv):
        level = 0

        def step(self, action):
            if errors:
                raise errors.pop()
            return super().step(action)

    env = build_python_env([functools.partial(Env, places)] * 2, 0, "thread", restart_on_error=True)
    env.reset()
    env.set_attr("level", 4)
    np.testing.assert_array_equal(env.step(np.zeros(2, np.int64)).step_type, [FIRST, MID])
    env.step(np.zeros(2, np.int64))
    assert env.num_restarts == 1 and env.call("get_wrapper_attr", "level") == [4, 4]
    env.close()
    assert {method for method, _ in places} == {"made", "reset", "step", "closed"}
    assert len({thread for _, thread in places}) == 1


def test_a_step_that_makes_environments_again_may_take_longer(tmp_path):
    """As long as their constructor may take."""
    path = tmp_path / "raised"

    def make_env():
        if path.exists():
            time.sleep(0.3)
        return CountEnv(at=1, act=functools.partial(act_once, path, raise_error))

    env = build_python_env([make_env], 0, "thread", restart_on_error=True, step_timeout=0.05)
    env.reset()
    np.testing.assert_array_equal(env.step(np.zeros(1, np.int64)).step_type, FIRST)
    env.close()


def test_the_end_has_a_time_out_of_its_own():
    go_on = threading.Event()
    env = build_python_env([functools.partial(CloseEnv, go_on.wait)], 0, "thread", close_timeout=0.1)
    with pytest.raises(WorkerError, match=r"did not answer within close_timeout=0\.1 s"):
        env.close()
    env.close()
    go_on.set()


def test_after_ctrl_c_the_late_reply_is_not_taken_for_the_next_one(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    env = build_python_env([LevelEnv], 0, "thread")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("alf.workers.watched_thread.running_time", interrupt)  # called before it waits
        env.call("where")
    assert env.call("set_level", 4) == [(0, 4)]
    env.close()


class Unpicklable(set):
    def __reduce__(self):
        raise TypeError("the window is bound to this process")


def test_a_rendered_environment_without_a_worker_lives_in_one_thread_too():
    places = Unpicklable()
    env = load(ThreadEnv, 2, num_workers="thread", render_mode="rgb_array", places=places)
    env.reset()
    env.render()
    env.close()
    assert {method for method, _ in places} == {"made", "reset", "rendered", "closed"}
    (thread,) = {thread for _, thread in places}
    assert thread != threading.get_ident()
