# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The program of a worker process, an `EnvBatch` that resets and steps on command, and its messages."""

import contextlib
import faulthandler
import fcntl
import functools
import mmap
import os
import signal
import socket
import struct
import sys
from multiprocessing.pool import ExceptionWithTraceback

import cloudpickle

from alf.errors import contain
from alf.workers.arrays import make_arrays
from alf.workers.env_batch import EnvBatch

# Commands and replies are one byte each. The reply OBJECT is followed by a `Layout`, a number, a frame or an
# exception. SEED is followed by a list of seeds, HOLD by a list of rows; they have no reply. A worker closes
# its environments when the stream ends.
RESET, STEP, SEED, HOLD, MEASURE, RENDER, RENDER_FPS = b"r", b"s", b"e", b"h", b"m", b"i", b"f"
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


def main(socket_fd, memory_fd, lifeline_fd):
    """Makes environments and runs commands for the owner, until that closes the connection or ends."""
    for fd in (socket_fd, memory_fd, lifeline_fd):
        os.set_inheritable(fd, False)
    # A group, not a session: the kernel may divide the cores between sessions, whatever their work.
    os.setpgrp()
    _die_with_owner(lifeline_fd)
    _handle_signals()
    connection = socket.socket(fileno=socket_fd)
    # A fork of an environment that keeps the connection would hide the end of this process from the owner.
    os.register_at_fork(after_in_child=connection.close)
    made = _make_batch(connection)
    if made is not None:
        with contextlib.closing(made[0]), contextlib.suppress(EOFError, ConnectionError):
            _run_commands(connection, memory_fd, *made)


def _make_batch(connection):
    """Receives a job; returns (`EnvBatch`, B, its rows of B), or sends the error and returns None."""
    try:
        # `core` is an int, or None for any core.
        arguments, batch_size, rows, core = receive_object(connection)
        if core is not None:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[core % len(cores)]})
        return EnvBatch(*arguments), batch_size, rows
    except BaseException as error:
        with contextlib.suppress(ConnectionError):
            connection.sendall(_pack_error(contain(error, "a worker process that makes environments")))
        return None


def _run_commands(connection, memory_fd, batch, batch_size, rows):
    """Runs commands until the owner closes the connection."""
    connection.sendall(OBJECT + pack_object(batch.layout))
    command = receive_byte(connection)  # The shared memory has its size when it arrives.
    make_memory = functools.partial(mmap.mmap, memory_fd)
    batch.use_arrays(make_arrays(batch.layout, batch_size, make_memory, rows))
    calls = {
        RESET: batch.reset,
        STEP: batch.step,
        MEASURE: batch.measure_step_seconds,
        RENDER: batch.render,
        RENDER_FPS: batch.render_fps,
    }
    takers = {SEED: batch.seed, HOLD: batch.hold}
    while True:
        if command in takers:
            takers[command](receive_object(connection))
        else:
            try:
                result = calls[command]()
                reply = OK if result is None else OBJECT + pack_object(result)
            except BaseException as error:
                reply = _pack_error(contain(error, "an environment"))
            connection.sendall(reply)
        command = receive_byte(connection)


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
