# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Worker processes that die in the middle of a run: it goes on, learns nothing false, or says why not."""

import contextlib
import os
import signal
import time

import numpy as np
import pytest

from alf.data_structures import FIRST
from alf.drivers import AsyncOffPolicyDriver
from alf.environments import PythonEnvironment
from alf.testing.fakes import FrozenPolicy, RecordingLearner
from alf.workers import WorkerError
from tests.workers.envs import CountEnv

PID, SEED, EPISODE, STEP = range(4)  # of the observation


@contextlib.contextmanager
def running_driver(**kwargs):
    envs = [PythonEnvironment([CountEnv] * 3, seed, num_workers=1, **kwargs) for seed in range(2)]
    driver = AsyncOffPolicyDriver(
        envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=4, learn_queue_cap=2
    )
    driver.start()
    try:
        yield driver, envs
    finally:
        driver.stop()


def take(driver):
    experience, steps = driver.get_training_exps()
    return experience.step_type.numpy(), experience.observation.numpy(), int(steps)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_run_goes_on_and_learns_nothing_false(signum):
    with running_driver(step_timeout=1.0) as (driver, envs):
        for _ in range(5):
            take(driver)
        os.kill(envs[1]._batch.pids[0], signum)
        broken_off = 0
        deadline = time.monotonic() + 30
        while not broken_off or envs[1].num_restarts == 0:
            assert time.monotonic() < deadline
            step_type, observation, steps = take(driver)
            # [Q, T, B]: rows that lead to one that is not FIRST are transitions of one episode.
            before, after = observation[:, :-1], observation[:, 1:]
            is_transition = step_type[:, 1:] != FIRST
            assert steps == np.count_nonzero(is_transition)
            same = (before[..., :STEP] == after[..., :STEP]).all(axis=-1)
            assert same[is_transition].all()
            assert (after[..., STEP] == before[..., STEP] + 1)[is_transition].all()
            broken_off += np.count_nonzero(before[..., PID] != after[..., PID])
        assert broken_off == 3  # each environment of the worker, once
        assert [env.num_restarts for env in envs] == [0, 1]
        for _ in range(5):
            take(driver)


def test_the_run_ends_with_the_reason_when_no_restart_is_left():
    with running_driver(max_restarts=0) as (driver, envs):
        driver.run_async()
        start = time.monotonic()
        os.kill(envs[0]._batch.pids[0], signal.SIGKILL)
        with pytest.raises(WorkerError, match="was killed by SIGKILL; max_restarts=0 is reached"):
            while time.monotonic() < start + 20:
                driver.run_async()
        assert time.monotonic() - start < 5.0
