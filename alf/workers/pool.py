# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool: environments in worker processes, which are watched and restarted."""

import contextlib
import itertools
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from typing import NamedTuple

import numpy as np
from absl import logging

from alf.errors import EnvError
from alf.seeds import spawn_seeds
from alf.workers.arrays import make_arrays
from alf.workers.process import OK, RESET, STEP, pack_object, receive, receive_object

_CLOSE_SECONDS = 5.0  # time for all workers to close their environments
_started = itertools.count()  # spreads the workers of all pools over the cores

# The search path is set first, so that a worker imports the same modules as its owner.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from alf.workers.process import main; main(*map(int, sys.argv[2:]))"
)
# Libraries read these when they are loaded.
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerError(EnvError):
    """A worker process died or hung, and is not restarted any more. The message has the reason."""


class WorkerSettings(NamedTuple):
    """How the processes of a `WorkerPool` run.

    Attributes:
        start_timeout: float, seconds in which a worker must make its environments.
        step_timeout: float, seconds in which a worker must reset or step all its environments.
        max_restarts: int, restarts of workers, all together, before the pool gives up.
        pin_workers: bool, whether each worker stays on one core.
        single_threaded: bool, whether the numerical libraries of workers use one thread.
    """

    start_timeout: float = 120.0
    step_timeout: float = 60.0
    max_restarts: int = 3
    pin_workers: bool = False
    single_threaded: bool = True


class WorkerPool:
    """B Gymnasium environments in worker processes, with the interface of `EnvBatch`.

    Each worker is an `EnvBatch` of some of the environments. All workers write into one block of shared
    memory. A batch step costs one byte to each worker and one byte back. Workers are new processes, because
    TensorFlow does not survive a fork. They end when their owner ends, even if it was killed.

    A worker that dies or does not reply in time is killed and restarted. Its environments then begin new
    episodes with FIRST steps, so that nobody learns from the interrupted episodes. An exception of an
    environment causes no restart: it is raised here, and its cause is the traceback in the worker.

    Args:
        env_fns, seeds, max_random_steps: as in `EnvBatch`; cloudpickle must be able to pickle `env_fns`.
        num_workers: int, number of processes, at most B.
        settings: `WorkerSettings`, or None for the defaults.

    Attributes:
        layout, arrays: as in `EnvBatch`.
        num_restarts: int, how often a worker was restarted.

    Raises:
        WorkerError: if a worker dies or hangs too often.
        Exception: as in `EnvBatch`, and what an environment raised.
    """

    def __init__(self, env_fns, seeds, num_workers, max_random_steps=0, settings=None):
        self._env_fns, self._seeds, self._max_random_steps = list(env_fns), list(seeds), max_random_steps
        self._settings = settings or WorkerSettings()
        self.num_restarts = 0
        self._memory_file = _open_memory_file()
        bounds = np.linspace(0, len(self._env_fns), num_workers + 1).astype(int).tolist()
        self._rows = [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
        self._workers = []
        self._close = weakref.finalize(self, _close, self._workers, self._memory_file)
        try:
            for index in range(num_workers):
                self._start_worker(index, self._seeds)
            self.layout, *others = [worker.receive_layout() for worker in self._workers]
            if any(other != self.layout for other in others):
                raise ValueError(f"environments have different spaces: {[self.layout, *others]}")
            self.arrays = make_arrays(self.layout, len(self._env_fns), self._make_memory)
        except BaseException:
            self.close()
            raise

    def reset(self):
        self._run_command(RESET)

    def step(self):
        self._run_command(STEP)

    def close(self):
        self._close()

    @property
    def pids(self):
        """The process ids of the workers."""
        return [worker.process.pid for worker in self._workers]

    def _make_memory(self, size):
        os.ftruncate(self._memory_file.fileno(), size)
        return mmap.mmap(self._memory_file.fileno(), size)

    def _start_worker(self, index, seeds):
        """Starts worker `index`, which makes its environments; `seeds` are those of all environments."""
        rows = self._rows[index]
        core = next(_started) if self._settings.pin_workers else None
        worker = _Worker(rows, self._memory_file.fileno(), self._settings)
        self._workers[index : index + 1] = [worker]  # appended, or in place of the worker before
        env_fns, batch_size = self._env_fns[rows], len(self._env_fns)
        worker.send(pack_object((env_fns, seeds[rows], self._max_random_steps, batch_size, rows, core)))
        return worker

    def _run_command(self, command):
        if not self._close.alive:
            raise RuntimeError("the worker processes were closed")
        indices = range(len(self._workers))
        while indices:
            losses, errors = {}, []
            for index in indices:
                self._workers[index].send(command)
            for index in indices:
                try:
                    errors.append(self._workers[index].receive_reply())
                except WorkerError as loss:
                    losses[index] = loss
            # A reply that is left in a socket would answer the next command. So errors are raised after all
            # replies, and a worker that hangs ends before it can reply late.
            for index in losses:
                self._workers[index].kill()
            for error in filter(None, errors):
                raise error
            for index, loss in losses.items():
                self._restart(index, loss)
            # The new workers begin episodes. They may be lost too.
            indices, command = list(losses), RESET

    def _restart(self, index, loss):
        max_restarts = self._settings.max_restarts
        if self.num_restarts >= max_restarts:
            raise WorkerError(f"{loss}; max_restarts={max_restarts} is reached")
        self.num_restarts += 1
        logging.warning("%s: restart %d of %d", loss, self.num_restarts, max_restarts)
        # Other seeds than before, because the same ones would repeat the same episodes.
        seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self._seeds]
        worker = self._start_worker(index, seeds)
        if worker.receive_layout() != self.layout:
            raise ValueError(f"{worker.name} has other spaces after its restart")


class _Worker:
    """A worker process and the socket to it."""

    def __init__(self, rows, memory_fd, settings):
        self.name = f"the worker process of environments {rows.start} to {rows.stop - 1}"
        self._settings = settings
        self._timeout = "start_timeout"  # the setting that limits the wait for a reply
        self.connection, theirs = socket.socketpair()
        self.connection.settimeout(settings.start_timeout)
        their_lifeline, lifeline = os.pipe()
        self._lifeline = os.fdopen(lifeline, "wb", buffering=0)
        threads = dict.fromkeys(_THREAD_SETTINGS, "1") if settings.single_threaded else {}
        with theirs, os.fdopen(their_lifeline, "rb"):  # The worker has copies.
            fds = [theirs.fileno(), memory_fd, their_lifeline]
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **threads},
            )

    def send(self, data):
        """Sends a job or a command. Where this fails, `receive_reply` says why."""
        with contextlib.suppress(OSError):
            self.connection.sendall(data)

    def receive_reply(self):
        """Waits for None, a `Layout` or an environment's exception. Raises WorkerError for a lost worker."""
        try:
            return None if receive(self.connection, 1) == OK else receive_object(self.connection)
        except (EOFError, OSError) as error:
            raise self._explain_loss(error) from None

    def receive_layout(self):
        """Waits until the worker has made its environments; returns their `Layout`, or raises their error."""
        layout = self.receive_reply()
        if isinstance(layout, Exception):
            raise layout
        self._timeout = "step_timeout"
        self.connection.settimeout(self._settings.step_timeout)
        return layout

    def _explain_loss(self, error):
        """Returns a WorkerError that says why the worker does not reply."""
        if isinstance(error, TimeoutError):
            reason = f"did not answer within {self._timeout}={getattr(self._settings, self._timeout):g} s"
        else:
            try:
                status = self.process.wait(_CLOSE_SECONDS)
                killer = signal.Signals(-status).name if status < 0 else None
                reason = f"was killed by {killer}" if killer else f"ended with exit status {status}"
            except subprocess.TimeoutExpired:
                reason = "closed its connection"
        if self._timeout == "start_timeout":
            reason += ", before it had made its environments"
        return WorkerError(f"{self.name} {reason}")

    def kill(self):
        """Ends the process at once; may be called again."""
        self.process.kill()
        self.process.wait()
        self.connection.close()
        self._lifeline.close()


def _open_memory_file():
    """Opens an unnamed file in memory, which exists as long as any process has it open."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("alf-environments"), "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _close(workers, memory_file):
    """Ends all workers. It is no method, so that it can run after the pool is gone, or when Python ends."""
    for worker in workers:
        with contextlib.suppress(OSError):  # The process may have ended already.
            worker.connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + _CLOSE_SECONDS
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(0.0, deadline - time.monotonic()))
        worker.kill()
    memory_file.close()
