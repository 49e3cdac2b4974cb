# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The program of a worker process, `EnvBatch`es that reset and step on command, and its messages."""

import contextlib
import faulthandler
import fcntl
import functools
import mmap
import os
import select
import signal
import socket
import struct
import sys
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]

import cloudpickle

from alf.errors import contain
from alf.workers.arrays import make_arrays
from alf.workers.env_batch import EnvBatch

# Commands and replies are one byte each. The reply OBJECT is followed by a list of `Layout`s, a number, a
# frame, what a method returns or an exception. SEED is followed by a list of seeds, HOLD by a list of rows;
# they have no reply. CALL is followed by a tuple of a method's name and its arguments. A worker closes its
# environments when a stream ends.
RESET, STEP, SEED, HOLD, MEASURE, RENDER, RENDER_FPS, CALL = b"r", b"s", b"e", b"h", b"m", b"i", b"f", b"c"
OK, OBJECT = b"k", b"o"


def receive_byte(connection):
    """Returns one byte. Raises EOFError or OSError if the other process has ended or is too slow."""
    byte = connection.recv(1)
    if not byte:
        raise EOFError("the other process has closed the connection")
    return byte


def receive(connection, size):
    """Returns `size` bytes as a bytearray. Raises what `receive_byte` raises."""
    received = bytearray(size)
    rest = memoryview(received)
    while rest:
        count = connection.recv_into(rest)
        if not count:
            raise EOFError("the other process has closed the connection")
        rest = rest[count:]
    return received


def pack_object(item):
    """Returns the bytes for `receive_object`. They include the code of a class from `__main__`."""
    data = cloudpickle.dumps(item)
    return struct.pack("!Q", len(data)) + data


def can_pickle(item):
    """Whether `item` can be sent to a worker."""
    try:
        cloudpickle.dumps(item)
    except Exception:  # whatever the parts of the item raise
        return False
    return True


def receive_object(connection):
    """Returns an object that was sent as `pack_object(item)`. Raises what `receive` raises."""
    (size,) = struct.unpack("!Q", receive(connection, 8))
    return cloudpickle.loads(receive(connection, size))


def main(memory_fd, lifeline_fd, *socket_fds):
    """Makes environments and runs commands for the owner, until that closes the connections or ends.

    There is an `EnvBatch` and a connection for each split of the environments, see `WorkerPool`.
    """
    for fd in (memory_fd, lifeline_fd, *socket_fds):
        os.set_inheritable(fd, False)
    # A group, not a session: the kernel may divide the cores between sessions, whatever their work.
    os.setpgrp()
    _die_with_owner(lifeline_fd)
    _handle_signals()
    connections = [socket.socket(fileno=fd) for fd in socket_fds]
    for connection in connections:
        # A fork of an environment that keeps it would hide the end of this process from the owner.
        os.register_at_fork(after_in_child=connection.close)
    with contextlib.ExitStack() as stack:
        made = _make_batches(connections[0], stack)
        if made is not None:
            with contextlib.suppress(EOFError, ConnectionError):
                _run_commands(connections, memory_fd, *made)


def _make_batches(connection, stack):
    """Receives the jobs; returns a list of pairs (`EnvBatch`, its rows) and B, or None after an error."""
    try:
        # `core` is an int, or None for any core.
        jobs, batch_size, core, nice = receive_object(connection)
        os.nice(nice)
        if core is not None:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[core % len(cores)]})
        close = contextlib.closing
        return [(stack.enter_context(close(EnvBatch(*job))), rows) for job, rows in jobs], batch_size
    except BaseException as error:
        with contextlib.suppress(ConnectionError):
            connection.sendall(_pack_error(contain(error, "a worker process that makes environments")))
        return None


def _run_commands(connections, memory_fd, batches, batch_size):
    """Runs commands until the owner closes a connection: those of several in the order of arrival."""
    connections[0].sendall(OBJECT + pack_object([batch.layout for batch, _ in batches]))
    poll, answers = select.poll(), {}
    for connection, (batch, _) in zip(connections, batches, strict=True):
        poll.register(connection, select.POLLIN)
        answers[connection.fileno()] = _make_answer(connection, batch)
    poll.poll()  # The shared memory has its size when the first command arrives.
    make_memory = functools.partial(mmap.mmap, memory_fd)
    for batch, rows in batches:
        batch.use_arrays(make_arrays(batch.layout, batch_size, make_memory, rows))
    if len(answers) == 1:  # without a system call for the question where a command waits
        (answer,) = answers.values()
        while True:
            answer()
    while True:
        for fd, _ in poll.poll():
            answers[fd]()


def _make_answer(connection, batch):
    """Returns a function that runs one command of a connection."""
    calls = {
        RESET: batch.reset,
        STEP: batch.step,
        MEASURE: batch.measure_step_seconds,
        RENDER: batch.render,
        RENDER_FPS: batch.render_fps,
        CALL: lambda: batch.call(*receive_object(connection)),
    }
    takers = {SEED: batch.seed, HOLD: batch.hold}

    def answer():
        command = receive_byte(connection)
        if command in takers:
            takers[command](receive_object(connection))
            return
        try:
            result = calls[command]()
            reply = OK if result is None else OBJECT + pack_object(result)
        except BaseException as error:
            reply = _pack_error(contain(error, "an environment"))
        connection.sendall(reply)

    return answer


def _pack_error(error):
    """Returns the reply for an exception, with the text of its traceback, which itself cannot be pickled."""
    item = ExceptionWithTraceback(error, error.__traceback__)  # becomes the exception when it is unpickled
    try:
        cloudpickle.loads(cloudpickle.dumps(item))
    except Exception:  # Some exceptions cannot be pickled, or not made again from their pickle.
        item.exc = RuntimeError(f"{type(error).__name__}: {error}")
    return OBJECT + pack_object(item)


def _die_with_owner(lifeline_fd):
    """Makes the kernel kill this process and those that it started when its owner has ended for any reason.

    When the owner's end of the pipe is closed, the kernel sends a signal to the group of this process.
    """
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, -os.getpgrp())
    if hasattr(fcntl, "F_SETSIG"):  # SIGIO elsewhere, which most programs do not handle
        fcntl.fcntl(lifeline_fd, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline_fd, fcntl.F_GETFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, flags | os.O_ASYNC)


def _handle_signals():
    """Makes SIGUSR1 and crashes print the stacks of all threads, and SIGINT and SIGTERM do nothing."""
    log = sys.stderr or open(os.devnull, "w")  # noqa: SIM115  (it stays open)
    faulthandler.enable(log)
    faulthandler.register(signal.SIGUSR1, log)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})  # The owner blocks it until here.
    for signum in (signal.SIGINT, signal.SIGTERM):  # A scheduler sends them to all: the owner decides.
        # The programs that environments start would inherit SIG_IGN, and nobody could terminate them.
        signal.signal(signum, lambda signum, frame: None)
        os.register_at_fork(after_in_child=functools.partial(signal.signal, signum, signal.SIG_DFL))
