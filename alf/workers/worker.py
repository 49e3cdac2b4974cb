# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Worker: the owner's side of one worker process."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import NamedTuple

from alf.errors import EnvError
from alf.workers.process import OK, receive_byte, receive_object

MAX_SECONDS = 10**9  # of a time-out; Python cannot wait for ten times as long
_END_SECONDS = 3.0  # time for a process that ends to be gone
_DUMP_SECONDS = 0.2  # time for a worker that hangs to print its stacks
_MOMENT = 0.05  # seconds

# The search path is set before any module of a file is imported, so that a worker imports the same modules as
# its owner, and none from the current directory.
_PROGRAM = (
    "import sys; sys.path[:] = {!r}; from alf.workers.process import main; main(*map(int, sys.argv[1:]))"
)
# Options of os.waitid, which then neither reaps a process nor waits for its end.
_ENDED = os.WEXITED | os.WNOWAIT | os.WNOHANG
# Libraries read these when they are loaded.
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerError(EnvError):
    """A worker process died or hung, and is not restarted any more. The message has the reason."""


class WorkerSettings(NamedTuple):
    """How the processes of a `WorkerPool` run.

    Attributes:
        start_timeout: float, seconds in which a worker must make its environments.
        step_timeout: float, seconds in which a worker must reset or step all its environments; with
            `num_splits`, those of one split. A split may have to wait for the others before: so it waits for
            `num_splits` times as long.
        max_restarts: int, the most restarts of workers, all together, within `restart_period`: the next one
            ends the run. A worker that cannot make its environments counts too.
        restart_period: float, seconds.
        pin_workers: bool, whether each worker stays on one core.
        single_threaded: bool, whether the numerical libraries of workers use one thread.
        worker_nice: int, by how much the niceness of workers exceeds that of their owner, at least 0: the
            operating system prefers processes of a lower niceness.
        max_concurrent_starts: int, the most workers that start and make their environments at the same time;
            None for all.
        heartbeat_interval: float, seconds. The log names workers that have not answered for so long, in one
            line, and again after each further interval.
    """

    start_timeout: float = 120.0
    step_timeout: float = 60.0
    max_restarts: int = 3
    restart_period: float = 600.0
    pin_workers: bool = False
    single_threaded: bool = True
    worker_nice: int = 0
    max_concurrent_starts: int | None = None
    heartbeat_interval: float = 20.0


class Worker:
    """A worker process.

    Attributes:
        name: what errors call it.
        process: `subprocess.Popen`.
        channels: list of the `Channel` of each split.
        limit: which setting limits its replies, and to what; text.
        has_started: whether it has made its environments.
        loss: the WorkerError that says why it is lost, or None.
    """

    def __init__(self, rows, memory_fd, settings):
        names = [f"{part.start} to {part.stop - 1}" for part in rows]
        self.name = f"the worker process of environments {' and '.join(names)}"
        self._settings = settings
        self._lock = threading.Lock()  # held while the process id must not become another process's
        pairs = [socket.socketpair() for _ in rows]
        self.channels = [
            Channel(self, ours, part, settings.start_timeout) for part, (ours, _) in zip(rows, pairs)
        ]
        self.limit = f"start_timeout={settings.start_timeout:g} s"
        self.has_started, self.loss = False, None
        their_lifeline, lifeline = os.pipe()
        self._lifeline = os.fdopen(lifeline, "wb", buffering=0)
        threads = dict.fromkeys(_THREAD_SETTINGS, "1") if settings.single_threaded else {}
        # A worker takes SIGUSR1 as soon as it has a handler; without one it would end.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        try:
            with contextlib.ExitStack() as stack:  # The worker has copies.
                stack.enter_context(os.fdopen(their_lifeline, "rb"))
                theirs = [stack.enter_context(end) for _, end in pairs]
                fds = [memory_fd, their_lifeline, *(end.fileno() for end in theirs)]
                self.process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM.format([str(path) for path in sys.path]), *map(str, fds)],
                    pass_fds=fds,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **threads},
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def describe(self):
        """Returns its name, and the number of the process."""
        return f"{self.name} (process {self.process.pid})"

    def close_channels(self):
        """Closes all channels, when no other thread uses one."""
        for channel in self.channels:
            channel.close()

    def note_start(self):
        """Says that the worker has made its environments: from now on `step_timeout` counts."""
        count, seconds = len(self.channels), self._settings.step_timeout
        self.has_started = True
        self.limit = f"{count} * " * (count > 1) + f"step_timeout={seconds:g} s"
        for channel in self.channels:
            channel.limit_replies(count * seconds)

    def note_loss(self, loss):
        """Keeps the first WorkerError. The next splits see only that the first one has killed the process."""
        self.loss = self.loss or loss

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
                self.wait_for_end(_END_SECONDS)
            if not self.is_reaped():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.poll()
        for channel in self.channels:
            channel.shut_down(socket.SHUT_RDWR)
        self._lifeline.close()


class Channel:
    """The way of one split to a worker process and back: a socket.

    Attributes:
        worker: the `Worker`.
        rows: slice of the split's environments in this worker.
        sent_at: when the last command was sent, in seconds of `time.monotonic`.
    """

    def __init__(self, worker, connection, rows, seconds):
        self.worker, self.rows, self.sent_at = worker, rows, 0.0
        self._connection = connection
        self.limit_replies(seconds)

    def limit_replies(self, seconds):
        """Limits the time from `send` to the end of `receive_reply`, and of `send` itself."""
        self._seconds = seconds
        self._connection.settimeout(seconds)

    def send(self, data):
        """Sends a job or a command. Where this fails, `receive_reply` says why."""
        self.sent_at = time.monotonic()
        with contextlib.suppress(OSError):
            self._connection.sendall(data)

    def receive_reply(self, interval, on_wait):
        """Waits for a reply, and calls `on_wait` after each `interval` in seconds without one.

        Returns:
            None, a list of `Layout`s, what a command returns, or an environment's exception.

        Raises:
            WorkerError: if the worker ends, or is too slow.
        """
        deadline, heartbeat = self.sent_at + self._seconds, self.sent_at + interval
        try:
            while True:
                try:
                    # After its deadline a worker still gets a moment, to send the rest of a long reply.
                    rest = min(deadline, heartbeat) - time.monotonic()
                    self._connection.settimeout(max(rest, _MOMENT))
                    if receive_byte(self._connection) == OK:
                        return None
                    break
                except TimeoutError:
                    if time.monotonic() >= deadline:
                        raise
                on_wait()
                heartbeat = time.monotonic() + interval
            self._connection.settimeout(max(deadline - time.monotonic(), _MOMENT))
            return receive_object(self._connection)
        except (EOFError, OSError) as error:
            raise self._explain_loss(error) from None

    def has_reply(self):
        """Whether a reply waits, or the process has ended."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(0))

    def _explain_loss(self, error):
        """Returns a WorkerError that says why the worker does not reply."""
        if isinstance(error, TimeoutError):
            reason = f"did not answer within {self.worker.limit}"
        else:
            reason = self.worker.wait_for_end(_END_SECONDS) or "closed its connection"
        if not self.worker.has_started:
            reason += ", before it had made its environments"
        return WorkerError(f"{self.worker.name} {reason}")

    def shut_down(self, how):
        """Ends one direction or both, but keeps the socket: another thread may wait at it."""
        with contextlib.suppress(OSError):  # The process may have ended already.
            self._connection.shutdown(how)

    def close(self):
        self._connection.close()


def kill_workers(workers):
    """Ends workers. Those that still run print their stacks before, so that the log shows where they hang."""
    hanging = [worker for worker in workers if not worker.is_reaped() and not worker.wait_for_end(0)]
    for worker in hanging:
        worker.dump_stacks()
    if hanging:
        time.sleep(_DUMP_SECONDS)
    for worker in workers:
        worker.kill()
