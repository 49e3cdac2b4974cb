# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool gives the same results as EnvBatch, and nothing waits for ever when a worker ends."""

import atexit
import contextlib
import functools
import gc
import os
import re
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

from alf.core.user_calls import find_user_call
from alf.errors import ConfigError, EnvError
from alf.workers import EnvBatch, WorkerError, WorkerPool, WorkerSettings, process
from alf.workers.running_workers import RunningWorkers
from alf.workers.worker import Channel, Worker
from tests.workers import envs
from tests.workers.envs import CountEnv, FaultEnv, ProcessEnv
from tests.workers.hangs import Hangs

FIRST, MID, LAST = 0, 1, 2
PID, SEED, EPISODE, STEP = range(4)  # of the observation


def make(cls=CountEnv, size=1, num_workers=1, special=None, **settings):
    """A pool of `size` environments; `special` are the arguments of the last one."""
    env_fns = [cls] * (size - 1) + [functools.partial(cls, **(special or {}))]
    settings = WorkerSettings(**settings)
    return contextlib.closing(WorkerPool(env_fns, range(100, 100 + size), num_workers, settings=settings))


@pytest.fixture(scope="module")
def shared():
    """A pool of two workers for the tests that need no other one."""
    settings = WorkerSettings(max_restarts=1000)
    with contextlib.closing(WorkerPool([FaultEnv] * 5, range(100, 105), 2, settings=settings)) as pool:
        yield pool


@pytest.fixture
def pool(shared):
    """That pool at the beginning of episodes."""
    shared.arrays.action[0][:] = 0
    shared.reset()
    return shared


def step(pool, *acts):
    """Steps a pool; the environments from the last one backwards call these acts, of `envs.FAULTS`."""
    pool.arrays.action[0][:] = 0
    for i, act in enumerate(acts):
        pool.arrays.action[0][-1 - i] = 1 + envs.FAULTS.index(act)
    try:
        pool.step()
    finally:
        pool.arrays.action[0][:] = 0


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
    monkeypatch.setattr(logging, "warning", lambda text, *args, **_: found.append(text % args))
    return found


@pytest.fixture
def hangs(monkeypatch, tmp_path):
    folder = tmp_path / "hangs"
    folder.mkdir()
    return Hangs(monkeypatch, folder)


def test_it_does_what_a_batch_in_this_process_does():
    num_workers = 3  # of 1, 2 and 2 environments
    batch = EnvBatch([CountEnv] * 5, range(100, 105))
    with make(size=5, num_workers=num_workers) as pool:
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


def test_what_a_terminal_or_a_scheduler_sends_to_all_does_not_reach_workers(monkeypatch, warnings):
    """From their start on: their owner decides when they end."""
    start, signals = Worker.__init__, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def start_and_signal(self, *args):
        start(self, *args)
        for signum in signals:
            os.kill(self.process.pid, signum)

    monkeypatch.setattr(Worker, "__init__", start_and_signal)
    with make() as pool:
        pool.reset()
        before = observed(pool)[0, PID]
        for signum in signals:
            os.kill(int(before), signum)
        pool.step()
        assert observed(pool)[0, PID] == before
    assert not warnings


def test_workers_are_light_and_single_threaded():
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with make(ProcessEnv, size=2, pin_workers=True) as pool:
        pool.reset()
        np.testing.assert_array_equal(observed(pool), [[False, 1, 1, nice]] * 2)
    with make(ProcessEnv, single_threaded=False) as pool:
        pool.reset()
        threads = float(os.environ.get("OMP_NUM_THREADS", 0))
        np.testing.assert_array_equal(observed(pool), [[False, len(os.sched_getaffinity(0)), threads, nice]])


@pytest.mark.parametrize("how", ["close", "forget"])
def test_no_process_is_left(how):
    pool = WorkerPool([CountEnv] * 2, range(2), num_workers=2)
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
    import functools, sys
    from alf.workers import WorkerPool
    from tests.workers import envs

    sleeps = functools.partial(envs.act_once, sys.argv[1], envs.sleep_for_long)
    make = functools.partial(envs.StartsProcess, keep=True)
    pool = WorkerPool([make, functools.partial(make, at=1, act=sleeps)], [1, 2], 2)
    pool.reset()
    print(*pool.arrays.observation[0][:, :2].astype(int).flat, flush=True)
    pool.step()
"""


def test_workers_end_with_their_owner_and_so_do_the_processes_of_environments(tmp_path):
    """Also while one of them steps."""
    begun = tmp_path / "begun"
    command = [sys.executable, "-c", textwrap.dedent(OWNER), str(begun)]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 4 and all(alive(pid) for pid in pids)
    wait_until(begun.exists)
    owner.kill()
    owner.wait(60)
    wait_until(lambda: not any(alive(pid) for pid in pids))


# --- An exception of an environment reaches the user.


def has_traceback_of_own_error(error):
    text = "".join(traceback.format_exception(error))
    return "envs.py" in text and "in raise_own_error" in text


def test_an_exception_arrives_with_its_traceback(pool):
    step(pool)
    with pytest.raises(KeyError, match="my own bug") as info:
        step(pool, envs.raise_own_error)
    assert has_traceback_of_own_error(info.value)


def test_an_exception_of_a_constructor_arrives_with_its_traceback():
    with (
        pytest.raises(KeyError, match="my own bug") as info,
        make(special={"at": 0, "act": envs.raise_own_error}),
    ):
        pass
    assert has_traceback_of_own_error(info.value)


def test_a_constructor_that_fails_ends_the_other_workers_in_silence(warnings, capfd):
    raises = {"at": 0, "act": envs.raise_own_error}
    with pytest.raises(KeyError), make(size=3, num_workers=3, special=raises, close_timeout=60.0):
        pass
    assert not warnings and "Traceback" not in capfd.readouterr().err


def test_a_timeout_error_of_an_environment_is_no_hanging_worker(pool):
    before = pool.num_restarts
    with pytest.raises(TimeoutError, match="my simulator's"):
        step(pool, envs.raise_timeout)
    assert pool.num_restarts == before


def test_an_exception_that_cannot_be_pickled_arrives_as_text(pool):
    with pytest.raises(Exception, match="it holds a socket") as info:
        step(pool, envs.raise_not_picklable)
    text = "".join(traceback.format_exception(info.value))
    assert "in raise_not_picklable" in text
    # Either worker may be the first to answer, and their steps are those of the tests before.
    assert re.search(r"raised by environment \d+, step \d+", text) or sys.version_info < (3, 11)


def test_commands_after_an_exception_are_not_answered_by_it(pool):
    with pytest.raises(KeyError):
        step(pool, envs.raise_own_error)
    pool.reset()
    np.testing.assert_array_equal(pool.arrays.step_type, FIRST)


def test_a_worker_that_hangs_beside_an_exception_cannot_reply_late(pool, hangs):
    before, pid = pool.num_restarts, pool.pids[0]
    hangs.note(pid)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(KeyError):
        step(pool, envs.raise_own_error)  # in the other worker
    assert not alive(pid)
    pool.reset()
    assert pool.num_restarts == before + 1
    np.testing.assert_array_equal(pool.arrays.step_type, FIRST)


@pytest.mark.parametrize("method, step_type, count", [("step", MID, 3), ("reset", FIRST, 0)])
def test_after_ctrl_c_no_late_reply_is_taken_for_the_next_one(pool, monkeypatch, method, step_type, count):
    pool.step()
    restarts, pid, receive_reply = pool.num_restarts, pool.pids[1], Channel.receive_reply

    def interrupt(channel, *args):
        if channel.worker.process.pid == pid:
            wait_until(channel.has_reply)  # which nobody receives
            raise KeyboardInterrupt
        return receive_reply(channel, *args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Channel, "receive_reply", interrupt)
        pool.step()
    assert not alive(pid)
    getattr(pool, method)()
    assert pool.num_restarts == restarts + 1 and pid not in observed(pool)[:, PID]
    assert pool.arrays.step_type.tolist() == [step_type] * 2 + [FIRST] * 3
    assert observed(pool)[:, STEP].tolist() == [count] * 2 + [0] * 3


# --- A worker that dies or hangs is restarted, with a warning.


@pytest.mark.parametrize(
    "signum, num_steps",
    # A stopped worker is lost when step_timeout is over, at any step of an episode: 5 is the last one.
    [(signal.SIGKILL, 1), (signal.SIGKILL, 4), (signal.SIGKILL, 5), (signal.SIGKILL, 6), (signal.SIGSTOP, 5)],
)
def test_a_dead_or_stopped_worker_is_restarted(pool, warnings, hangs, signum, num_steps):
    for _ in range(num_steps):
        pool.step()
    before, restarts = observed(pool), pool.num_restarts
    os.kill(pool.pids[1], signum)
    if signum == signal.SIGSTOP:
        hangs.note(pool.pids[1])
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
    assert pool.num_restarts == restarts + 1
    reason = (
        "was killed by SIGKILL" if signum == signal.SIGKILL else "did not answer within step_timeout=60 s"
    )
    (warning,) = warnings
    name = "the worker process of environments 2 to 4"
    assert re.fullmatch(rf"{name} {reason}: restart \d+ of 1000 within 600 s", warning)
    pool.step()
    np.testing.assert_array_equal(pool.arrays.step_type[2:], MID)


def test_a_worker_that_ends_itself_is_restarted(pool, warnings):
    before = pool.num_restarts
    step(pool, envs.end_process)
    assert "ended with exit status 7" in warnings[0]
    assert pool.num_restarts == before + 1


class Noting:
    """A socket that notes how long it waits at most."""

    def __init__(self, connection):
        self._connection, self.seconds = connection, []

    def settimeout(self, seconds):
        self.seconds.append(seconds)
        self._connection.settimeout(seconds)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def test_the_rest_is_read_without_a_wait():
    """Also after a command, whose time-out of a minute Python would wait for."""
    ours, theirs = socket.socketpair()
    with contextlib.closing(theirs), contextlib.closing(Channel(None, ours, 60.0)) as channel:
        channel.send(b"s")
        theirs.sendall(b"kd")
        start = time.monotonic()
        assert channel.read_rest() == b"kd"
        assert time.monotonic() - start < 30


def test_a_command_has_the_whole_time_also_after_a_reply_in_the_last_moment():
    ours, theirs = socket.socketpair()
    with contextlib.closing(theirs), contextlib.closing(Channel(None, ours, 60.0)) as channel:
        channel.send(process.STEP)
        channel.sent_at -= 60.0
        theirs.sendall(process.OK)
        channel.receive_reply(20.0, lambda: None)
        assert ours.gettimeout() < 1
        channel.send(process.STEP)
        assert ours.gettimeout() == 60.0


def test_workers_that_hang_at_once_are_found_and_restarted_at_once(pool, monkeypatch):
    before, seconds, sizes, original = pool.num_restarts, 0.4, [], RunningWorkers.receive_replies
    sockets = []

    def receive_replies(workers, indices, *args, **kwargs):
        sizes.append(len(indices))
        if not sockets:
            for channel in [workers.running[index].channel for index in indices]:
                channel.limit_replies(seconds)
                sockets.append(Noting(channel._connection))
                channel._connection = sockets[-1]
        return original(workers, indices, *args, **kwargs)

    monkeypatch.setattr(RunningWorkers, "receive_replies", receive_replies)
    for pid in pool.pids:
        os.kill(pid, signal.SIGSTOP)
    pool.step()
    assert sizes == [2, 2, 2]  # each waits for both: those that hang, the new ones, and their first steps
    waited = sum(sum(socket.seconds) for socket in sockets)
    assert waited < 1.6 * seconds, "it waits for one after the other"
    assert pool.num_restarts == before + 2
    np.testing.assert_array_equal(pool.arrays.step_type, FIRST)
    assert len(set(observed(pool)[:, SEED])) == 5
    pool.step()
    np.testing.assert_array_equal(pool.arrays.step_type, MID)


def test_a_worker_that_crashes_prints_its_stack(warnings, capfd):
    with make(special={"at": 1, "act": envs.crash}) as pool:
        pool.reset()
        pool.step()
        assert "was killed by SIGSEGV: restart 1" in warnings[0]
        assert "in crash" in capfd.readouterr().err


def test_restarts_are_bounded_and_the_reason_is_given():
    with make(special={"at": 1, "act": envs.end_process}, max_restarts=1) as pool:
        pool.reset()
        with pytest.raises(WorkerError, match="ended with exit status 7; max_restarts=1 is reached"):
            for _ in range(10):
                pool.step()
        assert pool.num_restarts == 1
        with pytest.raises(WorkerError, match="max_restarts=1 is reached"):
            pool.step()


@pytest.mark.parametrize(
    "broken, error, message",
    [
        ({"at": 0, "act": envs.raise_own_error}, KeyError, "my own bug"),
        ({"action_space": envs.spaces.Discrete(9)}, EnvError, "other spaces after its restart"),
    ],
)
def test_a_pool_whose_restart_has_failed_stays_failed(tmp_path, broken, error, message):
    def make_env(path):
        return CountEnv(**broken if path.exists() else {})

    path = tmp_path / "broken"
    with make(functools.partial(make_env, path), size=2, num_workers=2) as pool:
        pool.reset()
        path.touch()
        os.kill(pool.pids[1], signal.SIGKILL)
        for command in (pool.step, pool.step, pool.render):
            with pytest.raises(error, match=message):
                command()


def test_a_pool_whose_restart_was_interrupted_stays_failed(monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    with make(size=2, num_workers=2) as pool:
        pool.reset()
        os.kill(pool.pids[1], signal.SIGKILL)
        monkeypatch.setattr(RunningWorkers, "_start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.step()
        for _ in range(2):
            with pytest.raises(WorkerError, match="the restart of worker processes was interrupted"):
                pool.step()


def test_the_reason_of_a_loss_is_kept_until_the_restart(pool, warnings, hangs):
    """The worker is killed by the call that meets an exception beside it, and replaced by the next one."""
    hangs.note(pool.pids[0])
    os.kill(pool.pids[0], signal.SIGSTOP)
    with pytest.raises(KeyError):
        step(pool, envs.raise_own_error)  # in the other worker
    pool.reset()
    assert len(warnings) == 1 and "did not answer within step_timeout=60 s: restart" in warnings[0]


def test_rows_that_are_held_repeat_their_first_step():
    with make(functools.partial(CountEnv, 9), size=4, num_workers=2) as pool:
        pool.reset()
        pool.hold([0, 3])
        pool.arrays.action[0][:] = 0
        pool.step()
        assert pool.arrays.step_type.tolist() == [FIRST, MID, MID, FIRST]
        pool.step()
        assert observed(pool)[:, STEP].tolist() == [1, 2, 2, 1]


SLOW = dict(start_timeout=0.3, max_restarts=0, close_timeout=0.1)
UNSTARTED = {
    "other spaces": (
        {"action_space": envs.spaces.Discrete(9)},
        dict(size=2, num_workers=2),
        ValueError,
        "spaces",
    ),
    "ends": (
        {"at": 0, "act": envs.end_process},
        dict(max_restarts=0),
        WorkerError,
        "exit status 7, before it had made its environments",
    ),
    "hangs": (
        {"at": 0, "act": envs.sleep_for_long},
        SLOW,
        WorkerError,
        "did not answer within start_timeout=0.3 s",
    ),
    "a wrong space": ({"action_space": envs.spaces.Text(3)}, {}, ConfigError, "^the action space is Text"),
}


@pytest.mark.parametrize("special, settings, error, message", UNSTARTED.values(), ids=UNSTARTED)
def test_a_worker_that_cannot_start(special, settings, error, message):
    with pytest.raises(error, match=message), make(special=special, **settings):
        pass


@pytest.mark.parametrize("fault", ["end", "hang"])
def test_a_worker_that_fails_once_while_it_starts_is_restarted(warnings, hangs, tmp_path, fault):
    ends = functools.partial(envs.act_once, tmp_path / "begun", envs.end_process)
    special = {"at": 0, "act": ends if fault == "end" else hangs.make_act()}
    with make(size=2, num_workers=2, special=special) as pool:
        pool.reset()
        np.testing.assert_array_equal(observed(pool)[:, SEED], [100, 101])
        assert pool.num_restarts == 1
        reason = "ended with exit status 7" if fault == "end" else "did not answer within start_timeout=120 s"
        assert warnings == [
            f"the worker process of environments 1 to 1 {reason}, before it had made its environments: "
            "restart 1 of 3 within 600 s"
        ]


def test_restarts_count_within_a_period(warnings):
    with make(special={"at": 2, "act": envs.end_process}, max_restarts=1, restart_period=1e-6) as pool:
        pool.reset()
        while pool.num_restarts < 2:
            pool.step()
    assert len(warnings) == 2 and all("restart 1 of 1 within 1e-06 s" in text for text in warnings)


# --- What an environment does wrong is its error, in a worker too.


def test_an_exit_of_an_environment_is_its_error(pool):
    before = pool.num_restarts
    with pytest.raises(EnvError, match=r"^environment 4, step \d+ raised SystemExit\(3\)") as info:
        step(pool, envs.exit_python)
    assert not isinstance(info.value, WorkerError)
    assert "in exit_python" in "".join(traceback.format_exception(info.value))
    assert pool.num_restarts == before


def test_an_exit_of_a_constructor_is_an_error_of_the_environment():
    with pytest.raises(EnvError, match=r"^the constructor of environment 1 raised SystemExit\(3\)") as info:
        with make(size=2, special={"at": 0, "act": envs.exit_python}):
            pass
    assert not isinstance(info.value, WorkerError)
    assert "in exit_python" in "".join(traceback.format_exception(info.value))


# --- Processes, files and signals.


def make_with_processes(size=2, **kwargs):
    """A pool of environments that started processes, and the ids of their workers and of these, in pairs."""
    env_fns = [functools.partial(envs.StartsProcess, **kwargs)] * size
    pool = WorkerPool(env_fns, range(size), size, settings=WorkerSettings(close_timeout=60.0))
    pool.reset()
    pids = observed(pool)[:, [PID, SEED]].astype(int)
    assert all(alive(pid) for pid in pids.flat)
    return pool, pids


def test_an_environment_can_terminate_its_process(warnings, monkeypatch):
    pool, pids = make_with_processes(size=1)
    pool.close()
    assert not any(alive(pid) for pid in pids.flat) and not warnings


# A fork has all that its worker had, and hides the worker's end if it keeps the socket.
@pytest.mark.parametrize("end, fork", [("close", False), ("kill", True)])
def test_processes_of_an_environment_end_with_its_worker(warnings, end, fork):
    pool, pids = make_with_processes(keep=True, fork=fork)
    with contextlib.closing(pool):
        if end == "kill":
            os.kill(pids[1, 0], signal.SIGKILL)
            pool.step()
            assert len(warnings) == 1 and "was killed by SIGKILL" in warnings[0], "it waited for a time-out"
            wait_until(lambda: not alive(pids[1, 1]))
            assert alive(pids[0, 1])
    wait_until(lambda: not any(alive(pid) for pid in pids.flat))


@pytest.mark.parametrize("fault", ["exit", "hang"])
def test_a_close_that_fails_in_a_worker_is_a_warning(warnings, monkeypatch, tmp_path, fault):
    begun = tmp_path / "begun"
    sleeps = functools.partial(envs.act_once, begun, envs.sleep_for_long)
    if fault == "hang":
        wait_for_end = Worker.wait_for_end

        def wait_until_it_hangs(worker, seconds):
            if not worker.name.endswith("2 to 3"):
                return wait_for_end(worker, seconds)
            wait_until(begun.exists)
            return wait_for_end(worker, 0.0)  # its time is over

        monkeypatch.setattr(Worker, "wait_for_end", wait_until_it_hangs)
    paths = [tmp_path / str(i) for i in range(4)]
    # A worker closes its last environment first.
    acts = [None, None, None, envs.exit_python if fault == "exit" else sleeps]
    env_fns = [functools.partial(envs.CloseEnv, *arguments) for arguments in zip(acts, paths, strict=True)]
    WorkerPool(env_fns, range(4), 2, settings=WorkerSettings(close_timeout=60.0)).close()
    ends, hangs = (
        "ended with exit status 1 when it closed them",
        "did not close them within close_timeout=60 s: it is killed",
    )
    assert warnings == [f"the worker process of environments 2 to 3 {ends if fault == 'exit' else hangs}"]
    assert [path.exists() for path in paths] == [True, True, fault == "exit", False]


def test_a_worker_is_ended_in_silence_once_its_environments_are_closed(warnings, capfd, tmp_path):
    """On a busy machine the end of Python takes long, although nothing hangs."""
    path = tmp_path / "closed"
    env_fn = functools.partial(envs.CloseEnv, functools.partial(atexit.register, time.sleep, 600.0), path)
    start = time.monotonic()
    WorkerPool([env_fn], [0], 1, settings=WorkerSettings(close_timeout=1.0)).close()
    assert path.exists() and time.monotonic() - start < 300.0
    assert not warnings and "Current thread" not in capfd.readouterr().err


def test_stacks_are_printed_on_demand_and_before_a_worker_that_hangs_is_killed(capfd, hangs):
    with make(special={"at": 2, "act": hangs.make_act()}) as pool:
        pool.dump_stacks()  # also while the workers start
        pool.reset()
        wait_until(lambda: not pool.dump_stacks() and "receive_byte" in capfd.readouterr().err)
        pool.step()
        assert "in sleep_for_long" not in capfd.readouterr().err
        pool.step()
        assert pool.num_restarts == 1
        assert "in sleep_for_long" in capfd.readouterr().err
    pool.dump_stacks()


def test_a_starting_worker_survives_a_request_for_its_stacks(monkeypatch):
    start = threading.Event()
    original = RunningWorkers.receive_replies

    def receive_replies(workers, indices, *args, **kwargs):
        if not start.is_set():
            start.set()
            for _ in range(20):
                for index in indices:
                    workers.running[index].dump_stacks()
        return original(workers, indices, *args, **kwargs)

    monkeypatch.setattr(RunningWorkers, "receive_replies", receive_replies)
    with make() as made:
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
    start = time.thread_time()
    assert process.receive_object(theirs)().reset()
    seconds = time.thread_time() - start
    thread.join()
    ours.close()
    theirs.close()
    assert seconds < 3.0  # It takes 0.1 s; where it copied what it had at every part, it took 8 s.


def test_modules_of_the_current_directory_are_not_imported(tmp_path, monkeypatch):
    for name in ("json", "signal", "faulthandler", "mmap", "numpy", "alf"):
        (tmp_path / f"{name}.py").write_text("import os; os._exit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with make(max_restarts=0) as pool:
        pool.reset()


def test_shared_memory_is_for_this_user_only(pool):
    assert os.fstat(pool._workers._memory_file.fileno()).st_mode & 0o777 == 0o600


class Waits(CountEnv):
    """Its constructor returns once a file exists."""

    def __init__(self, path):
        while not os.path.exists(path):
            time.sleep(0.01)
        super().__init__()


def test_whoever_waits_for_a_start_sees_how_many_workers_are_ready(tmp_path):
    path = tmp_path / "go"
    starter = threading.Thread(
        target=lambda: WorkerPool([CountEnv, functools.partial(Waits, path)], [0, 1], 2).close()
    )
    starter.start()
    try:
        deadline = time.monotonic() + 300.0
        seen = set()
        while (
            not any("2 worker processes, 1 of which have" in x for x in seen) and time.monotonic() < deadline
        ):
            call = find_user_call(starter.ident)
            seen.add("" if call is None else call.name)
            time.sleep(0.01)
    finally:
        path.touch()
        starter.join()
    assert any("the constructors in 2 worker processes, 1 of which have made theirs" in x for x in seen), seen
