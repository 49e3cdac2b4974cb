# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What runs in a worker process: an EnvBatch that is told when to step."""

import contextlib
import fcntl
import mmap
import os
import signal
import socket
import traceback
from typing import NamedTuple

import cloudpickle

from alf.workers import connection as messages
from alf.workers.arrays import make_arrays
from alf.workers.env_batch import EnvBatch


class WorkerConfig(NamedTuple):
    """What a worker needs to begin: `EnvBatch`'s arguments, and the CPU core to stay on, or None."""

    env_fns: list
    seeds: list
    max_random_steps: int
    core: int | None


class Rows(NamedTuple):
    """Where a worker writes: rows `start` to `stop` of the arrays of `batch_size` environments."""

    batch_size: int
    start: int
    stop: int


def main(socket_fd, memory_fd, lifeline_fd):
    """Serves until its owner closes the connection, or has gone."""
    _die_with_owner(lifeline_fd)
    connection = socket.socket(fileno=socket_fd)
    with contextlib.suppress(EOFError):
        _serve(connection, memory_fd)


def _serve(connection, memory_fd):
    try:
        config = messages.receive_object(connection)
        if config.core is not None:
            os.sched_setaffinity(0, {config.core})
        batch = EnvBatch(config.env_fns, config.seeds, config.max_random_steps)
    except Exception as error:
        _send_error(connection, error)
        return
    try:
        connection.sendall(messages.OK)
        messages.send_object(connection, batch.layout)
        rows = messages.receive_object(connection)
        arrays = make_arrays(batch.layout, rows.batch_size, mmap.mmap(memory_fd, 0))
        batch.use_arrays(arrays.rows(rows.start, rows.stop))
        calls = {messages.RESET: batch.reset, messages.STEP: batch.step}
        while True:
            command = messages.receive(connection, 1)
            try:
                calls[command]()
            except Exception as error:
                _send_error(connection, error)
            else:
                connection.sendall(messages.OK)
    finally:
        batch.close()


def _send_error(connection, error):
    """Sends an exception with its traceback as text: a traceback itself cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # not every exception can be pickled, nor made again from its pickle
        error = RuntimeError(f"{type(error).__name__}: {error}")
    connection.sendall(messages.ERROR)
    messages.send_object(connection, (error, text))


def _die_with_owner(lifeline_fd):
    """Lets the kernel end this process when its owner has gone, however, and whatever this one does then.

    The owner holds the other end of the pipe. When that is closed, the kernel sends SIGIO, which nobody
    handles.
    """
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline_fd, fcntl.F_GETFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, flags | os.O_ASYNC)
    # A terminal sends Ctrl-C to workers too, a scheduler SIGTERM: the owner decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
