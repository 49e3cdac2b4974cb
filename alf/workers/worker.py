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

from alf.core.running_time import running_time
from alf.errors import EnvError, describe_error
from alf.workers.process import CLOSED, OK, receive_byte, receive_object, signals_held

_END_SECONDS = 3.0  # the time in which a process that ends is gone
_DUMP_SECONDS = 0.2  # the time in which a worker that hangs prints its stacks
_MOMENT = 0.05  # seconds

# The search path is set before anything is imported from a file, so that a worker imports the same modules as
# its owner, and nothing from the current directory.
_PROGRAM = (
    "import sys; sys.path[:] = {!r}; from alf.workers.process import main; main(*map(int, sys.argv[1:]))"
)
# Options with which os.waitid neither reaps a process nor waits for its end.
_ENDED = os.WEXITED | os.WNOWAIT | os.WNOHANG
# Numerical libraries read these when they are loaded.
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerError(EnvError):
    """A worker process died or hung and is not restarted again. The message says why."""


def count_raise(limit, index, error):
    """Counts the restart of an environment in a `RestartLimit`; raises WorkerError if there are too many."""
    loss = WorkerError(f"environment {index} raised {describe_error(error)}")
    loss.__cause__ = error
    limit.count_restart(loss, WorkerError)


class Worker:
    """The owner's side of one worker process.

    Args:
        rows: slice, the environments that it runs.
        memory_fd: int, file descriptor of the shared memory.
        settings: `WorkerSettings`.
        gpu: text, the GPU that it sees, as CUDA_VISIBLE_DEVICES names it, or "".

    Attributes:
        name: text, its name in errors.
        process: `subprocess.Popen`.
        channel: `Channel`.
        limit: text, the setting that limits its replies, with its value.
        has_started: bool, whether it has made its environments.
        has_begun: bool, whether it was told to begin episodes.
        loss: WorkerError that says why it is lost, or None.
    """

    def __init__(self, rows, memory_fd, settings, gpu):
        self.name = f"the worker process of environments {rows.start} to {rows.stop - 1}"
        self.rows = rows
        self._settings = settings
        # Held while a signal is sent: the process must not be reaped then, or its id could already belong to
        # another process.
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        self.channel = Channel(self, ours, settings.start_timeout)
        self.limit = f"start_timeout={settings.start_timeout:g} s"
        self.has_started, self.has_begun, self.loss = False, False, None
        # Only this process has the end `lifeline`: when it ends, even by SIGKILL, the kernel kills the
        # worker. Programs that this process starts do not inherit it; a copy would keep the worker alive.
        their_lifeline, lifeline = os.pipe()
        self._lifeline = os.fdopen(lifeline, "wb", buffering=0)
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
        if settings.single_threaded:
            env |= dict.fromkeys(_THREAD_SETTINGS, "1")
        # Closes the worker's ends, of which it has copies. With a copy here the stream would not end when the
        # worker ends, and the loss would only be noticed by the time-out.
        with contextlib.ExitStack() as stack:
            stack.enter_context(os.fdopen(their_lifeline, "rb"))
            stack.enter_context(theirs)
            stack.enter_context(signals_held())
            fds = [memory_fd, their_lifeline, theirs.fileno()]
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.format([str(path) for path in sys.path]), *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                env=env,
            )

    def describe(self):
        """Returns its name with the process id."""
        return f"{self.name} (process {self.process.pid})"

    def note_start(self):
        """Notes that the worker has made its environments: from now on `step_timeout` limits its replies."""
        self.has_started = True
        seconds, name = self._settings.step_timeout, "step_timeout"
        if self._settings.restart_on_error:  # a step may make an environment again
            seconds, name = seconds + self._settings.start_timeout, "step_timeout + start_timeout"
        self.limit = f"{name}={seconds:g} s"
        self.channel.limit_replies(seconds)

    def note_loss(self, loss):
        """Returns the first WorkerError. Later ones only say that the process was killed after the first."""
        self.loss = self.loss or loss
        return self.loss

    def wait_for_end(self, seconds):
        """Waits for the end of the process, but does not reap it, so no other process can get its id.

        Returns a text, how it ended, or None if it still runs after `seconds`.
        """
        deadline = time.monotonic() + seconds
        try:
            # `waitid` has no time-out, so it is asked again and again.
            while (end := os.waitid(os.P_PID, self.process.pid, _ENDED)) is None:
                if time.monotonic() >= deadline:
                    return None
                time.sleep(0.002)
        except ChildProcessError:  # other code, such as a handler of SIGCHLD, has reaped it
            self.process.poll()
            return "ended"
        if end.si_code == os.CLD_EXITED:
            return f"ended with exit status {end.si_status}"
        names = {member.value: member.name for member in signal.Signals}
        return f"was killed by {names.get(end.si_status, f'signal {end.si_status}')}"

    def has_closed(self):
        """Returns whether it has closed its environments. No thread may wait for a reply any more."""
        return self.channel.read_rest().endswith(CLOSED)

    def is_reaped(self):
        return self.process.returncode is not None

    def dump_stacks(self):
        """Makes the process print the stacks of its threads to stderr, if it still runs."""
        with self._lock:
            if not self.is_reaped():
                self._signal(signal.SIGUSR1)

    def _signal(self, signum):
        with contextlib.suppress(ProcessLookupError):  # other code has reaped it
            os.kill(self.process.pid, signum)

    def kill(self):
        """Kills the process and the processes that its environments started. May be called again."""
        # First the process, which stays unreaped so that its group keeps its id, then the whole group.
        with self._lock:
            if not self.is_reaped():
                self._signal(signal.SIGKILL)
                self.wait_for_end(_END_SECONDS)
            if not self.is_reaped():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                # Reaps it. From here on its id may belong to another process, and nobody signals it any more.
                self.process.poll()
        # Another thread may wait for a reply: this wakes it.
        self.channel.shut_down(socket.SHUT_RDWR)
        self._lifeline.close()


class Channel:
    """The socket between a pool and a worker process.

    Attributes:
        worker: the `Worker`.
        sent_at: float, the time of the last command, in seconds of `running_time`.
    """

    def __init__(self, worker, connection, seconds):
        self.worker, self.sent_at = worker, 0.0
        self._connection = connection
        self.limit_replies(seconds)

    def limit_replies(self, seconds):
        """Limits the time of `send`, and the time from `send` to the end of `receive_reply`."""
        self._seconds = seconds

    def send(self, data):
        """Sends a job or a command. If this fails, `receive_reply` raises the reason."""
        self.sent_at = running_time()
        with contextlib.suppress(OSError):
            # `receive_reply` leaves what was left of its own time, which may be a moment.
            self._connection.settimeout(self._seconds)
            self._connection.sendall(data)

    def receive_reply(self, interval, on_wait):
        """Waits for a reply.

        Args:
            interval: float, seconds.
            on_wait: callable without arguments, called after each `interval` without a reply.

        Returns:
            None, a `Layout`, the result of a command, or an environment's exception.

        Raises:
            WorkerError: if the worker ends or is too slow.
        """
        # The time counts from the command. Replies are received one after another, and if it counted from
        # here, workers that hang at the same time would be found after one time-out each.
        deadline, heartbeat = self.sent_at + self._seconds, self.sent_at + interval
        try:
            while True:
                try:
                    # Even after the deadline a worker gets a moment, to send the rest of a long reply.
                    rest = min(deadline, heartbeat) - running_time()
                    self._connection.settimeout(max(rest, _MOMENT))
                    if receive_byte(self._connection) == OK:
                        return None
                    break
                except TimeoutError:
                    now = running_time()
                    if now >= deadline:
                        raise
                # Only the wait for the first byte has heartbeats: an object is on its way after it. Neither
                # is due if this process, with its workers, was stopped meanwhile.
                if now >= heartbeat:
                    on_wait()
                    heartbeat = now + interval
            self._connection.settimeout(max(deadline - running_time(), _MOMENT))
            return receive_object(self._connection)
        except (EOFError, OSError) as error:
            raise self._explain_loss(error) from None

    def has_reply(self):
        """Returns whether a reply waits or the process has ended."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(0))

    def read_rest(self):
        """Returns the bytes that have arrived, also of replies that nobody has received; does not wait."""
        rest = bytearray()
        with contextlib.suppress(OSError):  # nothing is left, or the process has ended
            # MSG_DONTWAIT would not be enough: Python itself waits for the socket's time-out before it asks.
            self._connection.settimeout(0.0)
            while part := self._connection.recv(1 << 16):
                rest += part
        return rest

    def _explain_loss(self, error):
        """Makes the WorkerError that says why the worker does not reply."""
        if isinstance(error, TimeoutError):
            reason = f"did not answer within {self.worker.limit}"
        else:
            # The kernel closes the sockets of a process before the owner can see how it ended.
            reason = self.worker.wait_for_end(_END_SECONDS) or "closed its connection"
        if not self.worker.has_started:
            reason += ", before it had made its environments"
        return WorkerError(f"{self.worker.name} {reason}")

    def shut_down(self, how):
        """Ends one direction or both. The socket stays open, because another thread may wait for it."""
        with contextlib.suppress(OSError):  # the process may have ended already
            self._connection.shutdown(how)

    def close(self):
        self._connection.close()


def kill_workers(workers):
    """Kills workers. Those that still run print their stacks first, so that the log shows where they hang."""
    hanging = [worker for worker in workers if not worker.is_reaped() and not worker.wait_for_end(0)]
    # All print at the same time, so that they are waited for once.
    for worker in hanging:
        worker.dump_stacks()
    if hanging:
        time.sleep(_DUMP_SECONDS)
    # Also workers that have ended: processes that their environments started may still run.
    for worker in workers:
        worker.kill()
