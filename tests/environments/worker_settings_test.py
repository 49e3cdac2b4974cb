# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every setting of PythonEnvironment and of its workers reaches the environments, from gin to the process."""

import contextlib
import dataclasses
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

from alf.core.randomness import spawn_seeds
from alf.environments import PythonEnvironment
from alf.errors import ConfigError
from alf.workers import WorkerError, WorkerSettings
from tests.workers import envs
from tests.workers.envs import INFO_KEYS, CountEnv, InfoEnv, ProcessEnv, StartEnv, WaitEnv

PID, SEED, EPISODE, STEP = range(4)  # what CountEnv observes
CORES, THREADS, NICE = 1, 2, 3  # what ProcessEnv observes


FIELDS = {field.name for field in dataclasses.fields(WorkerSettings)}


@pytest.fixture(autouse=True)
def clear_gin():
    yield
    gin.clear_config()


@contextlib.contextmanager
def bound(env_fns, num_workers=1, **settings):
    """A PythonEnvironment whose settings come from gin alone."""
    for name, value in {"num_workers": num_workers, **settings}.items():
        owner = "WorkerSettings" if name in FIELDS else "PythonEnvironment"
        gin.bind_parameter(f"{owner}.{name}", value)
    with contextlib.closing(PythonEnvironment(env_fns)) as env:
        yield env


def step(env):
    return env.step(np.zeros(env.batch_size, np.int64))


def test_every_setting_has_a_test_here():
    parameters = set(inspect.signature(PythonEnvironment).parameters) - {"env_fns"} | FIELDS
    tests = set(re.findall(r"^def test_(\w+)", pathlib.Path(__file__).read_text(), re.MULTILINE))
    assert parameters <= tests | LOST.keys()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_restart_on_error(num_workers):
    raises = functools.partial(CountEnv, at=2, act=envs.raise_own_error)
    with bound([CountEnv, raises], num_workers, restart_on_error=True) as env:
        env.reset()
        # Only the environment that raises begins anew; the other one has been in its episode all the time.
        assert [step(env).observation[:, STEP].tolist() for _ in range(3)] == [[1, 1], [2, 0], [3, 1]]
        assert env.num_restarts == 1
    gin.clear_config()
    with bound([CountEnv, raises], num_workers) as env:
        env.reset()
        step(env)
        with pytest.raises(KeyError, match="my own bug"):
            step(env)


def test_seed():
    with bound([CountEnv] * 3, seed=5) as env:
        assert env.reset().observation[:, SEED].tolist() == spawn_seeds(5, 3)


def test_num_workers():
    with bound([CountEnv] * 2, 2) as env:
        assert len(set(env.reset().observation[:, PID])) == 2


def test_max_random_steps():
    make = functools.partial(CountEnv, length=1000)
    with bound([make] * 20, seed=0, max_random_steps=50) as env:
        steps = env.reset().observation[:, STEP]
        assert len(set(steps)) > 5 and max(steps) <= 50


LOST = {
    "start_timeout": (0, envs.sleep_for_long, dict(start_timeout=0.3, max_restarts=0, close_timeout=0.1)),
    "step_timeout": (1, envs.sleep_for_long, dict(step_timeout=0.3, max_restarts=0, close_timeout=0.1)),
    "max_restarts": (1, envs.end_process, dict(max_restarts=1)),
}
OF_LOST = {
    "start_timeout": "did not answer within start_timeout=0.3 s",
    "step_timeout": "did not answer within step_timeout=0.3 s",
    "max_restarts": "max_restarts=1 is reached within 600 s",
}


@pytest.mark.parametrize("name", LOST)
def test_the_limit_of_losses(name):
    at, act, settings = LOST[name]
    with pytest.raises(WorkerError, match=OF_LOST[name]):
        with bound([functools.partial(CountEnv, at=at, act=act)], **settings) as env:
            env.reset()  # It may take as long as a step on a busy machine.
            for _ in range(2):
                step(env)


def test_close_timeout(caplog):
    with bound([functools.partial(envs.CloseEnv, envs.sleep_for_long)], close_timeout=0.2) as env:
        env.reset()
    assert "did not close them within close_timeout=0.2 s: it is killed" in caplog.text


def test_restart_period():
    make = functools.partial(CountEnv, at=1, act=envs.end_process)
    with bound([make], max_restarts=1, restart_period=1e-6) as env:
        env.reset()
        for _ in range(2):
            step(env)
        assert env.num_restarts == 2


def test_pin_workers():
    with bound([ProcessEnv], pin_workers=True) as env:
        assert env.reset().observation[0, CORES] == 1


def test_gpus(monkeypatch):
    """By the variable alone: no GPU is needed."""
    ends = functools.partial(envs.GpuEnv, at=1, act=envs.end_process)
    for visible, gpus, seen in [
        (None, (0, 2), {0, 2}),
        ("4,7,5", (0, 2), {4, 5}),
        ("4,7,5", (), {-1}),
        (None, (), {-1}),
    ]:
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with bound([envs.GpuEnv, envs.GpuEnv, ends, envs.GpuEnv], 4, gpus=gpus) as env:
            found = env.reset().observation[:, SEED].tolist()
            assert found[:2] == found[2:] and set(found) == seen
            assert step(env).observation[:, SEED].tolist() == found and env.num_restarts == 1
    for visible, number in (("4,7,5", 3), ("", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with pytest.raises(ConfigError, match=rf"gpus is \(0, {number}\): this process sees {number} GPUs"):
            with bound([envs.GpuEnv], 1, gpus=(0, number)):
                pass


def test_single_threaded(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with bound([ProcessEnv], single_threaded=False) as env:
        assert env.reset().observation[0, THREADS] == 3


def test_info_keys():
    with bound([functools.partial(InfoEnv, 5)], info_keys=INFO_KEYS) as env:
        env.reset()
        step(env)
        assert env.get_info()["code"].tolist() == [5001]


def test_worker_nice():
    with bound([ProcessEnv], worker_nice=3) as env:
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert env.reset().observation[0, NICE] == min(own + 3, 19)


def test_max_concurrent_starts(tmp_path):
    """Without the setting both constructors run at the same time."""
    with bound([functools.partial(StartEnv, str(tmp_path))] * 2, 2, max_concurrent_starts=1) as env:
        assert env.reset().observation[:, SEED].tolist() == [1, 1]
        assert len(set(env.reset().observation[:, PID])) == 2


def test_heartbeat_interval(monkeypatch, tmp_path):
    lines, path, interval = [], tmp_path / "go on", 0.05

    def note(text, *args):
        lines.append(text % args)
        if len(lines) == 6:
            path.touch()

    with bound([functools.partial(WaitEnv, str(path))] * 2, 2, heartbeat_interval=interval) as env:
        env.reset()
        monkeypatch.setattr(logging, "warning", note)
        start = time.monotonic()
        step(env)
        seconds = time.monotonic() - start
        pids = env._batch.pids
    number = r"\d+ s"
    assert re.fullmatch(
        rf"no answer from the worker process of environments 0 to 0 \(process {pids[0]}\) for {number}, "
        rf"the worker process of environments 1 to 1 \(process {pids[1]}\) for {number}",
        lines[0],
    )
    assert len(lines) <= seconds / interval + 1, "more than one line in an interval"


def test_workers(monkeypatch):
    """An object takes the place of gin's settings for it; a scope of the caller counts, too."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    gin.parse_config("""
        WorkerSettings.worker_nice = 1
        far/WorkerSettings.worker_nice = 2
        own/WorkerSettings.worker_nice = 3
        own/PythonEnvironment.workers = @own/WorkerSettings()
    """)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for scope, workers, nice in (
        (None, None, 1),
        ("far", None, 2),
        ("own", None, 3),
        ("far", WorkerSettings(worker_nice=4), 4),
    ):
        with gin.config_scope(scope):
            env = PythonEnvironment([ProcessEnv], num_workers=1, **({"workers": workers} if workers else {}))
        with contextlib.closing(env):
            assert env.reset().observation[0, NICE] == min(own + nice, 19)


@pytest.mark.parametrize(
    "at, setting", [(0, "start_timeout"), (1, "step_timeout")], ids=["start_timeout", "step_timeout"]
)
def test_the_trial_of_auto_has_the_limits_too(monkeypatch, at, setting):
    make = functools.partial(CountEnv, at=at, act=envs.sleep_for_long)
    start = time.monotonic()
    # A constructor that hangs is an error; after a trial step that hangs the environments step in workers.
    with (
        contextlib.suppress(WorkerError),
        bound([make], "auto", max_restarts=0, close_timeout=0.1, **{setting: 0.3}),
    ):
        pass
    assert time.monotonic() - start < 30.0  # The defaults are 120 s and 60 s.
