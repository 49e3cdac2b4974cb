# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunningWorkers: starts, restarts and ends the worker processes of a pool."""

import functools
import itertools
import mmap
import os
import socket
import tempfile
import time
import weakref

import numpy as np
from absl import logging

from alf.core.randomness import spawn_seeds
from alf.core.restart_limit import RestartLimit
from alf.core.running_time import running_time
from alf.core.user_calls import user_call
from alf.errors import ConfigError, EnvError, describe_error
from alf.workers.process import pack_object
from alf.workers.worker import Worker, WorkerError, count_raise, kill_workers

_SUCCESS = "ended with exit status 0"
_turns = itertools.count()  # spreads the workers of all pools over cores and GPUs


class RunningWorkers:
    """W worker processes with the B environments of a pool: their start, restarts and end.

    Attributes:
        running: list of the W `Worker`s.
        seeds: list of B ints.
        attributes: dict, the attributes that the environments were given by name.
        layout: `Layout` of all environments.
        failure: the error of a `replace` that has failed, or None.
    """

    def __init__(self, env_fns, seeds, max_random_steps, info_keys, num_workers, settings):
        self._env_fns, self.seeds, self._rest_of_job = env_fns, seeds, (max_random_steps, info_keys)
        self._settings = settings
        self._restarts = RestartLimit(settings.max_restarts, settings.restart_period)
        self.failure = None
        self._next_heartbeat = 0.0
        self._memory_file = _open_memory_file()
        bounds = np.linspace(0, len(env_fns), num_workers + 1).astype(int).tolist()
        self._rows = [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
        # Not the indices, because several pools would put all their workers on the first cores and GPUs.
        self._turns = list(itertools.islice(_turns, num_workers))
        self._gpus = _list_gpus(settings.gpus)
        self.attributes = {}
        # Always changed in place, because the finalizer below has this list and ends the workers in it.
        self.running = []
        # A finalizer also runs when the pool is garbage and when Python ends. It must not refer to `self`.
        self._close = weakref.finalize(self, _close, self.running, self._memory_file, settings.close_timeout)
        try:
            # The memory has no size yet: only the workers, which make the environments, know the layout.
            layouts = self._start(range(num_workers), self.seeds)
            self.layout = layouts[0]
            for index, layout in layouts.items():
                if layout != self.layout:
                    name = self.running[index].name
                    raise ConfigError(f"{name} has other spaces than environment 0: {layout}, {self.layout}")
        except BaseException:
            self._close()
            raise

    def make_memory(self, size):
        """Returns the shared memory, of `size` bytes."""
        # The size must be set before the first command, because each worker maps the memory when that
        # arrives.
        os.ftruncate(self._memory_file.fileno(), size)
        return mmap.mmap(self._memory_file.fileno(), size)

    def close(self):
        """Ends the workers. May be called again."""
        self._close()  # a finalizer runs once

    @property
    def num_restarts(self):
        """The number of restarts, an int."""
        return self._restarts.count

    def receive_replies(self, indices, restarts=False, replies=None):
        """Waits for the replies of the workers with these `indices`, a list of ints.

        With `restarts` a worker that raises counts as lost if `restart_on_error` is set. `replies` is the
        dict that is returned, if another thread looks at it meanwhile.

        Returns:
            a dict from index to reply, and a dict from index to WorkerError for lost workers, which are
            killed.

        Raises:
            Exception: an exception of an environment.
        """
        losses, interval = {}, self._settings.heartbeat_interval
        replies = {} if replies is None else replies
        waiting = {index: self.running[index] for index in indices}

        # Called while the reply of one worker is waited for, and names all that have not replied.
        def log():
            self._log_heartbeat(waiting.values())

        try:
            for index in indices:
                try:
                    replies[index] = waiting[index].channel.receive_reply(interval, log)
                except WorkerError as loss:
                    losses[index] = waiting[index].note_loss(loss)
                del waiting[index]
        except BaseException:  # Ctrl-C
            _silence([*waiting.values(), *(self.running[index] for index in losses)])
            raise
        # A reply that stays in a socket would be taken for the answer to the next command. So errors are
        # raised only after all replies have come, and a worker that has not replied is killed.
        if losses:
            _silence([self.running[index] for index in losses])
        errors = {index: reply for index, reply in replies.items() if isinstance(reply, Exception)}
        for index, error in errors.items():
            if not (restarts and self._settings.restart_on_error):
                raise error
            losses[index] = WorkerError(f"{self.running[index].name} raised {describe_error(error)}")
            losses[index].__cause__ = error
        # Unlike lost workers these can close their environments.
        _end([self.running[index] for index in errors], self._settings.close_timeout)
        return replies, losses

    def count_raised(self, raised):
        """Counts the restarts of environments that a worker has made again.

        Args:
            raised: list of pairs of the index of an environment and its exception, or None.

        Raises:
            WorkerError: if there were too many restarts.
        """
        for index, error in raised or ():
            count_raise(self._restarts, index, error)
        if raised and len(raised) > self._settings.max_restarts:  # the worker has given up
            raise WorkerError(f"environment {index} cannot be made again") from error

    def replace(self, losses):
        """Replaces lost workers.

        Args:
            losses: dict from index to the WorkerError that says why the worker is lost.

        Raises:
            WorkerError: if there were too many restarts.
            Exception: the error of the constructor of an environment.
        """
        try:
            for loss in losses.values():
                self._restarts.count_restart(loss, WorkerError)
            # New seeds, because the old ones would repeat the same episodes.
            seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self.seeds]
            for index in losses:
                self.running[index].channel.close()
            for index, layout in self._start(list(losses), seeds, restarts=True).items():
                if layout != self.layout:
                    raise EnvError(f"{self.running[index].name} has other spaces after its restart")
        except BaseException as error:
            # The new workers are not whole: every later command raises this. A KeyboardInterrupt would be one
            # that nobody has asked for.
            interrupted = WorkerError("the restart of worker processes was interrupted")
            self.failure = error if isinstance(error, Exception) else interrupted
            raise

    def _start(self, indices, seeds, restarts=False):
        """Starts workers until all have made their environments; returns a dict from index to `Layout`."""
        layouts, waiting = {}, list(indices)
        at_once = self._settings.max_concurrent_starts or len(waiting)
        while waiting:
            indices, waiting = waiting[:at_once], waiting[at_once:]
            # First all processes, then all jobs: a process takes a large job only once Python has started in
            # it, and so they start side by side.
            for index in indices:
                gpu = self._gpus[self._turns[index] % len(self._gpus)]
                worker = Worker(self._rows[index], self._memory_file.fileno(), self._settings, gpu)
                self.running[index : index + 1] = [worker]  # appends it, or replaces the previous worker
            for index in indices:
                core = self._turns[index] if self._settings.pin_workers else None
                limit = self._settings.max_restarts if self._settings.restart_on_error else None
                job = (
                    self._make_job(index, seeds),
                    len(self._env_fns),
                    core,
                    self._settings.worker_nice,
                    limit,
                )
                self.running[index].channel.send(pack_object(job))
            replies: dict = {}  # grows meanwhile
            name = functools.partial(_describe_start, indices, replies)
            with user_call(name):
                _, losses = self.receive_replies(indices, restarts, replies)
            layouts.update({index: reply for index, reply in replies.items() if index not in losses})
            for index, loss in losses.items():
                self._restarts.count_restart(loss, WorkerError)
                self.running[index].channel.close()
            # Workers that were lost while they started are started again, until the limit is reached.
            waiting += losses
        for index in layouts:
            self.running[index].note_start()
        return layouts

    def _make_job(self, index, seeds):
        """Returns the arguments of a worker's `EnvBatch`, and its rows."""
        rows, (max_random_steps, info_keys) = self._rows[index], self._rest_of_job
        job = self._env_fns[rows], seeds[rows], max_random_steps, rows.start, info_keys, self.attributes
        return job, rows

    def _log_heartbeat(self, workers):
        """Logs which workers have not answered, at most one line in each `heartbeat_interval`."""
        now = running_time()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + self._settings.heartbeat_interval
        silent = [worker for worker in workers if not worker.channel.has_reply()]
        if silent:
            waits = [f"{worker.describe()} for {now - worker.channel.sent_at:.0f} s" for worker in silent]
            logging.warning("no answer from %s", ", ".join(waits))


def _open_memory_file():
    """Opens an unnamed file in memory, which exists as long as a process has it open."""
    # Without a name nobody has to remove it, whoever is killed, and other users cannot open it.
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("alf-environments")
        os.fchmod(fd, 0o600)
        return open(fd, "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _describe_start(indices, replies):
    """Returns a text for whoever waits for workers that start; `replies` grows meanwhile."""
    return f"the constructors in {len(indices)} worker processes, {len(replies)} of which have made theirs"


def _list_gpus(numbers):
    """Returns the names of GPUs for CUDA_VISIBLE_DEVICES of workers, in turn: [""] for none."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(number) for number in numbers] or [""]
    names = [name for name in visible.split(",") if name]
    wrong = [number for number in numbers if number >= len(names)]
    if wrong:
        raise ConfigError(
            f"WorkerSettings.gpus is {tuple(numbers)}: this process sees {len(names)} GPUs "
            f"(CUDA_VISIBLE_DEVICES={visible!r})"
        )
    return [names[number] for number in numbers] or [""]


def _silence(workers):
    """Kills workers, and removes replies that have come meanwhile."""
    kill_workers(workers)
    for worker in workers:
        worker.channel.read_rest()


def _close(workers, memory_file, timeout):
    """Ends all workers. A function, not a method: a finalizer runs it after the pool is gone."""
    _end(workers, timeout)
    # The pool is closed or garbage, so no thread waits for these sockets. Its arrays stay readable: their
    # mapping keeps the memory.
    for worker in workers:
        worker.channel.close()
    memory_file.close()


def _end(workers, timeout):
    """Ends workers, which have a moment to close their environments."""
    running = [worker for worker in workers if not worker.is_reaped()]
    # The workers see the end of the stream and close their environments, all at the same time.
    for worker in running:
        worker.channel.shut_down(socket.SHUT_WR)
    deadline = time.monotonic() + timeout
    # One deadline for all of them.
    for worker in running:
        end = worker.wait_for_end(max(0.0, deadline - time.monotonic()))
        if end is None and worker.has_closed():
            worker.kill()  # Only Python's own end is missing: nothing hangs, so no stacks are printed.
        elif end is None:
            logging.warning(
                "%s did not close them within close_timeout=%g s: it is killed", worker.name, timeout
            )
        elif end != _SUCCESS:
            logging.warning("%s %s when it closed them", worker.name, end)
    # All workers, also ended ones: their environments may have started processes that still run.
    kill_workers(workers)
