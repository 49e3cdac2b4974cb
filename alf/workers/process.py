# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The program of a worker process, which resets and steps an `EnvBatch` on command, and its messages."""

import contextlib
import faulthandler
import fcntl
import functools
import os
import signal
import socket
import struct
import sys
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]

import cloudpickle

from alf.errors import contain, describe_error
from alf.workers.arrays import make_arrays, share
from alf.workers.env_batch import EnvBatch
from alf.workers.env_calls import ignore_signal
from alf.workers.restarted_batch import RestartedBatch

# The protocol: commands and replies are one byte each. The reply OBJECT is followed by an object: a `Layout`,
# the result of a method or an exception. SEED is followed by a list of seeds, HOLD by a list of rows; they
# have no reply. CALL is followed by a tuple: a method of `EnvBatch`, and its arguments. A worker closes its
# environments when the stream ends, and then sends CLOSED.
RESET, STEP, SEED, HOLD, CALL = b"r", b"s", b"e", b"h", b"c"
OK, OBJECT, CLOSED = b"k", b"o", b"d"
# Terminals and schedulers send these signals to all processes. The owner decides when workers end.
_OF_THE_OWNER = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def receive_byte(connection):
    """Receives one byte. Raises EOFError or OSError if the other process has ended or is too slow."""
    byte = connection.recv(1)
    if not byte:
        raise EOFError("the other process has closed the connection")
    return byte


def receive(connection, size):
    """Receives `size` bytes as a bytearray. Raises EOFError or OSError like `receive_byte`."""
    # One buffer of the full size: joined pieces would be copied again and again, and jobs may be large.
    received = bytearray(size)
    rest = memoryview(received)
    while rest:
        count = connection.recv_into(rest)
        if not count:
            raise EOFError("the other process has closed the connection")
        rest = rest[count:]
    return received


def pack_object(item):
    """Pickles an object for `receive_object`, with the code of classes from `__main__`. Returns bytes."""
    data = cloudpickle.dumps(item)
    return struct.pack("!Q", len(data)) + data


def receive_object(connection):
    """Receives an object that was sent as `pack_object(item)`. Raises EOFError or OSError like `receive`."""
    (size,) = struct.unpack("!Q", receive(connection, 8))
    return cloudpickle.loads(receive(connection, size))


def main(memory_fd, lifeline_fd, socket_fd):
    """Makes environments and runs commands until the owner closes the connection or ends.

    Args:
        memory_fd: int, file descriptor of the shared memory.
        lifeline_fd: int, file descriptor of a pipe whose other end the owner keeps open.
        socket_fd: int, file descriptor of the connection.
    """
    # `pass_fds` has made them inheritable. A program that an environment starts must not have them: its copy
    # of a connection would hide the end of this process.
    for fd in (memory_fd, lifeline_fd, socket_fd):
        os.set_inheritable(fd, False)
    # A process group, so that the owner can kill the programs that environments start. Not a session, because
    # the kernel may divide the cores evenly between sessions, whatever their work.
    os.setpgrp()
    # After the group is made, because the kernel kills the group.
    die_with_owner(lifeline_fd)
    handle_signals()
    connection = socket.socket(fileno=socket_fd)
    # If a child that an environment forks kept the connection open, the owner would not notice the end of
    # this process.
    os.register_at_fork(after_in_child=connection.close)
    with contextlib.ExitStack() as stack:  # closes the environments, also if a later constructor fails
        made = _make_batch(connection, stack)
        if made is not None:
            # The owner ends the connection to end this process, or has ended itself.
            with contextlib.suppress(EOFError, ConnectionError):
                _run_commands(connection, memory_fd, *made)
    # Python's own end follows, which may take long on a busy machine, although nothing hangs.
    with contextlib.suppress(ConnectionError):
        connection.sendall(CLOSED)


def _make_batch(connection, stack):
    """Receives the job. Returns the `EnvBatch`, its rows, B and `_Raised` or None; or None after an error."""
    try:
        # `core` is an int, or None for all cores.
        (job, rows), batch_size, core, nice, max_restarts = receive_object(connection)
        # Before the environments are made, because the threads that they start inherit niceness and cores.
        os.nice(nice)
        if core is not None:
            # `core` counts the workers of all pools. A process inherits the cores that its owner may use.
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[core % len(cores)]})
        raised = None if max_restarts is None else _Raised(max_restarts)
        batch = EnvBatch(*job) if raised is None else RestartedBatch(*job, raised.note)
        return stack.enter_context(contextlib.closing(batch)), rows, batch_size, raised
    except BaseException as error:
        with contextlib.suppress(ConnectionError):
            connection.sendall(_pack_error(contain(error, "a worker process that makes environments")))
        return None


class _TooManyError(Exception):
    """Environments have raised more often in one command than the owner allows."""


class _Raised:
    """What environments have raised that were made again in the present command.

    Args:
        max_restarts: int, the limit of the owner, who counts the restarts of all workers.
    """

    def __init__(self, max_restarts):
        self._max_restarts, self._pairs = max_restarts, []

    def note(self, index, error):
        """Notes what environment `index` has raised; after too many the owner gets no complete step."""
        self._pairs.append((index, _to_item(error)))
        if len(self._pairs) > self._max_restarts:
            raise _TooManyError

    def take(self):
        """Returns the pairs of index and exception since the last call, a list; None if there are none."""
        pairs, self._pairs = self._pairs, []
        return pairs or None


def _run_commands(connection, memory_fd, batch, rows, batch_size, raised):
    """Runs commands until the owner closes the connection."""
    connection.sendall(OBJECT + pack_object(batch.layout))
    # The owner sets the size of the shared memory before it sends the first command. If another worker has
    # failed, it ends this process instead.
    if not connection.recv(1, socket.MSG_PEEK):
        return
    memory = share(memory_fd, os.fstat(memory_fd).st_size)
    batch.use_arrays(make_arrays(batch.layout, batch_size, lambda size: memory, rows), memory)

    def call_method():
        name, *args = receive_object(connection)
        return getattr(batch, name)(*args)

    calls = {RESET: batch.reset, STEP: batch.step, CALL: call_method}
    takers = {SEED: batch.seed, HOLD: batch.hold}
    while True:
        command = receive_byte(connection)
        # Nothing is sent, even after an error: the owner does not wait here, and would take a reply for the
        # answer to its next command. An error ends this process, and the owner notices that.
        if command in takers:
            takers[command](receive_object(connection))
            continue
        try:
            with contextlib.suppress(_TooManyError):
                result = calls[command]()
            if raised is not None and command != CALL:
                result = raised.take()
            # The arrays in the shared memory are complete: the owner reads them as soon as it has this byte.
            reply = OK if result is None else OBJECT + pack_object(result)
        except BaseException as error:  # also SystemExit, which would end this process without a word
            reply = _pack_error(contain(error, "an environment"))
        connection.sendall(reply)


def _pack_error(error):
    """Returns the reply for an exception. Tracebacks cannot be pickled: it has the text of the traceback."""
    return OBJECT + pack_object(_to_item(error))


def _to_item(error):
    """Returns what becomes an exception, with the text of its traceback, when it is pickled and unpickled."""
    item = ExceptionWithTraceback(error, error.__traceback__)
    try:
        cloudpickle.loads(cloudpickle.dumps(item))
    except Exception:  # some exceptions cannot be pickled, or cannot be made from their pickle
        item.exc = RuntimeError(describe_error(error))
        item.exc.__dict__.update(__notes__=getattr(error, "__notes__", []))  # they name the environment
    return item


def die_with_owner(lifeline_fd):
    """Makes the kernel kill this process and its children when the owner ends for any reason.

    When the owner's end of the pipe is closed, also by SIGKILL, the kernel sends a signal to the group of
    this process.
    """
    # A negative number is a group, which has the children of environments, too.
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    if hasattr(fcntl, "F_SETSIG"):  # SIGIO elsewhere, which most programs do not handle
        fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    # Last: only now the kernel sends signals, when it is known to whom and which one.
    flags = fcntl.fcntl(lifeline_fd, fcntl.F_GETFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, flags | os.O_ASYNC)


@contextlib.contextmanager
def signals_held():
    """Context manager in which a process is started: its signals wait until it calls `handle_signals`."""
    # It inherits what is blocked. Only the mask of this thread changes, and only meanwhile.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_OF_THE_OWNER, signal.SIGUSR1})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def handle_signals():
    """Makes SIGUSR1 and crashes print the stacks of all threads. SIGINT, SIGTERM and SIGHUP are ignored."""
    log = sys.stderr or open(os.devnull, "w")  # noqa: SIM115  (stays open)
    faulthandler.enable(log)
    faulthandler.register(signal.SIGUSR1, log)
    for signum in _OF_THE_OWNER:
        # Not SIG_IGN: programs that environments start would inherit it, and nobody could terminate them.
        signal.signal(signum, ignore_signal)
        os.register_at_fork(after_in_child=functools.partial(signal.signal, signum, signal.SIG_DFL))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_OF_THE_OWNER, signal.SIGUSR1})
