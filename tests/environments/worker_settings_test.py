# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every setting of PythonEnvironment reaches the environments, from gin down to the worker process."""

import contextlib
import functools
import inspect
import os
import pathlib
import re
import time

import gin
import numpy as np
import pytest
from absl import logging

from alf.environments import PythonEnvironment
from alf.seeds import spawn_seeds
from alf.workers import WorkerError, WorkerSettings
from tests.workers import envs
from tests.workers.envs import INFO_KEYS, CountEnv, InfoEnv, ProcessEnv, SlowEnv, StartEnv

PID, SEED, EPISODE, STEP = range(4)  # what CountEnv observes
CORES, THREADS, NICE = 1, 2, 3  # what ProcessEnv observes


@pytest.fixture(autouse=True)
def clear_gin():
    yield
    gin.clear_config()


@contextlib.contextmanager
def bound(env_fns, num_workers=1, **settings):
    """A PythonEnvironment whose settings come from gin alone."""
    for name, value in {"num_workers": num_workers, **settings}.items():
        gin.bind_parameter(f"PythonEnvironment.{name}", value)
    with contextlib.closing(PythonEnvironment(env_fns)) as env:
        yield env


def step(env):
    return env.step(np.zeros(env.batch_size, np.int64))


def test_every_setting_has_a_test_here():
    parameters = set(inspect.signature(PythonEnvironment).parameters) - {"env_fns"}
    assert set(WorkerSettings._fields) <= parameters
    tests = set(re.findall(r"^def test_(\w+)", pathlib.Path(__file__).read_text(), re.MULTILINE))
    assert parameters <= tests


def test_seed():
    with bound([CountEnv] * 3, seed=5) as env:
        assert env.reset().observation[:, SEED].tolist() == spawn_seeds(5, 3)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_num_workers(num_workers):
    with bound([CountEnv] * 3, num_workers) as env:
        assert len(set(env.reset().observation[:, PID])) == num_workers


@pytest.mark.parametrize("num_workers", [0, 1])
def test_max_random_steps(num_workers):
    make = functools.partial(CountEnv, length=1000)
    with bound([make] * 20, num_workers, seed=0, max_random_steps=50) as env:
        steps = env.reset().observation[:, STEP]
        assert len(set(steps)) > 5 and max(steps) <= 50


def test_start_timeout(monkeypatch):
    monkeypatch.setattr("alf.workers.pool._CLOSE_SECONDS", 0.1)  # The worker sleeps, so it cannot close.
    make = functools.partial(CountEnv, at=0, act=envs.sleep_for_long)
    with pytest.raises(WorkerError, match="did not answer within start_timeout=0.5 s"):
        with bound([make], start_timeout=0.5, max_restarts=0):
            pass


def test_step_timeout():
    make = functools.partial(CountEnv, at=1, act=envs.sleep_for_long)
    with bound([make], step_timeout=0.5, max_restarts=0) as env:
        env.reset()
        with pytest.raises(WorkerError, match="did not answer within step_timeout=0.5 s"):
            step(env)


@pytest.mark.parametrize("max_restarts", [0, 4])
def test_max_restarts(max_restarts):
    with bound([functools.partial(CountEnv, at=1, act=envs.end_process)], max_restarts=max_restarts) as env:
        env.reset()
        for _ in range(max_restarts):
            step(env)
        with pytest.raises(WorkerError, match=f"max_restarts={max_restarts} is reached within 600 s"):
            step(env)


def test_restart_period():
    make = functools.partial(CountEnv, at=1, act=envs.end_process)
    with bound([make], max_restarts=1, restart_period=1e-6) as env:
        env.reset()
        for _ in range(3):
            step(env)
        assert env.num_restarts == 3


@pytest.mark.parametrize("pin_workers", [False, True])
def test_pin_workers(pin_workers):
    with bound([ProcessEnv], pin_workers=pin_workers) as env:
        expected = 1 if pin_workers else len(os.sched_getaffinity(0))
        assert env.reset().observation[0, CORES] == expected


@pytest.mark.parametrize("single_threaded, threads", [(True, 1), (False, 3)])
def test_single_threaded(monkeypatch, single_threaded, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with bound([ProcessEnv], single_threaded=single_threaded) as env:
        assert env.reset().observation[0, THREADS] == threads


@pytest.mark.parametrize("num_workers", [0, 1])
def test_info_keys(num_workers):
    with bound([functools.partial(InfoEnv, 5)], num_workers, info_keys=INFO_KEYS) as env:
        env.reset()
        step(env)
        assert env.get_info()["code"].tolist() == [5001]


@pytest.mark.parametrize("worker_nice", [0, 3])
def test_worker_nice(worker_nice):
    with bound([ProcessEnv], worker_nice=worker_nice) as env:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert env.reset().observation[0, NICE] == min(own + worker_nice, 19)


def test_max_concurrent_starts(tmp_path):
    """Without the setting all three constructors run at the same time."""
    with bound([functools.partial(StartEnv, str(tmp_path))] * 3, 3, max_concurrent_starts=1) as env:
        assert env.reset().observation[:, SEED].tolist() == [1, 1, 1]
        assert len(set(env.reset().observation[:, PID])) == 3


def test_heartbeat_interval(monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: lines.append(text % args))
    with bound([functools.partial(SlowEnv, 1.5)] * 2, 2, heartbeat_interval=0.5) as env:
        env.reset()
        lines.clear()  # of the start, which takes longer on a busy machine
        step(env)
        pids = env._batch.pids
    number = r"(\d+) s"
    assert re.fullmatch(
        rf"no answer from the worker process of environments 0 to 0 \(process {pids[0]}\) for {number}, "
        rf"the worker process of environments 1 to 1 \(process {pids[1]}\) for {number}",
        lines[0],
    )
    # The numbers are rounded: half a second more is one more line.
    assert len(lines) <= 2 + int(re.search(number, lines[-1])[1]) / 0.5


def test_num_splits():
    with bound([CountEnv] * 6, 2, num_splits=3) as env:
        first, *others = env.splits
        assert first is env and [x.batch_size for x in env.splits] == [2, 2, 2]
        pids = [x.reset().observation[:, PID].tolist() for x in env.splits]
        assert pids[0] == pids[1] == pids[2] and len(set(pids[0])) == 2
        for other in others:
            other.close()


@pytest.mark.parametrize(
    "at, setting", [(0, "start_timeout"), (1, "step_timeout")], ids=["start_timeout", "step_timeout"]
)
def test_the_trial_of_auto_has_the_limits_too(monkeypatch, at, setting):
    monkeypatch.setattr("alf.workers.pool._CLOSE_SECONDS", 0.1)
    make = functools.partial(CountEnv, at=at, act=envs.sleep_for_long)
    start = time.monotonic()
    # A constructor that hangs is an error; after a trial step that hangs the environments step in workers.
    with contextlib.suppress(WorkerError), bound([make], "auto", max_restarts=0, **{setting: 0.5}):
        pass
    assert time.monotonic() - start < 30.0  # The defaults are 120 s and 60 s.
