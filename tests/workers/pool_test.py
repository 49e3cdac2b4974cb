# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool gives the same results as EnvBatch, and nothing waits for ever when a worker ends."""

import contextlib
import functools
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import numpy as np
import psutil
import pytest
from absl import logging

from alf.errors import ConfigError, EnvError
from alf.workers import EnvBatch, WorkerError, WorkerPool, WorkerSettings, process
from alf.workers.pool import _Workers
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
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with make(ProcessEnv, pin_workers=True) as pool:
        pool.reset()
        np.testing.assert_array_equal(observed(pool), [[False, 1, 1, nice]] * 5)
    with make(ProcessEnv, size=1, num_workers=1, single_threaded=False) as pool:
        pool.reset()
        threads = float(os.environ.get("OMP_NUM_THREADS", 0))
        np.testing.assert_array_equal(observed(pool), [[False, len(os.sched_getaffinity(0)), threads, nice]])


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


def test_a_worker_that_crashes_prints_its_stack(warnings, capfd):
    with make(special={"at": 1, "act": envs.crash}) as pool:
        pool.reset()
        pool.step()
        assert "was killed by SIGSEGV: restart 1" in warnings[0]
        assert "in crash" in capfd.readouterr().err


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


@pytest.mark.parametrize(
    "act, settings, reason",
    [
        (envs.end_process, {}, "ended with exit status 7"),
        (envs.sleep_for_long, {"start_timeout": 5.0}, "did not answer within start_timeout=5 s"),
    ],
)
def test_a_worker_that_fails_once_while_it_starts_is_restarted(warnings, tmp_path, act, settings, reason):
    special = {"at": 0, "act": functools.partial(envs.act_once, tmp_path / "begun", act)}
    with make(special=special, **settings) as pool:
        pool.reset()
        np.testing.assert_array_equal(observed(pool)[:, SEED], range(100, 105))
        assert pool.num_restarts == 1
        name = "the worker process of environments 2 to 4"
        assert warnings == [
            f"{name} {reason}, before it had made its environments: restart 1 of 3 within 600 s"
        ]


def test_restarts_count_within_a_period(warnings):
    with make(num_workers=1, special={"at": 2, "act": envs.end_process}, restart_period=1e-6) as pool:
        pool.reset()
        while pool.num_restarts < 5:
            pool.step()
    assert len(warnings) == 5 and all("restart 1 of 3 within 1e-06 s" in text for text in warnings)


def test_workers_that_hang_at_once_are_found_and_restarted_at_once(tmp_path):
    env_fns = [
        functools.partial(
            CountEnv, at=1, act=functools.partial(envs.act_once, tmp_path / str(i), envs.sleep_for_long)
        )
        for i in range(3)
    ]
    settings = WorkerSettings(step_timeout=4.0)
    with contextlib.closing(WorkerPool(env_fns, range(3), 3, settings=settings)) as pool:
        pool.reset()
        start = time.monotonic()
        pool.step()
        # One after the other they would take 12 s.
        assert 4.0 <= time.monotonic() - start < 11.0
        assert pool.num_restarts == 3
        np.testing.assert_array_equal(pool.arrays.step_type, FIRST)
        assert len(set(observed(pool)[:, SEED])) == 3
        pool.step()
        np.testing.assert_array_equal(pool.arrays.step_type, MID)


# --- What an environment does wrong is its error, in a worker too.


@pytest.mark.parametrize("at", [0, 3])
def test_an_exit_of_an_environment_is_its_error(at):
    where = "the constructor of environment 4" if at == 0 else "environment 4, step 3"
    with pytest.raises(EnvError, match=rf"^{where} raised SystemExit\(3\)") as info:
        with make(special={"at": at, "act": envs.exit_python}) as pool:
            pool.reset()
            for _ in range(5):
                pool.step()
    assert not isinstance(info.value, WorkerError)
    assert "in exit_python" in "".join(traceback.format_exception(info.value))
    assert at == 0 or pool.num_restarts == 0


def test_a_config_error_of_a_worker_is_one_here():
    with (
        pytest.raises(ConfigError, match="^the action space is Text"),
        make(special={"action_space": envs.spaces.Text(3)}),
    ):
        pass


# --- Processes, files and signals.


def make_with_processes(**kwargs):
    """A pool of two environments that started processes, and the ids of all four processes."""
    env_fns = [functools.partial(envs.StartsProcess, **kwargs)] * 2
    pool = WorkerPool(env_fns, range(2), 2)
    pool.reset()
    pids = observed(pool)[:, [PID, SEED]].astype(int)
    assert all(alive(pid) for pid in pids.flat)
    return pool, pids


def test_an_environment_can_terminate_its_process(warnings):
    pool, pids = make_with_processes()
    pool.close()
    assert not any(alive(pid) for pid in pids.flat) and not warnings


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize("end", ["close", "kill"])
def test_processes_of_an_environment_end_with_its_worker(end, fork):
    pool, pids = make_with_processes(keep=True, fork=fork)
    with contextlib.closing(pool):
        if end == "kill":
            start = time.monotonic()
            os.kill(pids[1, 0], signal.SIGKILL)
            pool.step()
            assert time.monotonic() - start < 30.0  # step_timeout is 60 s.
            wait_until(lambda: not alive(pids[1, 1]))
            assert alive(pids[0, 1])
    wait_until(lambda: not any(alive(pid) for pid in pids.flat))


OWNER_OF_PROCESSES = """
    import time
    from tests.workers.pool_test import make_with_processes

    pool, pids = make_with_processes(keep=True)
    print(*pids.flat, flush=True)
    time.sleep(1000)
"""


def test_processes_of_an_environment_end_with_the_owner():
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER_OF_PROCESSES)], stdout=subprocess.PIPE, text=True
    )
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 4 and all(alive(pid) for pid in pids)
    owner.kill()
    owner.wait(60)
    wait_until(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.parametrize(
    "act, message",
    [
        (envs.raise_own_error, "ended with exit status 1 when it closed them"),
        (envs.exit_python, "ended with exit status 1 when it closed them"),
        (envs.sleep_for_long, "did not close them within 5 s: it is killed"),
    ],
)
def test_a_close_that_fails_in_a_worker_is_a_warning(warnings, monkeypatch, tmp_path, act, message):
    monkeypatch.setattr("alf.workers.pool._CLOSE_SECONDS", 5.0 if act is envs.sleep_for_long else 60.0)
    paths = [tmp_path / str(i) for i in range(4)]
    # A worker closes its last environment first.
    env_fns = [
        functools.partial(envs.CloseEnv, act if i == 3 else None, path) for i, path in enumerate(paths)
    ]
    pool = WorkerPool(env_fns, range(4), 2)
    pool.close()
    assert warnings == [f"the worker process of environments 2 to 3 {message}"]
    closed = [path.exists() for path in paths]
    assert closed == [True, True, act is not envs.sleep_for_long, False]


def test_stacks_are_printed_on_demand_and_before_a_worker_that_hangs_is_killed(capfd):
    special = {"at": 2, "act": envs.sleep_for_long}
    with make(special=special, step_timeout=3.0) as pool:
        pool.dump_stacks()  # also while the workers start
        pool.reset()
        wait_until(lambda: not pool.dump_stacks() and capfd.readouterr().err.count("receive_byte") >= 2)
        pool.step()
        pids = pool.pids
        pool.step()
        assert pool.num_restarts == 1 and pool.pids[0] == pids[0]
        assert "in sleep_for_long" in capfd.readouterr().err
    pool.dump_stacks()


def test_a_starting_worker_survives_a_request_for_its_stacks(monkeypatch):
    start = threading.Event()
    original = _Workers.receive_replies

    def receive_replies(workers, channels):
        if not start.is_set():
            start.set()
            for _ in range(20):
                for channel in channels.values():
                    channel.worker.dump_stacks()
        return original(workers, channels)

    monkeypatch.setattr(_Workers, "receive_replies", receive_replies)
    with contextlib.closing(WorkerPool([CountEnv] * 2, range(2), 2)) as made:
        assert start.is_set() and made.num_restarts == 0


def test_a_large_job_is_received_in_linear_time():
    payload = bytes(64 << 20)

    def make_env():
        assert len(payload) == 64 << 20
        return CountEnv()

    ours, theirs = socket.socketpair()
    data = process.pack_object(make_env)
    thread = threading.Thread(target=ours.sendall, args=(data,))
    thread.start()
    start = time.process_time()
    assert process.receive_object(theirs)().reset()
    seconds = time.process_time() - start
    thread.join()
    ours.close()
    theirs.close()
    assert seconds < 3.0  # It takes 0.1 s; where it copied what it had at every part, it took 8 s.


def test_modules_of_the_current_directory_are_not_imported(tmp_path, monkeypatch):
    for name in ("json", "signal", "faulthandler", "mmap", "numpy", "alf"):
        (tmp_path / f"{name}.py").write_text("import os; os._exit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with make(size=1, num_workers=1, max_restarts=0) as pool:
        pool.reset()


def test_shared_memory_is_for_this_user_only():
    with make(size=1, num_workers=1) as pool:
        assert os.fstat(pool._workers._memory_file.fileno()).st_mode & 0o777 == 0o600
