# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The program of a worker process, an `EnvBatch` that resets and steps on command, and its messages."""

import contextlib
import fcntl
import functools
import mmap
import os
import signal
import socket
import struct
from multiprocessing.pool import ExceptionWithTraceback

import cloudpickle

from alf.workers.arrays import make_arrays
from alf.workers.env_batch import EnvBatch

# Commands and replies are one byte each; a `Layout` or an exception follows the reply OBJECT. A worker closes
# its environments when the stream ends.
RESET, STEP = b"r", b"s"
OK, OBJECT = b"k", b"o"


def receive(connection, size):
    """Returns `size` bytes. Raises EOFError or OSError if the other process has ended or is too slow."""
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise EOFError("the other process has closed the connection")
        received += part
    return received


def pack_object(item):
    """Returns the bytes for `receive_object`. They include the code of a class from `__main__`."""
    data = cloudpickle.dumps(item)
    return struct.pack("!Q", len(data)) + data


def receive_object(connection):
    """Returns an object that was sent as `pack_object(item)`. Raises what `receive` raises."""
    (size,) = struct.unpack("!Q", receive(connection, 8))
    return cloudpickle.loads(receive(connection, size))


def main(socket_fd, memory_fd, lifeline_fd):
    """Makes environments and runs commands for the owner, until that closes the connection or ends."""
    _die_with_owner(lifeline_fd)
    connection = socket.socket(fileno=socket_fd)
    with contextlib.suppress(EOFError, ConnectionError), contextlib.ExitStack() as stack:
        try:
            # The environments are `rows` of all `batch_size`. `core` is an int, or None for any core.
            env_fns, seeds, max_random_steps, batch_size, rows, core = receive_object(connection)
            if core is not None:
                cores = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cores[core % len(cores)]})
            batch = stack.enter_context(contextlib.closing(EnvBatch(env_fns, seeds, max_random_steps)))
        except Exception as error:
            connection.sendall(_pack_error(error))
            return
        connection.sendall(OBJECT + pack_object(batch.layout))
        command = receive(connection, 1)  # The shared memory has its size when it arrives.
        make_memory = functools.partial(mmap.mmap, memory_fd)
        batch.use_arrays(make_arrays(batch.layout, batch_size, make_memory, rows))
        calls = {RESET: batch.reset, STEP: batch.step}
        while True:
            try:
                calls[command]()
                reply = OK
            except Exception as error:
                reply = _pack_error(error)
            connection.sendall(reply)
            command = receive(connection, 1)


def _pack_error(error):
    """Returns the reply for an exception, with the text of its traceback, which itself cannot be pickled."""
    item = ExceptionWithTraceback(error, error.__traceback__)  # becomes the exception when it is unpickled
    try:
        cloudpickle.loads(cloudpickle.dumps(item))
    except Exception:  # Some exceptions cannot be pickled, or not made again from their pickle.
        item.exc = RuntimeError(f"{type(error).__name__}: {error}")
    return OBJECT + pack_object(item)


def _die_with_owner(lifeline_fd):
    """Makes the kernel end this process when its owner has ended for any reason, even if this one is busy.

    When the owner's end of the pipe is closed, the kernel sends SIGIO, which nothing handles here.
    """
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline_fd, fcntl.F_GETFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, flags | os.O_ASYNC)
    # A terminal sends Ctrl-C to workers too, a scheduler sends SIGTERM: the owner decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
