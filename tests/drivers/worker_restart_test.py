# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Worker processes that die in the middle of a run: it goes on, learns nothing false, or says why not."""

import contextlib
import functools
import os
import signal

import numpy as np
import pytest

from alf.data_structures import FIRST, count_transitions
from alf.drivers import AsyncOffPolicyDriver
from alf.environments import PythonEnvironment
from alf.testing.fakes import FrozenPolicy, RecordingLearner
from alf.workers import WorkerError
from tests.builders import build_driver, build_python_env, collect_and_observe
from tests.workers import envs
from tests.workers.envs import CountEnv
from tests.workers.hangs import Hangs

PID, SEED, EPISODE, STEP = range(4)  # of the observation


@contextlib.contextmanager
def running_driver(special=CountEnv, **kwargs):
    """A driver of an environment in this process, and of one in a worker, whose last single one is `special`.

    In lockstep, so that the first one does not run ahead while the worker is lost.
    """
    batches = [
        PythonEnvironment([CountEnv] * 3, 0, num_workers=0),
        build_python_env([CountEnv, CountEnv, special], 1, num_workers=1, **kwargs),
    ]
    learner = RecordingLearner(FrozenPolicy(batches[0]))
    driver = build_driver(
        AsyncOffPolicyDriver, batches, learner, unroll_length=4, learn_queue_cap=2, mode="lockstep"
    )
    driver.start()
    try:
        yield driver, batches
    finally:
        driver.stop()


def take(driver):
    experience = driver.get_training_exps()
    steps = int(count_transitions(experience.step_type))
    return experience.step_type.numpy(), experience.observation.numpy(), steps


@pytest.mark.parametrize("fault", ["dies", "hangs"])
def test_a_run_goes_on_and_learns_nothing_false(monkeypatch, tmp_path, fault):
    hangs = Hangs(monkeypatch, tmp_path)
    kill = functools.partial(envs.act_once, tmp_path / "killed", envs.kill_process)
    act = kill if fault == "dies" else hangs.make_act(envs.stop_process)
    # In the middle of the second unroll.
    with running_driver(functools.partial(CountEnv, length=50, at=6, act=act)) as (driver, batches):
        broken_off = 0
        for _ in range(5):
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
        assert [batch.num_restarts for batch in batches] == [0, 1]


def test_the_run_ends_with_the_reason_when_no_restart_is_left():
    with running_driver(max_restarts=0) as (driver, batches):
        collect_and_observe(driver)
        os.kill(batches[1]._batch.pids[0], signal.SIGKILL)
        with pytest.raises(WorkerError, match="was killed by SIGKILL; max_restarts=0 is reached"):
            collect_and_observe(driver)
