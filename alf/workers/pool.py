# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool: environments in processes of their own, which are watched and restarted."""

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

import numpy as np
from absl import logging

from alf.seeds import spawn_seeds
from alf.workers import connection as messages
from alf.workers.arrays import arrays_size, make_arrays
from alf.workers.process import Rows, WorkerConfig

_CLOSE_SECONDS = 5.0  # that all workers may take to close their environments
_started = itertools.count()  # spreads the workers of all pools over the cores

# The search path comes first, so that a worker imports what its owner does.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from alf.workers.process import main; main(*map(int, sys.argv[2:]))"
)
# Libraries read these when they are loaded.
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerError(RuntimeError):
    """A worker process died or hung, and may not be restarted again. The message says why."""


class WorkerPool:
    """B Gymnasium environments in worker processes, with the interface of `EnvBatch`.

    A worker holds some of the environments and steps them one after another. All write into one block of
    shared memory; a batch step is one byte to each worker and one back. Workers are started anew, not
    forked: TensorFlow does not survive a fork. They end with their owner, also when that is killed.

    A worker that dies or does not answer is killed and restarted. Its environments then begin new episodes:
    their rows are FIRST steps, so that nothing is learned of what was broken off. An exception of an
    environment is not repaired so but raised, with its traceback in the worker as its cause.

    Args:
        env_fns: B callables without arguments, as in `EnvBatch`; cloudpickle must take them.
        seeds: B ints.
        num_workers: processes, at most B.
        max_random_steps: as in `EnvBatch`.
        start_timeout: seconds that a worker may take to make its environments.
        step_timeout: seconds that a worker may take for a reset or a step of all its environments.
        max_restarts: how often a worker may be restarted, all together, before the pool gives up.
        pin_workers: whether each worker stays on one core.
        single_threaded: whether the numerical libraries of workers use one thread.

    Attributes:
        layout, arrays: as in `EnvBatch`.
        num_restarts: how often a worker was restarted.

    Raises:
        ValueError: if environments differ in their spaces.
        WorkerError: if a worker dies or hangs too often.
        Exception: what an environment raised.
    """

    def __init__(
        self,
        env_fns,
        seeds,
        num_workers,
        max_random_steps=0,
        start_timeout=120.0,
        step_timeout=60.0,
        max_restarts=3,
        pin_workers=False,
        single_threaded=True,
    ):
        self._env_fns = list(env_fns)
        self._seeds = list(seeds)
        self._max_random_steps = max_random_steps
        self._start_timeout = start_timeout
        self._step_timeout = step_timeout
        self._max_restarts = max_restarts
        self._pin_workers = pin_workers
        self._single_threaded = single_threaded
        self.num_restarts = 0
        self._memory_file = _memory_file()
        bounds = np.linspace(0, len(self._env_fns), num_workers + 1).astype(int).tolist()
        self._rows = list(zip(bounds[:-1], bounds[1:], strict=True))
        self._workers = [None] * num_workers
        self._close = weakref.finalize(self, _close, self._workers, self._memory_file)
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    def reset(self):
        """As `EnvBatch.reset`; it must come first."""
        self._command(messages.RESET)

    def step(self):
        """As `EnvBatch.step`."""
        self._command(messages.STEP)

    def close(self):
        """Ends the workers; may be repeated."""
        self._close()

    @property
    def pids(self):
        """The process ids of the workers."""
        return [worker.pid for worker in self._workers]

    def _start_all(self):
        for index in range(len(self._workers)):
            self._workers[index] = self._launch(index, self._seeds)
        layouts = [self._built(worker) for worker in self._workers]
        if any(layout != layouts[0] for layout in layouts):
            raise ValueError(f"environments have different spaces: {layouts}")
        self.layout = layouts[0]
        batch_size = len(self._env_fns)
        os.ftruncate(self._memory_file.fileno(), arrays_size(self.layout, batch_size))
        memory = mmap.mmap(self._memory_file.fileno(), 0)
        self.arrays = make_arrays(self.layout, batch_size, memory)
        for index in range(len(self._workers)):
            self._send_rows(index)

    def _launch(self, index, seeds):
        start, stop = self._rows[index]
        worker = _Worker(self._memory_file.fileno(), self._single_threaded)
        core = None
        if self._pin_workers:
            cores = sorted(os.sched_getaffinity(0))
            core = cores[next(_started) % len(cores)]
        worker.connection.settimeout(self._start_timeout)
        config = WorkerConfig(self._env_fns[start:stop], seeds[start:stop], self._max_random_steps, core)
        messages.send_object(worker.connection, config)
        return worker

    def _built(self, worker):
        """Waits until a worker has made its environments; returns their `Layout`."""
        try:
            error = worker.answer()
            if error is None:
                return messages.receive_object(worker.connection)
        except (EOFError, TimeoutError) as gone:
            reason = worker.reason(gone, f"start_timeout={self._start_timeout:g}")
            raise WorkerError(f"a worker process {reason}, before it had made its environments") from None
        raise error

    def _send_rows(self, index):
        worker = self._workers[index]
        messages.send_object(worker.connection, Rows(len(self._env_fns), *self._rows[index]))
        worker.connection.settimeout(self._step_timeout)

    def _command(self, command):
        if not self._close.alive:
            raise RuntimeError("the worker processes were closed")
        reasons, errors = {}, []
        for index, worker in enumerate(self._workers):
            try:
                worker.connection.sendall(command)
            except OSError as error:
                reasons[index] = self._reason(worker, error)
        for index, worker in enumerate(self._workers):
            if index in reasons:
                continue
            try:
                errors.append(worker.answer())
            except (EOFError, TimeoutError) as error:
                reasons[index] = self._reason(worker, error)
        # Not before every worker has answered: what is left in a socket would answer the next command.
        _raise_first(errors)
        for index, reason in reasons.items():
            self._restart(index, reason)

    def _reason(self, worker, error):
        return worker.reason(error, f"step_timeout={self._step_timeout:g}")

    def _restart(self, index, reason):
        start, stop = self._rows[index]
        name = f"the worker process of environments {start} to {stop - 1}"
        if self.num_restarts >= self._max_restarts:
            raise WorkerError(f"{name} {reason}; max_restarts={self._max_restarts} is reached")
        self.num_restarts += 1
        logging.warning("%s %s: restart %d of %d", name, reason, self.num_restarts, self._max_restarts)
        self._workers[index].kill()
        # Other seeds than before, else the same episodes would come again.
        seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self._seeds]
        self._workers[index] = worker = self._launch(index, seeds)
        if self._built(worker) != self.layout:
            raise ValueError(f"{name} has other spaces after its restart")
        self._send_rows(index)
        try:
            worker.connection.sendall(messages.RESET)
            errors = [worker.answer()]
        except (EOFError, TimeoutError, ConnectionError) as error:
            self._restart(index, self._reason(worker, error))
        else:
            _raise_first(errors)


class _Worker:
    """A worker process and the socket to it."""

    def __init__(self, memory_fd, single_threaded):
        self.connection, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        fds = [theirs.fileno(), memory_fd, lifeline]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(dict.fromkeys(_THREAD_SETTINGS, "1") if single_threaded else {})},
            )
        finally:
            theirs.close()
            os.close(lifeline)

    @property
    def pid(self):
        return self._process.pid

    def answer(self):
        """Waits for the answer to a command; returns the exception that it was, or None."""
        if messages.receive(self.connection, 1) == messages.OK:
            return None
        error, text = messages.receive_object(self.connection)
        error.__cause__ = messages.RemoteTraceback(text)
        return error

    def reason(self, error, setting=""):
        """Says why a worker does not answer, as the rest of a sentence."""
        if isinstance(error, TimeoutError):
            return f"did not answer within {setting} s"
        try:
            status = self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if status < 0:
            return f"was killed by {signal.Signals(-status).name}"
        return f"ended with exit status {status}"

    def ask_to_close(self):
        with contextlib.suppress(OSError):  # it may have gone already
            self.connection.shutdown(socket.SHUT_WR)

    def end(self, deadline):
        """Waits until `deadline`, of the monotonic clock, for the process to end; then kills it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self):
        """Ends the process at once; may be repeated."""
        self._process.kill()
        self._process.wait()
        self.connection.close()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def _raise_first(errors):
    for error in errors:
        if error is not None:
            raise error


def _close(workers, memory_file):
    """Ends all workers: a function, so that it can run when the pool is gone, or Python ends."""
    started = [worker for worker in workers if worker is not None]
    for worker in started:
        worker.ask_to_close()
    deadline = time.monotonic() + _CLOSE_SECONDS
    for worker in started:
        worker.end(deadline)
    memory_file.close()


def _memory_file():
    """An unnamed file in memory: it ends with the last process that has it open."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("alf-environments"), "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
