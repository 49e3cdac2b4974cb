# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Splits of environments that share worker processes, in a driver and in an experiment."""

import contextlib
import functools
import os
import signal
import time

import gin
import numpy as np
import pytest
from absl import logging

from alf.data_structures import FIRST, count_transitions
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import GymnasiumEnvironment, PythonEnvironment, load
from alf.errors import ConfigError
from alf.runs.saved_run import make_env
from alf.testing.fakes import FrozenPolicy, RecordingLearner, RecordingObserver, in_a_row
from alf.training import Experiment
from tests.builders import build_driver, build_python_env, collect_and_observe, driver_of
from tests.extras import NEEDS_ENVPOOL
from tests.workers import envs
from tests.workers.envs import CountEnv

PID, SEED, EPISODE, STEP = range(4)  # of the observation


def make_splits(seed=0, num_splits=2, num_workers=2, **kwargs):
    env_fns = [functools.partial(CountEnv, 3 + i % 2) for i in range(2 * num_splits)]
    return PythonEnvironment(env_fns, seed, num_workers, num_splits=num_splits, **kwargs).splits


@contextlib.contextmanager
def running(batches, driver_class=AsyncOffPolicyDriver, observers=(), **kwargs):
    learner = RecordingLearner(FrozenPolicy(batches[0]))
    driver = build_driver(driver_class, batches, learner, unroll_length=4, observers=observers, **kwargs)
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()


@pytest.mark.parametrize(
    "driver_class, kwargs",
    [
        (AsyncOffPolicyDriver, {"learn_queue_cap": 3, "actor_queue_cap": 2, "num_actor_queues": 2}),
        (AsyncOffPolicyDriver, {"learn_queue_cap": 4, "mode": "lockstep"}),
        (SyncOffPolicyDriver, {}),
    ],
    ids=["async", "lockstep", "sync"],
)
def test_every_step_of_every_split_is_learned_once_and_in_order(driver_class, kwargs):
    batches = [*make_splits(0), *make_splits(1, num_workers=1)]
    observer, total = RecordingObserver(), 0
    with running(batches, driver_class, [observer], **kwargs) as driver:
        learner = driver.learner
        while min(map(len, learner.unrolls(4))) < 5:
            total += collect_and_observe(driver)
            (num_unrolls, *_, batch_size) = learner.observed[-1].step_type.shape
            assert (num_unrolls, batch_size) == (kwargs.get("learn_queue_cap", 4), 2)
        unrolls = learner.unrolls(4)
        assert observer.wait_for(lambda: all(len(observer.of_env(i)) >= 5 for i in range(4)))
    transitions, seeds = 0, set()
    for index, rows in enumerate(map(in_a_row, unrolls)):
        is_first, x = rows.step_type == FIRST, rows.observation
        transitions += np.count_nonzero(~is_first[1:])
        assert (rows.env_id == 2 * index + np.arange(2)).all()
        assert (x[..., STEP][is_first] == 0).all() and is_first[0].all()
        np.testing.assert_array_equal((x[1:, :, STEP] - x[:-1, :, STEP])[~is_first[1:]], 1)
        np.testing.assert_array_equal((x[1:] - x[:-1])[is_first[1:]][:, EPISODE], 1)
        seeds |= set(x[0, :, SEED])
    assert total == transitions and len(seeds) == 8


def test_a_worker_that_dies_is_counted_once_and_nothing_false_is_learned():
    batches = make_splits(num_splits=3, num_workers=1)
    with running(batches, learn_queue_cap=3) as driver:
        collect_and_observe(driver)
        os.kill(batches[0]._batch.pids[0], signal.SIGKILL)
        deadline, broken_off = time.monotonic() + 60, 0
        while broken_off < 6:
            assert time.monotonic() < deadline
            experience = driver.get_training_exps()
            step_type, x = experience.step_type.numpy(), experience.observation.numpy()
            is_transition = step_type[:, 1:] != FIRST
            assert count_transitions(experience.step_type) == np.count_nonzero(is_transition)
            assert (x[:, :-1, :, :STEP] == x[:, 1:, :, :STEP])[is_transition].all()
            broken_off += np.count_nonzero(x[:, :-1, :, PID] != x[:, 1:, :, PID])
        assert broken_off == 6 and driver.num_restarts == 1


def test_a_stall_names_the_split_that_hangs(monkeypatch):
    lines = []
    monkeypatch.setattr(logging, "error", lambda text, *args: lines.append(text % args))
    special = functools.partial(CountEnv, at=3, act=envs.sleep_for_long)
    batches = build_python_env([CountEnv, CountEnv, special], 0, 1, max_restarts=0, num_splits=3).splits
    learner = RecordingLearner(FrozenPolicy(batches[0]))
    driver = build_driver(
        AsyncOffPolicyDriver, batches, learner, stall_timeout=0.3, on_stall="warn", stop_timeout=0.3
    )
    driver.start()
    deadline = time.monotonic() + 60
    # The first line may name another one that is slow on a busy machine.
    while not any("envs[2] (PythonEnvironment) in step" in line for line in lines):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(RuntimeError, match=r"envs\[2\] \(PythonEnvironment\) still steps"):
        driver.stop()
    os.kill(batches[0]._batch.pids[0], signal.SIGKILL)  # so that no thread waits any longer


CONFIG = """
import alf.learner.optimizers
Experiment.env = @alf.environments.load
Experiment.num_groups = 2
Experiment.unroll_length = 4
Experiment.exp_replayer = "{replayer}"
Experiment.seed = 1
alf.environments.load.name = "CartPole-v1"
alf.environments.load.batch_size = 6
alf.environments.load.num_splits = 3
alf.environments.load.num_workers = 1
ActorCriticNetwork.fc_layer_params = (8,)
UnrollLearner.optimizer = @Adam()
Adam.learning_rate = 0.01
DriverSettings.learn_queue_cap = 6
"""


def test_an_experiment_drives_all_splits():
    gin.parse_config(CONFIG.format(replayer="one_time"))
    driver = driver_of(Experiment())
    driver.start()
    try:
        collect_and_observe(driver)
        assert driver.learner.train()
        assert [env.batch_size for env in driver._envs] == [2] * 6
        pids = [env._batch.pids for env in driver._envs]
        assert len({pid for x in pids for pid in x}) == 2
    finally:
        driver.stop()
    with contextlib.closing(make_env(seed=1)) as env:  # for an evaluation
        assert isinstance(env, GymnasiumEnvironment | PythonEnvironment) and env.batch_size == 6


def test_the_replay_buffer_has_rows_for_all_splits():
    gin.parse_config(CONFIG.format(replayer="uniform"))
    driver = driver_of(Experiment())
    try:
        assert driver.learner.replayer.num_envs == 6
    finally:
        driver.stop()


@pytest.mark.parametrize("name", ["ALE/Pong-v5", pytest.param("envpool:CartPole-v1", marks=NEEDS_ENVPOOL)])
def test_environments_without_workers_are_refused(name):
    with pytest.raises(ConfigError, match=f"load.num_splits does not apply to '{name}'.*num_groups"):
        load(name, 2, num_splits=2)
    load(name, 1, num_splits=1).close()


def test_auto_means_workers():
    made = load("CartPole-v1", 4, num_splits=2)
    assert [type(env) for env in made] == [PythonEnvironment] * 2
    assert len(made[0]._batch.pids) == min(2, len(os.sched_getaffinity(0)))
    for env in made:
        env.close()
