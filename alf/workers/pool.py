# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool: environments in worker processes, which are watched and restarted."""

import collections
import contextlib
import itertools
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from typing import NamedTuple

import numpy as np
from absl import logging

from alf.errors import ConfigError, EnvError
from alf.seeds import spawn_seeds
from alf.workers.arrays import make_arrays
from alf.workers.process import (
    HOLD,
    MEASURE,
    OK,
    RENDER,
    RENDER_FPS,
    RESET,
    SEED,
    STEP,
    pack_object,
    receive_byte,
    receive_object,
)

_CLOSE_SECONDS = 3.0  # time for all workers to close their environments
_DUMP_SECONDS = 0.2  # time for a worker that hangs to print its stacks
_MOMENT = 0.05  # seconds
_started = itertools.count()  # spreads the workers of all pools over the cores

# The search path is set before any module of a file is imported, so that a worker imports the same modules as
# its owner, and none from the current directory.
_PROGRAM = (
    "import sys; sys.path[:] = {!r}; from alf.workers.process import main; main(*map(int, sys.argv[1:]))"
)
# Options of os.waitid, which then neither reaps a process nor waits for its end.
_ENDED = os.WEXITED | os.WNOWAIT | os.WNOHANG
_SUCCESS = "ended with exit status 0"
# Libraries read these when they are loaded.
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerError(EnvError):
    """A worker process died or hung, and is not restarted any more. The message has the reason."""


class WorkerSettings(NamedTuple):
    """How the processes of a `WorkerPool` run.

    Attributes:
        start_timeout: float, seconds in which a worker must make its environments.
        step_timeout: float, seconds in which a worker must reset or step all its environments.
        max_restarts: int, the most restarts of workers, all together, within `restart_period`: the next one
            ends the run. A worker that cannot make its environments counts too.
        restart_period: float, seconds.
        pin_workers: bool, whether each worker stays on one core.
        single_threaded: bool, whether the numerical libraries of workers use one thread.
    """

    start_timeout: float = 120.0
    step_timeout: float = 60.0
    max_restarts: int = 3
    restart_period: float = 600.0
    pin_workers: bool = False
    single_threaded: bool = True


class WorkerPool:
    """B Gymnasium environments in worker processes, with the interface of `EnvBatch`.

    Each worker is an `EnvBatch` of some of the environments. All workers write into one block of shared
    memory. A batch step costs one byte to each worker and one byte back. Workers are new processes, because
    TensorFlow does not survive a fork. They end when their owner ends, even if it was killed, and with them
    the processes that their environments started, except those in a process group of their own.

    A worker that dies or does not reply in time is killed and restarted; one that hangs prints its stacks to
    stderr before. Its environments then begin new episodes with FIRST steps, so that nobody learns from the
    interrupted episodes. An exception of an environment causes no restart: it is raised here, and its cause
    is the traceback in the worker.

    `close` gives the workers 3 seconds to close their environments and then kills them. It raises nothing: a
    warning in the log names the worker where `close()` of an environment fails or hangs.

    Args:
        env_fns, seeds, max_random_steps, info_keys: as in `EnvBatch`; cloudpickle must be able to pickle
            `env_fns`.
        num_workers: int, number of processes, at most B.
        settings: `WorkerSettings`, or None for the defaults.

    Attributes:
        layout, arrays: as in `EnvBatch`.
        num_restarts: int, how often a worker was restarted.

    Raises:
        WorkerError: if workers die or hang too often.
        Exception: as in `EnvBatch`, and what an environment raised.
    """

    def __init__(self, env_fns, seeds, num_workers, max_random_steps=0, settings=None, info_keys=()):
        self._env_fns, self._seeds, self._max_random_steps = list(env_fns), list(seeds), max_random_steps
        self._info_keys = info_keys
        self._settings = settings or WorkerSettings()
        self.num_restarts = 0
        self._restart_times = collections.deque()  # those within the last `restart_period`
        self._memory_file = _open_memory_file()
        bounds = np.linspace(0, len(self._env_fns), num_workers + 1).astype(int).tolist()
        self._rows = [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
        self._workers = []
        self._close = weakref.finalize(self, _close, self._workers, self._memory_file)
        try:
            layouts = self._start_workers(range(num_workers), self._seeds)
            self.layout = layouts[0]
            for index, layout in layouts.items():
                if layout != self.layout:
                    name, other = self._workers[index].name, self._workers[0].name
                    raise ConfigError(f"{name} has other spaces than {other}: {layout}, {self.layout}")
            self.arrays = make_arrays(self.layout, len(self._env_fns), self._make_memory)
        except BaseException:
            self.close()
            raise

    def seed(self, seeds):
        """As in `EnvBatch`."""
        self._seeds = list(seeds)
        for worker in self._workers:
            worker.send(SEED + pack_object(self._seeds[worker.rows]))

    def hold(self, rows):
        """As in `EnvBatch`."""
        for worker in self._workers:
            start, stop = worker.rows.start, worker.rows.stop
            held = [row - start for row in rows if start <= row < stop]
            if held:
                worker.send(HOLD + pack_object(held))

    def reset(self):
        self._run_command(RESET)

    def step(self):
        self._run_command(STEP)

    def measure_step_seconds(self):
        """As in `EnvBatch`. Raises WorkerError if the worker is lost, as `render` and `render_fps` do."""
        return self._ask_first(MEASURE)

    def render(self):
        """As in `EnvBatch`."""
        return self._ask_first(RENDER)

    def render_fps(self):
        """As in `EnvBatch`."""
        return self._ask_first(RENDER_FPS)

    def dump_stacks(self):
        """Makes all workers print the stacks of their threads to stderr; any thread may call this."""
        for worker in list(self._workers):
            worker.dump_stacks()

    def close(self):
        self._close()

    @property
    def pids(self):
        """The process ids of the workers."""
        return [worker.process.pid for worker in self._workers]

    def _ask_first(self, command):
        """Returns the reply of the worker of environment 0; a WorkerError, and no restart, if it is lost."""
        self._workers[0].send(command)
        replies, losses = self._receive_replies([0])
        if losses:
            raise losses[0]
        return replies[0]

    def _make_memory(self, size):
        os.ftruncate(self._memory_file.fileno(), size)
        return mmap.mmap(self._memory_file.fileno(), size)

    def _start_workers(self, indices, seeds):
        """Starts workers, until all have made their environments; returns a dict of their layouts."""
        layouts = {}
        while indices:
            for index in indices:
                worker = _Worker(self._rows[index], self._memory_file.fileno(), self._settings)
                self._workers[index : index + 1] = [worker]  # appended, or in place of the worker before
            for index in indices:
                rows = self._rows[index]
                core = next(_started) if self._settings.pin_workers else None
                batch = self._env_fns[rows], seeds[rows], self._max_random_steps, rows.start, self._info_keys
                self._workers[index].send(pack_object((batch, len(self._env_fns), rows, core)))
            replies, losses = self._receive_replies(indices)
            layouts.update(replies)
            for loss in losses.values():
                self._count_restart(loss)
            indices = list(losses)
        for index in layouts:
            self._workers[index].limit_replies("step_timeout")
        return layouts

    def _run_command(self, command):
        if not self._close.alive:
            raise RuntimeError("the worker processes were closed")
        indices = range(len(self._workers))
        while indices:
            for index in indices:
                self._workers[index].send(command)
            _, losses = self._receive_replies(indices)
            if losses:
                self._restart(losses)
            # The new workers begin episodes. They may be lost too.
            indices, command = list(losses), RESET

    def _receive_replies(self, indices):
        """Returns the replies, and the WorkerErrors of lost workers, or raises an environment's exception."""
        replies, losses = {}, {}
        for index in indices:
            try:
                replies[index] = self._workers[index].receive_reply()
            except WorkerError as loss:
                losses[index] = loss
        # A reply that is left in a socket would answer the next command. So errors are raised after all
        # replies, and a worker that hangs ends before it can reply late.
        if losses:
            _kill([self._workers[index] for index in losses])
        for reply in replies.values():
            if isinstance(reply, Exception):
                raise reply
        return replies, losses

    def _count_restart(self, loss):
        """Counts a restart and logs it. Raises WorkerError if there were too many."""
        max_restarts, period = self._settings.max_restarts, self._settings.restart_period
        times, now = self._restart_times, time.monotonic()
        while times and times[0] <= now - period:
            times.popleft()
        if len(times) >= max_restarts:
            raise WorkerError(f"{loss}; max_restarts={max_restarts} is reached within {period:g} s")
        times.append(now)
        self.num_restarts += 1
        logging.warning("%s: restart %d of %d within %g s", loss, len(times), max_restarts, period)

    def _restart(self, losses):
        """Replaces the lost workers."""
        for loss in losses.values():
            self._count_restart(loss)
        # Other seeds than before, because the same ones would repeat the same episodes.
        seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self._seeds]
        for index, layout in self._start_workers(list(losses), seeds).items():
            if layout != self.layout:
                raise EnvError(f"{self._workers[index].name} has other spaces after its restart")


class _Worker:
    """A worker process and the socket to it."""

    def __init__(self, rows, memory_fd, settings):
        self.name = f"the worker process of environments {rows.start} to {rows.stop - 1}"
        self.rows, self._settings = rows, settings
        self._lock = threading.Lock()  # held while the process id must not become another process's
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(settings.start_timeout)
        self.limit_replies("start_timeout")
        their_lifeline, lifeline = os.pipe()
        self._lifeline = os.fdopen(lifeline, "wb", buffering=0)
        threads = dict.fromkeys(_THREAD_SETTINGS, "1") if settings.single_threaded else {}
        # A worker takes SIGUSR1 as soon as it has a handler; without one it would end.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        try:
            with theirs, os.fdopen(their_lifeline, "rb"):  # The worker has copies.
                fds = [theirs.fileno(), memory_fd, their_lifeline]
                self.process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM.format([str(path) for path in sys.path]), *map(str, fds)],
                    pass_fds=fds,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **threads},
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def limit_replies(self, timeout):
        """Sets the name of the setting that limits the time from `send` to the end of `receive_reply`."""
        self._timeout, self._seconds = timeout, getattr(self._settings, timeout)

    def send(self, data):
        """Sends a job or a command. Where this fails, `receive_reply` says why."""
        self._deadline = time.monotonic() + self._seconds
        with contextlib.suppress(OSError):
            self.connection.sendall(data)

    def receive_reply(self):
        """Returns None, a `Layout`, a float or an environment's exception, or raises WorkerError."""
        try:
            # After its deadline a worker still gets a moment, to send the rest of a long reply.
            self.connection.settimeout(max(self._deadline - time.monotonic(), _MOMENT))
            return None if receive_byte(self.connection) == OK else receive_object(self.connection)
        except (EOFError, OSError) as error:
            raise self._explain_loss(error) from None

    def _explain_loss(self, error):
        """Returns a WorkerError that says why the worker does not reply."""
        if isinstance(error, TimeoutError):
            reason = f"did not answer within {self._timeout}={self._seconds:g} s"
        else:
            reason = self.wait_for_end(_CLOSE_SECONDS) or "closed its connection"
        if self._timeout == "start_timeout":
            reason += ", before it had made its environments"
        return WorkerError(f"{self.name} {reason}")

    def wait_for_end(self, seconds):
        """Returns words for how the process ended, or None if it still runs after `seconds`.

        The process is not reaped: until then no other process or group gets its number.
        """
        deadline = time.monotonic() + seconds
        try:
            while (end := os.waitid(os.P_PID, self.process.pid, _ENDED)) is None:
                if time.monotonic() >= deadline:
                    return None
                time.sleep(0.002)
        except ChildProcessError:  # Someone else has reaped it.
            self.process.poll()
            return "ended"
        if end.si_code == os.CLD_EXITED:
            return f"ended with exit status {end.si_status}"
        names = {member.value: member.name for member in signal.Signals}
        return f"was killed by {names.get(end.si_status, f'signal {end.si_status}')}"

    def is_reaped(self):
        return self.process.returncode is not None

    def dump_stacks(self):
        """Makes the process print the stacks of its threads, if it still runs."""
        with self._lock:
            if not self.is_reaped():
                self._signal(signal.SIGUSR1)

    def _signal(self, signum):
        with contextlib.suppress(ProcessLookupError):  # Someone else has reaped it.
            os.kill(self.process.pid, signum)

    def kill(self):
        """Ends the process and those that its environments started at once; may be called again."""
        with self._lock:
            if not self.is_reaped():
                self._signal(signal.SIGKILL)
                self.wait_for_end(_CLOSE_SECONDS)
            if not self.is_reaped():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.poll()
        self.connection.close()
        self._lifeline.close()


def _kill(workers):
    """Ends workers. Those that still run print their stacks before, so that the log shows where they hang."""
    hanging = [worker for worker in workers if not worker.is_reaped() and not worker.wait_for_end(0)]
    for worker in hanging:
        worker.dump_stacks()
    if hanging:
        time.sleep(_DUMP_SECONDS)
    for worker in workers:
        worker.kill()


def _open_memory_file():
    """Opens an unnamed file in memory, which exists as long as any process has it open."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("alf-environments")
        os.fchmod(fd, 0o600)
        return open(fd, "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _close(workers, memory_file):
    """Ends all workers. It is no method, so that it can run after the pool is gone, or when Python ends."""
    running = [worker for worker in workers if not worker.is_reaped()]
    for worker in running:
        with contextlib.suppress(OSError):  # The process may have ended already.
            worker.connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + _CLOSE_SECONDS
    for worker in running:
        end = worker.wait_for_end(max(0.0, deadline - time.monotonic()))
        if end is None:
            logging.warning("%s did not close them within %g s: it is killed", worker.name, _CLOSE_SECONDS)
        elif end != _SUCCESS:
            logging.warning("%s %s when it closed them", worker.name, end)
    _kill(workers)
    memory_file.close()
