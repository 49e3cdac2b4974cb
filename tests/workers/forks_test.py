# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A process that an environment has forked neither answers nor writes for its parent when it returns."""

import contextlib
import functools
import mmap
import os
import signal
import sys
import time

import numpy as np
import pytest

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.workers import EnvBatch, WorkerPool, arrays
from tests.training.small_runs import make_trainer
from tests.workers.envs import CountEnv, LevelEnv, ResetFaultEnv

PID, STEP = 0, 3  # of the observation


def fork_and_return(path):
    """Forks; the child returns, too, once the file "go" is there. Its id is in the file "pid"."""
    pid = os.fork()
    if pid:
        (path / "part").write_text(str(pid))
        (path / "part").rename(path / "pid")
    else:
        wait_until((path / "go").exists)


def fork_and_wait(statuses, end=lambda: None):
    """Forks; the parent appends the child's exit status, the child returns or calls `end`."""
    pid = os.fork()
    if pid:
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    else:
        end()


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.005)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="it reads /proc")
@pytest.mark.parametrize("cls, at", [(CountEnv, 3), (ResetFaultEnv, None)])
def test_the_child_does_not_write_into_the_memory_of_its_worker(tmp_path, cls, at):
    forking = functools.partial(cls, length=2, at=at, act=functools.partial(fork_and_return, tmp_path))
    makes = [functools.partial(CountEnv, length=2), forking, functools.partial(CountEnv, length=2)]
    with contextlib.closing(WorkerPool(makes, range(3), 1)) as pool:
        pool.reset()
        while not (tmp_path / "pid").exists():
            pool.step()
        before = [pool.arrays.step_type.copy(), pool.arrays.reward.copy(), pool.arrays.observation[0].copy()]
        (tmp_path / "go").touch()
        child = int((tmp_path / "pid").read_text())
        wait_until(lambda: not is_running(child))
        after = pool.arrays.step_type, pool.arrays.reward, pool.arrays.observation[0]
        np.testing.assert_equal(list(after), before)
        pool.step()
        assert (pool.arrays.observation[0][:, PID] == pool.pids[0]).all() and pool.num_restarts == 0
        assert len(set(pool.arrays.observation[0][:, STEP])) == 1


def step(make):
    batch = EnvBatch([CountEnv, make, CountEnv], range(3))
    batch.reset()
    batch.step()


def reset(make):
    batch = EnvBatch([make], range(1))
    batch.reset()
    batch.reset()


def call(make):
    EnvBatch([LevelEnv], range(1)).call("act", make.keywords["act"])


CALLS = {
    "a step": (step, functools.partial(CountEnv, at=1)),
    "a reset": (reset, ResetFaultEnv),
    "a constructor": (step, functools.partial(CountEnv, at=0)),
    "a method": (call, functools.partial(LevelEnv)),
}
ENDS = {
    "returns": (lambda: None, 1),
    "raises": (lambda: [][0], 1),
    "exits": (lambda: sys.exit(3), 3),
    "exits well": (sys.exit, 0),
}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_the_child_ends_when_it_returns(name, subtests):
    run, make = CALLS[name]
    for how, (end, status) in ENDS.items():
        with subtests.test(how):
            statuses = []
            run(functools.partial(make, act=functools.partial(fork_and_wait, statuses, end)))
            if name in ("a step", "a reset") or how in ("returns", "raises"):
                assert statuses == [status]
            else:
                assert len(statuses) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_of_another_call_goes_on():
    """As a program that forks after its environments are made."""
    batch, statuses = EnvBatch([CountEnv], [0]), []
    batch.reset()

    def use():
        batch.step()
        os._exit(int(batch.arrays.observation[0][0, STEP] != 1))

    fork_and_wait(statuses, use)
    assert statuses == [0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_detached_memory_is_written_by_the_child_alone():
    memory, statuses = mmap.mmap(-1, 5000), []
    array = np.ndarray(5000, np.uint8, memory)

    def write():
        arrays.detach(memory)
        array[:] = 7
        os._exit(int(array.sum() != 7 * 5000))

    fork_and_wait(statuses, write)
    assert statuses == [0] and not array.any()


class Forking(MatchObservationEnvironment):
    """A batched environment of a user's own: in step 3 it forks, and the child returns or raises."""

    forked = []

    def __init__(self, raises, seed=0):
        super().__init__(2, episode_length=5, seed=seed)
        self._raises, self._num_steps = raises, 0

    def _step(self, action):
        self._num_steps += 1
        if self._num_steps == 3 and not (pid := os.fork()):
            if self._raises:
                raise RuntimeError("the child fails")
        elif self._num_steps == 3:
            self.forked.append(pid)
        return super()._step(action)


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("driver", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_the_child_of_any_environment_of_a_driver_ends(tmp_path, driver, raises):
    Forking.forked.clear()
    experiment = {"env": functools.partial(Forking, raises), "driver": driver}
    make_trainer(tmp_path, {"num_iterations": 4}, experiment).train()
    pid, deadline = Forking.forked[-1], time.monotonic() + 60
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 1
