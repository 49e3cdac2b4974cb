# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool gives the same results as EnvBatch, and nothing waits for ever when a worker ends."""

import contextlib
import functools
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback

import numpy as np
import psutil
import pytest
from absl import logging

from alf.workers import EnvBatch, WorkerError, WorkerPool, WorkerSettings
from tests.workers import envs
from tests.workers.envs import CountEnv, ProcessEnv

FIRST, MID, LAST = 0, 1, 2
PID, SEED, EPISODE, STEP = range(4)  # of the observation


def make(cls=CountEnv, size=5, num_workers=2, special=None, **settings):
    """A pool of `size` environments; `special` are the arguments of the last one."""
    env_fns = [cls] * (size - 1) + [functools.partial(cls, **(special or {}))]
    settings = WorkerSettings(**settings)
    return contextlib.closing(WorkerPool(env_fns, range(100, 100 + size), num_workers, settings=settings))


def observed(pool):
    return pool.arrays.observation[0].copy()


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.01)


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def warnings(monkeypatch):
    found = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: found.append(text % args))
    return found


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_it_does_what_a_batch_in_this_process_does(num_workers):
    batch = EnvBatch([CountEnv] * 5, range(100, 105))
    with make(num_workers=num_workers) as pool:
        assert pool.layout == batch.layout
        for t in range(13):
            for x in (batch, pool):
                x.arrays.action[0][:] = t % 3
                x.reset() if t == 0 else x.step()
            for name in ("step_type", "reward", "discount"):
                np.testing.assert_array_equal(getattr(pool.arrays, name), getattr(batch.arrays, name))
            np.testing.assert_array_equal(observed(pool)[:, 1:], batch.arrays.observation[0][:, 1:])
        assert len(set(observed(pool)[:, PID])) == num_workers
        assert os.getpid() not in observed(pool)[:, PID]


def test_workers_are_light_and_single_threaded():
    with make(ProcessEnv, pin_workers=True) as pool:
        pool.reset()
        np.testing.assert_array_equal(observed(pool), [[False, 1, 1, 0]] * 5)
    with make(ProcessEnv, size=1, num_workers=1, single_threaded=False) as pool:
        pool.reset()
        threads = float(os.environ.get("OMP_NUM_THREADS", 0))
        np.testing.assert_array_equal(observed(pool), [[False, len(os.sched_getaffinity(0)), threads, 0]])


@pytest.mark.parametrize("how", ["close", "forget"])
def test_no_process_is_left(how):
    pool = WorkerPool([CountEnv] * 4, range(4), num_workers=2)
    pids = pool.pids
    pool.reset()
    assert all(alive(pid) for pid in pids)
    if how == "close":
        pool.close()
        pool.close()
        with pytest.raises(RuntimeError, match="closed"):
            pool.step()
    del pool
    gc.collect()
    assert not any(alive(pid) for pid in pids)


OWNER = """
    import sys, time
    from alf.workers import WorkerPool
    from tests.workers import envs

    pool = WorkerPool([envs.CountEnv, lambda: envs.CountEnv(at=2, act=envs.sleep_for_long)], [1, 2], 2)
    pool.reset()
    print(*pool.pids, flush=True)
    pool.step()
    pool.step()  # one of them sleeps
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_owner(signum):
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER)], stdout=subprocess.PIPE, text=True
    )
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 2 and all(alive(pid) for pid in pids)
    time.sleep(0.5)
    owner.send_signal(signum)
    owner.wait(60)
    wait_until(lambda: not any(alive(pid) for pid in pids))


# --- An exception of an environment reaches the user.


@pytest.mark.parametrize("at", [0, 3])
def test_an_exception_arrives_with_its_traceback(at):
    with (
        pytest.raises(KeyError, match="my own bug") as info,
        make(special={"at": at, "act": envs.raise_own_error}) as pool,
    ):
        pool.reset()
        for _ in range(5):
            pool.step()
    text = "".join(traceback.format_exception(info.value))
    assert "envs.py" in text and "in raise_own_error" in text


def test_a_timeout_error_of_an_environment_is_no_hanging_worker():
    with make(special={"at": 1, "act": envs.raise_timeout}) as pool:
        pool.reset()
        with pytest.raises(TimeoutError, match="my simulator's"):
            pool.step()
        assert pool.num_restarts == 0


def test_an_exception_that_cannot_be_pickled_arrives_as_text():
    with make(special={"at": 1, "act": envs.raise_not_picklable}) as pool:
        pool.reset()
        with pytest.raises(Exception, match="it holds a socket") as info:
            pool.step()
        assert "in raise_not_picklable" in "".join(traceback.format_exception(info.value))


def test_commands_after_an_exception_are_not_answered_by_it():
    with make(special={"at": 1, "act": envs.raise_own_error}) as pool:
        pool.reset()
        with pytest.raises(KeyError):
            pool.step()
        pool.reset()
        np.testing.assert_array_equal(pool.arrays.step_type, FIRST)


def test_a_worker_that_hangs_beside_an_exception_cannot_reply_late():
    env_fns = [
        functools.partial(CountEnv, at=1, act=envs.raise_own_error),
        functools.partial(CountEnv, at=1, act=envs.sleep_for_long),
    ]
    settings = WorkerSettings(step_timeout=2.0)
    with contextlib.closing(WorkerPool(env_fns, range(2), 2, settings=settings)) as pool:
        pool.reset()
        with pytest.raises(KeyError):
            pool.step()
        assert not alive(pool.pids[1])
        pool.reset()
        assert pool.num_restarts == 1
        np.testing.assert_array_equal(pool.arrays.step_type, FIRST)


def test_environments_with_other_spaces_are_refused():
    with pytest.raises(ValueError, match="spaces"), make(special={"action_space": envs.spaces.Discrete(9)}):
        pass


# --- A worker that dies or hangs is restarted, with a warning.


@pytest.mark.parametrize(
    "signum, num_steps",
    # A stopped worker is lost when step_timeout is over, at any step of an episode: 5 is the last one.
    [(signal.SIGKILL, 1), (signal.SIGKILL, 4), (signal.SIGKILL, 5), (signal.SIGKILL, 6), (signal.SIGSTOP, 5)],
)
def test_a_dead_or_stopped_worker_is_restarted(warnings, signum, num_steps):
    # Long enough for the other workers, also on a busy machine; only the stopped one takes longer.
    with make(step_timeout=3.0 if signum == signal.SIGSTOP else 60.0) as pool:
        pool.reset()
        for _ in range(num_steps):
            pool.step()
        before = observed(pool)
        os.kill(pool.pids[1], signum)
        pool.step()
        # Environments 0 and 1 go on; the others begin new episodes, with other seeds.
        after = observed(pool)
        np.testing.assert_array_equal(after[:2, PID], before[:2, PID])
        np.testing.assert_array_equal(after[:2, EPISODE], before[:2, EPISODE] + (num_steps == 5))
        np.testing.assert_array_equal(pool.arrays.step_type[2:], FIRST)
        np.testing.assert_array_equal(pool.arrays.reward[2:], 0)
        np.testing.assert_array_equal(pool.arrays.discount[2:], 1)
        np.testing.assert_array_equal(after[2:, [EPISODE, STEP]], [[1, 0]] * 3)
        assert len(set(after[:, SEED])) == 5 and not set(after[2:, SEED]) & set(before[:, SEED])
        assert before[2, PID] not in after[:, PID]
        assert pool.num_restarts == 1
        reason = (
            "was killed by SIGKILL" if signum == signal.SIGKILL else "did not answer within step_timeout=3 s"
        )
        assert warnings == [
            f"the worker process of environments 2 to 4 {reason}: restart 1 of 3 within 600 s"
        ]
        pool.step()
        np.testing.assert_array_equal(pool.arrays.step_type[2:], MID)


def test_a_worker_that_ends_itself(warnings):
    with make(special={"at": 2, "act": envs.end_process}) as pool:
        pool.reset()
        for _ in range(3):
            pool.step()
        assert "ended with exit status 7" in warnings[0]
        assert pool.num_restarts == 1


def test_restarts_are_bounded_and_the_reason_is_given():
    with make(special={"at": 1, "act": envs.end_process}, max_restarts=2) as pool:
        pool.reset()
        with pytest.raises(WorkerError, match="ended with exit status 7; max_restarts=2 is reached"):
            for _ in range(10):
                pool.step()
        assert pool.num_restarts == 2


def test_a_worker_that_cannot_start(monkeypatch):
    with (
        pytest.raises(WorkerError, match="exit status 7, before it had made its environments"),
        make(special={"at": 0, "act": envs.end_process}),
    ):
        pass
    monkeypatch.setattr("alf.workers.pool._CLOSE_SECONDS", 0.1)  # The worker sleeps, so it cannot close.
    with (
        pytest.raises(WorkerError, match="did not answer within start_timeout=1 s"),
        make(special={"at": 0, "act": envs.sleep_for_long}, start_timeout=1.0, max_restarts=0),
    ):
        pass
