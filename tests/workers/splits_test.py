# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Splits of environments share worker processes: each for itself, and faults concern all of them."""

import concurrent.futures
import contextlib
import functools
import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
from absl import logging

from alf.errors import ConfigError, EnvError
from alf.workers import EnvBatch, WorkerError, WorkerPool, WorkerSettings, process
from alf.workers.shared_workers import SharedWorkers
from tests.workers import envs
from tests.workers.envs import CountEnv, SerialEnv, WaitEnv
from tests.workers.hangs import Hangs
from tests.workers.pool_test import alive, wait_until

FIRST, MID, LAST = 0, 1, 2
PID, SEED, EPISODE, STEP = range(4)  # of the observation


@contextlib.contextmanager
def make(env_fns, num_workers=2, num_splits=2, **settings):
    """The splits of a pool."""
    settings = WorkerSettings(**settings)
    seeds = range(100, 100 + len(env_fns))
    splits = WorkerPool(env_fns, seeds, num_workers, settings=settings, num_splits=num_splits).splits
    try:
        yield splits
    finally:
        for split in splits:
            split.close()


def observed(split):
    return split.arrays.observation[0].copy()


def together(*calls):
    """Runs every call in a thread of its own; returns the results, or raises the first exception."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as executor:
        return [future.result() for future in [executor.submit(call) for call in calls]]


@pytest.fixture
def warnings(monkeypatch):
    found = []
    monkeypatch.setattr(logging, "warning", lambda text, *args, **_: found.append(text % args))
    return found


@pytest.mark.parametrize("num_workers, num_splits", [(1, 2), (2, 3)])
def test_splits_do_what_one_batch_in_this_process_does(num_workers, num_splits):
    env_fns = [functools.partial(CountEnv, 3 + i) for i in range(6)]
    batch = EnvBatch(env_fns, range(100, 106))
    with make(env_fns, num_workers, num_splits) as splits:
        assert all(split.layout == batch.layout for split in splits)
        for t in range(9):
            for x in (batch, *splits):
                x.arrays.action[0][:] = t % 3
                x.reset() if t == 0 else x.step()
            for name in ("step_type", "reward", "discount"):
                joined = np.concatenate([getattr(split.arrays, name) for split in splits])
                np.testing.assert_array_equal(joined, getattr(batch.arrays, name))
            joined = np.concatenate([observed(split) for split in splits])
            np.testing.assert_array_equal(joined[:, 1:], batch.arrays.observation[0][:, 1:])
        pids = [set(observed(split)[:, PID].astype(int)) for split in splits]
        assert pids == [set(splits[0].pids)] * num_splits and len(splits[0].pids) == num_workers


def test_the_worker_steps_one_split_while_another_one_waits_for_its_action():
    with make([CountEnv] * 2, num_workers=1) as splits:
        for split in splits:
            split.reset()
        for stepping, waiting in (splits, reversed(splits)):
            before = observed(waiting)
            for _ in range(3):
                stepping.step()
            assert observed(stepping)[0, STEP] == 3
            np.testing.assert_array_equal(observed(waiting), before)


def test_splits_are_answered_in_turn():
    """One split that always has a command does not keep the other one from the worker."""
    with make([SerialEnv] * 2, num_workers=1) as splits:
        for split in splits:
            split.reset()
            split.arrays.action[0][:] = 0
        channels = [split._channels[0] for split in splits]
        worker = psutil.Process(splits[0].pids[0])
        worker.suspend()
        wait_until(lambda: worker.status() == psutil.STATUS_STOPPED)
        for channel in channels:
            channel.send(process.STEP * 4)  # The commands of both splits wait.
        worker.resume()
        for channel in channels:
            for _ in range(4):
                channel.receive_reply(60.0, lambda: None)
        assert sorted(observed(split)[0].tolist() for split in splits) == [[1, 3, 5, 7], [2, 4, 6, 8]]


def test_splits_that_wait_together_are_one_line_in_an_interval(monkeypatch, tmp_path):
    lines, path, interval = [], tmp_path / "go on", 0.05

    def note(text, *args):
        lines.append(text % args)
        if len(lines) == 6:
            path.touch()

    with make([functools.partial(WaitEnv, path)] * 2, num_workers=1, heartbeat_interval=interval) as splits:
        for split in splits:
            split.reset()
        monkeypatch.setattr(logging, "warning", note)
        start = time.monotonic()
        together(*(split.step for split in splits))
        assert len(lines) <= (time.monotonic() - start) / interval + 1
    assert "environments 0 to 0 and 1 to 1" in lines[0]


# --- Faults.


def test_a_worker_that_dies_is_restarted_once_for_all_splits(warnings):
    with make([functools.partial(CountEnv, 50)] * 8) as splits:
        for split in splits:
            split.reset()
            split.step()
        before = [observed(split) for split in splits]
        os.kill(splits[0].pids[1], signal.SIGKILL)
        for split, old in zip(splits, before, strict=True):
            split.step()
            new = observed(split)
            np.testing.assert_array_equal(split.arrays.step_type, [MID, MID, FIRST, FIRST])
            np.testing.assert_array_equal(split.arrays.reward[2:], 0)
            np.testing.assert_array_equal(new[:, STEP], [2, 2, 0, 0])
            np.testing.assert_array_equal(new[:2, :EPISODE], old[:2, :EPISODE])
            assert not set(new[2:, PID]) & set(old[:, PID]) and not set(new[2:, SEED]) & set(old[:, SEED])
        assert len({seed for split in splits for seed in observed(split)[:, SEED]}) == 8
        assert [split.num_restarts for split in splits] == [1, 0]
        assert warnings == [
            "the worker process of environments 2 to 3 and 6 to 7 was killed by SIGKILL: "
            "restart 1 of 3 within 600 s"
        ]
        for split in splits:
            split.step()
            np.testing.assert_array_equal(split.arrays.step_type, MID)


@pytest.mark.parametrize("fault", ["hang", "end"])
def test_a_fault_in_one_split_while_all_step(warnings, monkeypatch, tmp_path, fault):
    hangs = Hangs(monkeypatch, tmp_path)
    ends = functools.partial(envs.act_once, tmp_path / "begun", envs.end_process)
    act = hangs.make_act() if fault == "hang" else ends
    env_fns = [functools.partial(CountEnv, 1000)] * 3 + [functools.partial(CountEnv, 1000, at=3, act=act)]
    with make(env_fns, num_workers=1) as splits:
        turn = threading.Barrier(2)  # so that no split has ended before the fault

        def run(split):
            split.reset()
            types = []
            for _ in range(8):
                turn.wait(60)
                split.step()
                types.append(split.arrays.step_type.tolist())
            return types

        for types in together(*(functools.partial(run, split) for split in splits)):
            assert types.count([FIRST, FIRST]) == 1 and types.count([MID, MID]) == 7
        assert sum(split.num_restarts for split in splits) == 1
        name = "the worker process of environments 0 to 1 and 2 to 3"
        hang = "did not answer within 2 * step_timeout=60 s"
        reason = hang if fault == "hang" else "ended with exit status 7"
        assert warnings == [f"{name} {reason}: restart 1 of 3 within 600 s"]


def test_all_splits_end_when_no_restart_is_left():
    special = functools.partial(CountEnv, at=2, act=envs.end_process)
    with make([CountEnv, special], num_workers=1, max_restarts=0) as splits:
        for split in splits:
            split.reset()
            split.step()
        splits[1].arrays.action[0][:] = 0
        for split in reversed(splits):
            with pytest.raises(WorkerError, match="exit status 7; max_restarts=0 is reached"):
                split.step()


@pytest.mark.parametrize(
    "broken, error, message",
    [
        ({"at": 0, "act": envs.raise_own_error}, KeyError, "my own bug"),
        ({"action_space": envs.spaces.Discrete(9)}, EnvError, "other spaces after its restart"),
    ],
)
def test_a_restart_that_fails_is_an_error_in_all_splits(tmp_path, broken, error, message):
    def make_env(path):
        return CountEnv(**broken if path.exists() else {})

    path = tmp_path / "broken"
    with make([functools.partial(make_env, path)] * 2, num_workers=1) as splits:
        for split in splits:
            split.reset()
        path.touch()
        os.kill(splits[0].pids[0], signal.SIGKILL)
        for split in (*splits, splits[0]):
            with pytest.raises(error, match=message):
                split.step()


def test_a_restart_that_is_interrupted_is_an_error_in_all_splits(monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    with make([CountEnv] * 2, num_workers=1) as splits:
        for split in splits:
            split.reset()
        os.kill(splits[0].pids[0], signal.SIGKILL)
        monkeypatch.setattr(SharedWorkers, "_start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            splits[0].step()
        for split in splits:
            with pytest.raises(WorkerError, match="the restart of worker processes was interrupted"):
                split.step()


def test_an_exception_is_raised_in_its_split_alone():
    special = functools.partial(CountEnv, at=1, act=envs.raise_own_error)
    with make([CountEnv] * 3 + [special], num_workers=1) as (one, other):
        one.reset(), other.reset()
        with pytest.raises(KeyError, match="my own bug"):
            other.step()
        for _ in range(3):
            one.step()
        assert one.arrays.step_type.tolist() == [MID, MID] and one.num_restarts == 0


def test_errors_count_the_environments_of_all_splits():
    with make([CountEnv] * 3 + [envs.WrongShapeEnv], num_workers=1) as (one, other):
        one.reset()
        with pytest.raises(Exception, match="^environment 3, step 0: the observation is"):
            other.reset()


def test_environments_of_splits_must_have_the_same_spaces():
    special = functools.partial(CountEnv, action_space=envs.spaces.Discrete(9))
    with pytest.raises(ConfigError, match="environments 0 to 0 and 1 to 1 has other spaces"):
        with make([CountEnv, special], num_workers=1):
            pass


# --- Each for itself.


def test_seeds_are_those_of_the_split():
    with make([CountEnv] * 4, num_workers=1) as (one, other):
        other.seed([7, 8])
        one.reset(), other.reset()
        assert observed(one)[:, SEED].tolist() == [100, 101]
        assert observed(other)[:, SEED].tolist() == [7, 8]


def test_the_last_split_that_is_closed_ends_the_workers():
    with make([CountEnv] * 2, num_workers=1) as (one, other):
        one.reset(), other.reset()
        pids = one.pids
        one.close()
        one.close()
        with pytest.raises(RuntimeError, match="closed"):
            one.step()
        other.step()
        assert all(alive(pid) for pid in pids)
        other.close()
        assert not any(alive(pid) for pid in pids)


def test_no_process_is_left_when_all_splits_are_forgotten():
    pool = WorkerPool([CountEnv] * 2, range(2), 1, num_splits=2)
    pids = pool.pids
    del pool
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_rows_that_are_held_are_those_of_the_split():
    with make([functools.partial(CountEnv, 9)] * 8, num_workers=2) as splits:
        for split in splits:
            split.reset()
        splits[1].hold([0, 3])
        for split in splits:
            split.arrays.action[0][:] = 0
            split.step()
        assert splits[0].arrays.step_type.tolist() == [MID] * 4
        assert splits[1].arrays.step_type.tolist() == [FIRST, MID, MID, FIRST]
        splits[1].step()
        assert observed(splits[1])[:, STEP].tolist() == [1, 2, 2, 1]
