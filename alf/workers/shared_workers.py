# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SharedWorkers: starts, restarts and ends the worker processes that all splits of a pool share."""

import itertools
import mmap
import os
import socket
import tempfile
import threading
import time
import weakref

import numpy as np
from absl import logging

from alf.core.randomness import spawn_seeds
from alf.core.restart_limit import RestartLimit
from alf.core.running_time import running_time
from alf.errors import ConfigError, EnvError
from alf.workers.arrays import make_arrays
from alf.workers.process import pack_object
from alf.workers.worker import Worker, WorkerError, kill_workers

_SUCCESS = "ended with exit status 0"
_turns = itertools.count()  # spreads the workers of all pools over cores and GPUs


class SharedWorkers:
    """W worker processes with the environments of k splits: their start, restarts and end.

    The threads of the splits share it. `_replacing` is held while workers are replaced.

    Attributes:
        running: list of the W `Worker`s.
        split_rows: list of slices, the environments of each split.
        seeds: list of B ints.
        attributes: list with a dict for each split, the attributes that its environments were given by name.
        layout: `Layout` of all environments.
        num_replaced: int, how often `replace` has put new workers into `running`.
    """

    def __init__(self, env_fns, seeds, max_random_steps, info_keys, num_workers, settings, num_splits):
        self._env_fns, self.seeds, self._rest_of_job = env_fns, seeds, (max_random_steps, info_keys)
        self._settings, self._size = settings, len(env_fns)
        self.num_replaced = 0
        self._restarts = RestartLimit(settings.max_restarts, settings.restart_period)
        # Once the pool is made, `running` changes only while this is held. A command and its reply need no
        # lock: each split has channels and rows of its own.
        self._replacing = threading.Lock()
        self._failure = None  # the error of a `replace` that has failed
        # Splits that wait together share it, so that the log gets one line of them in an interval.
        self._next_heartbeat = 0.0
        self._memory_file, self._memory = _open_memory_file(), None
        size = self._size // num_splits
        self.split_rows = [slice(start, start + size) for start in range(0, self._size, size)]
        bounds = np.linspace(0, size, num_workers + 1).astype(int).tolist()
        # For each worker a list of slices: its environments in each split.
        self._rows = [
            [slice(rows.start + start, rows.start + stop) for rows in self.split_rows]
            for start, stop in itertools.pairwise(bounds)
        ]
        # Not the indices, because several pools would put all their workers on the first cores and GPUs.
        self._turns = list(itertools.islice(_turns, num_workers))
        self._gpus = _list_gpus(settings.gpus)
        self.attributes = [{} for _ in self.split_rows]
        # Always changed in place, because the finalizer below has this list and ends the workers in it.
        self.running = []
        self._users = set(range(num_splits))  # the splits that are not closed
        # A finalizer also runs when the pool is garbage and when Python ends. It must not refer to `self`.
        self._close = weakref.finalize(self, _close, self.running, self._memory_file, settings.close_timeout)
        try:
            # The memory has no size yet: only the workers, which make the environments, know the layout.
            layouts = self._start(range(num_workers), self.seeds)
            self.layout = layouts[0][0]
            for index, parts in layouts.items():
                for layout in (part for part in parts if part != self.layout):
                    name = self.running[index].name
                    raise ConfigError(f"{name} has other spaces than environment 0: {layout}, {self.layout}")
        except BaseException:
            self._close()
            raise

    def make_arrays(self, rows):
        """Makes the `Arrays` of the environments `rows` in the shared memory."""
        return make_arrays(self.layout, self._size, self._get_memory, rows)

    def _get_memory(self, size):
        # Once: all splits show parts of the same memory. The size must be set before the first command,
        # because each worker maps the memory when that arrives.
        if self._memory is None:
            os.ftruncate(self._memory_file.fileno(), size)
            self._memory = mmap.mmap(self._memory_file.fileno(), size)
        return self._memory

    def leave(self, split):
        """Notes that a split is closed. Ends the workers after the last one."""
        self._users.discard(split)
        # The threads of two splits may both come here: a finalizer runs once.
        if not self._users:
            self._close()

    def receive_replies(self, channels, restarts=False):
        """Waits for the replies of all `channels`, a dict from index to `Channel`.

        With `restarts` a worker whose environment raises counts as lost if `restart_on_error` is set.

        Returns:
            a dict from index to reply, and a dict from index to WorkerError for lost workers, which are
            killed.

        Raises:
            Exception: an exception of an environment.
        """
        replies, losses, interval = {}, {}, self._settings.heartbeat_interval

        # Called while the reply of one worker is waited for, and names all that have not replied.
        def log():
            known = {*replies, *losses}
            self._log_heartbeat([channel for index, channel in channels.items() if index not in known])

        try:
            for index, channel in channels.items():
                try:
                    replies[index] = channel.receive_reply(interval, log)
                except WorkerError as loss:
                    losses[index] = loss
                    channel.worker.note_loss(loss)
        except BaseException:  # Ctrl-C
            _silence([channel for index, channel in channels.items() if index not in replies])
            raise
        # A reply that stays in a socket would be taken for the answer to the next command. So errors are
        # raised only after all replies have come, and a worker that has not replied is killed.
        if losses:
            _silence([channels[index] for index in losses])
        errors = {index: reply for index, reply in replies.items() if isinstance(reply, Exception)}
        for index, error in errors.items():
            if not (restarts and self._settings.restart_on_error):
                raise error
            worker = channels[index].worker
            losses[index] = WorkerError(f"{worker.name} raised {type(error).__name__}: {error}")
            losses[index].__cause__ = error
            # Before its end, which the threads of other splits meet as a loss of the same worker.
            worker.note_loss(losses[index])
        # Unlike lost workers these can close their environments.
        _end([channels[index].worker for index in errors], self._settings.close_timeout)
        return replies, losses

    def get_current(self):
        """Returns `num_replaced` and a list of the workers. Waits while another split replaces some."""
        with self._replacing:
            return self.num_replaced, list(self.running)

    @property
    def num_restarts(self):
        """The number of restarts, an int."""
        return self._restarts.count

    def replace(self, lost):
        """Replaces lost workers, unless another split has already replaced them.

        Args:
            lost: dict from index to the lost `Worker`.

        Returns:
            int, the number of restarts.

        Raises:
            WorkerError: if there were too many restarts.
            Exception: the error of an earlier call, or of the constructor of an environment.
        """
        # Held until the new workers have started: a split that meets the same loss waits for them.
        with self._replacing:
            if self._failure is not None:  # of another split, whose new workers are not whole
                raise self._failure
            before = self.num_restarts
            # Splits notice a lost worker at different times. The first one replaces it.
            lost = {index: worker for index, worker in lost.items() if self.running[index] is worker}
            if not lost:
                return 0
            for worker in lost.values():
                self._restarts.count_restart(worker.loss, WorkerError)
            # New seeds, because the old ones would repeat the same episodes.
            seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self.seeds]
            try:
                for index, layouts in self._start(list(lost), seeds, restarts=True).items():
                    if any(layout != self.layout for layout in layouts):
                        raise EnvError(f"{self.running[index].name} has other spaces after its restart")
            except BaseException as error:
                # A later call must not raise a KeyboardInterrupt that nobody has asked for.
                interrupted = WorkerError("the restart of worker processes was interrupted")
                self._failure = error if isinstance(error, Exception) else interrupted
                raise
            # Last, because splits that see another number take the channels of the new workers.
            self.num_replaced += 1
            return self.num_restarts - before

    def _start(self, indices, seeds, restarts=False):
        """Starts workers until all have made their environments.

        Returns a dict from index to the list of the `Layout`s of the worker's splits.
        """
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
                job = self._make_jobs(index, seeds), self._size, core, self._settings.worker_nice
                self.running[index].channels[0].send(pack_object(job))
            # The channel of the first split, for all of them: the others do not know these workers yet.
            channels = {index: self.running[index].channels[0] for index in indices}
            replies, losses = self.receive_replies(channels, restarts)
            layouts.update({index: reply for index, reply in replies.items() if index not in losses})
            for index, loss in losses.items():
                self._restarts.count_restart(loss, WorkerError)
                self.running[index].close_channels()
            # Workers that were lost while they started are started again, until the limit is reached.
            waiting += losses
        for index in layouts:
            self.running[index].note_start()
        return layouts

    def _make_jobs(self, index, seeds):
        """Makes a list with a pair for each split: the arguments of an `EnvBatch`, and its rows."""
        max_random_steps, info_keys = self._rest_of_job
        return [
            ((self._env_fns[rows], seeds[rows], max_random_steps, rows.start, info_keys, attributes), rows)
            for rows, attributes in zip(self._rows[index], self.attributes, strict=True)
        ]

    def _log_heartbeat(self, channels):
        """Logs which workers have not answered, at most one line in each `heartbeat_interval`."""
        now = running_time()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + self._settings.heartbeat_interval
        silent = [channel for channel in channels if not channel.has_reply()]
        if silent:
            waits = [f"{c.worker.describe()} for {now - c.sent_at:.0f} s" for c in silent]
            logging.warning("no answer from %s", ", ".join(waits))


def _open_memory_file():
    """Opens an unnamed file in memory, which exists as long as a process has it open."""
    # Without a name nobody has to remove it, whoever is killed, and other users cannot open it.
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("alf-environments")
        os.fchmod(fd, 0o600)
        return open(fd, "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


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


def _silence(channels):
    """Kills the workers of channels, and removes replies that have come meanwhile."""
    kill_workers([channel.worker for channel in channels])
    for channel in channels:
        channel.read_rest()


def _close(workers, memory_file, timeout):
    """Ends all workers. A function, not a method: a finalizer runs it after the pool is gone."""
    _end(workers, timeout)
    # The splits are closed or garbage, so no thread waits for these sockets. The arrays of the splits stay
    # readable: their mapping keeps the memory.
    for worker in workers:
        worker.close_channels()
    memory_file.close()


def _end(workers, timeout):
    """Ends workers, which have a moment to close their environments."""
    running = [worker for worker in workers if not worker.is_reaped()]
    # The workers see the end of the stream and close their environments, all at the same time.
    for channel in (channel for worker in running for channel in worker.channels):
        channel.shut_down(socket.SHUT_WR)
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
