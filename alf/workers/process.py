# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The program of a worker process: an EnvBatch that resets and steps on command."""

import contextlib
import fcntl
import mmap
import os
import signal
import socket
import traceback
from typing import NamedTuple

import cloudpickle

from alf.workers import messages
from alf.workers.arrays import make_arrays
from alf.workers.env_batch import EnvBatch


class WorkerConfig(NamedTuple):
    """What the owner sends to a worker when it starts.

    Attributes:
        env_fns, seeds, max_random_steps: for `EnvBatch`.
        first_row: int, index of the worker's first environment in the shared arrays.
        batch_size: int, number of environments in the shared arrays.
        core: int, the CPU core to run on, or None for any.
    """

    env_fns: list
    seeds: list
    max_random_steps: int
    first_row: int
    batch_size: int
    core: int | None


def main(socket_fd, memory_fd, lifeline_fd):
    """Serves the owner until it closes the connection or ends."""
    _die_with_owner(lifeline_fd)
    connection = socket.socket(fileno=socket_fd)
    with contextlib.suppress(EOFError):
        _serve(connection, memory_fd)


def _serve(connection, memory_fd):
    """Makes the environments and sends their layout; then runs commands and replies to each of them."""
    try:
        config = messages.receive_object(connection)
        if config.core is not None:
            os.sched_setaffinity(0, {config.core})
        batch = EnvBatch(config.env_fns, config.seeds, config.max_random_steps)
    except Exception as error:
        _send_error(connection, error)
        return
    with contextlib.closing(batch):
        connection.sendall(messages.LAYOUT + messages.pack_object(batch.layout))
        command = messages.receive(connection, 1)  # The shared memory has its size when it arrives.
        arrays = make_arrays(batch.layout, config.batch_size, lambda size: mmap.mmap(memory_fd, size))
        batch.use_arrays(arrays.rows(config.first_row, config.first_row + len(config.env_fns)))
        calls = {messages.RESET: batch.reset, messages.STEP: batch.step}
        while True:
            try:
                calls[command]()
            except Exception as error:
                _send_error(connection, error)
            else:
                connection.sendall(messages.OK)
            command = messages.receive(connection, 1)


def _send_error(connection, error):
    """Sends an exception and the text of its traceback, because a traceback cannot be pickled."""
    text = "".join(traceback.format_exception(error))
    try:
        cloudpickle.loads(cloudpickle.dumps(error))
    except Exception:  # Some exceptions cannot be pickled, or not made again from their pickle.
        error = RuntimeError(f"{type(error).__name__}: {error}")
    connection.sendall(messages.ERROR + messages.pack_object((error, text)))


def _die_with_owner(lifeline_fd):
    """Makes the kernel end this process when its owner has ended for any reason, even if this one is busy.

    The owner holds the other end of the pipe. When that is closed, the kernel sends SIGIO, which nothing
    handles here, so that it ends the process.
    """
    fcntl.fcntl(lifeline_fd, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline_fd, fcntl.F_GETFL)
    fcntl.fcntl(lifeline_fd, fcntl.F_SETFL, flags | os.O_ASYNC)
    # A terminal sends Ctrl-C to workers too, a scheduler sends SIGTERM: the owner decides when workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
