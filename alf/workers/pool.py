# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool: environments in worker processes, which it watches and restarts."""

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
from alf.errors import ConfigError, EnvError
from alf.workers.arrays import make_arrays
from alf.workers.process import CALL, HOLD, MEASURE, RENDER, RENDER_FPS, RESET, SEED, STEP, pack_object
from alf.workers.worker import Worker, WorkerError, kill_workers
from alf.workers.worker_settings import WorkerSettings

_CLOSE_SECONDS = 3.0  # time for all workers to close their environments
_SUCCESS = "ended with exit status 0"
_started = itertools.count()  # spreads the workers of all pools over the cores


class WorkerSplit:
    """One split of the environments of a `WorkerPool`, with the interface of `EnvBatch`.

    Args:
        workers: `_Workers`.
        index: int, the index of the split.
    """

    def __init__(self, workers, index):
        self._workers, self._index = workers, index
        self._rows = workers.split_rows[index]
        self.layout = workers.layout
        self.arrays = workers.make_arrays(self._rows)
        self.num_restarts = 0
        self._closed = False
        self._channels = {i: worker.channels[index] for i, worker in enumerate(workers.running)}
        self._num_replaced = workers.num_replaced
        self._new = set()  # indices of replaced workers that have not begun episodes of this split yet

    def seed(self, seeds):
        """Sets the seeds of the next reset, B ints."""
        self._workers.seeds[self._rows] = list(seeds)
        for channel in self._channels.values():
            channel.send(SEED + pack_object(self._workers.seeds[channel.rows]))

    def hold(self, rows):
        """Makes the next `step` repeat the FIRST steps of the environments `rows`, a list of ints."""
        for channel in self._channels.values():
            start, stop = (x - self._rows.start for x in (channel.rows.start, channel.rows.stop))
            held = [row - start for row in rows if start <= row < stop]
            if held:
                channel.send(HOLD + pack_object(held))

    def reset(self):
        self._run_command(RESET)

    def step(self):
        self._run_command(STEP)

    def measure_step_seconds(self):
        """Measures the fastest of 5 random steps of environment 0, in seconds. Call `reset` afterwards.

        Raises:
            WorkerError: if the worker is lost. The next three methods raise it, too.
        """
        return self._ask_first(MEASURE)

    def call(self, name, *args):
        """Calls the method `name` of environment 0 and returns its result."""
        return self._ask_first(CALL + pack_object((name, *args)))

    def render(self):
        """Returns the result of `render` of environment 0."""
        return self._ask_first(RENDER)

    def render_fps(self):
        """Returns the frames per second of environment 0, or None if its metadata has no "render_fps"."""
        return self._ask_first(RENDER_FPS)

    def dump_stacks(self):
        """Makes all workers print the stacks of their threads to stderr. Any thread may call this."""
        for worker in list(self._workers.running):
            worker.dump_stacks()

    def close(self):
        """Closes the environments and ends the workers once all splits are closed. May be called again."""
        self._closed = True
        self._workers.leave(self._index)

    @property
    def pids(self):
        """The process ids of the workers."""
        return [worker.process.pid for worker in self._workers.running]

    def _ask_first(self, command):
        """Returns the reply of the worker of environment 0, or raises WorkerError if it is lost."""
        self._renew_channels()
        self._channels[0].send(command)
        replies, losses = self._workers.receive_replies({0: self._channels[0]})
        if losses:
            raise losses[0]
        return replies[0]

    def _run_command(self, command):
        if self._closed:
            raise RuntimeError("the worker processes were closed")
        self._renew_channels()
        channels = self._channels
        # All workers step at the same time: every command is sent before any reply is received. The loop
        # repeats only for workers that were replaced meanwhile.
        while channels:
            for index, channel in channels.items():
                channel.send(RESET if index in self._new else command)
            self._new.clear()
            _, losses = self._workers.receive_replies(channels)
            if losses:
                lost = {index: channels[index].worker for index in losses}
                self.num_restarts += self._workers.replace(lost)
            # New workers begin episodes. They may get lost, too.
            self._renew_channels()
            channels = {index: self._channels[index] for index in self._new}

    def _renew_channels(self):
        """Takes the channels to workers that were replaced, by this split or another one."""
        # Read without the lock: a stale number only means that the loss is noticed at the next reply.
        if self._num_replaced == self._workers.num_replaced:
            return
        self._num_replaced, workers = self._workers.get_current()
        for index, worker in enumerate(workers):
            if self._channels[index].worker is not worker:
                self._channels[index].close()
                self._channels[index] = worker.channels[self._index]
                self._new.add(index)


class WorkerPool(WorkerSplit):
    """B Gymnasium environments in worker processes, with the interface of `EnvBatch`.

    Each worker runs an `EnvBatch` of some of the environments. All workers write into one block of shared
    memory, so a step of the batch costs one byte to each worker and one byte back. Workers are new processes,
    because TensorFlow does not survive a fork. They end when their owner ends, even if it is killed, and with
    them the processes that their environments started, except those in a process group of their own.

    A worker that dies or does not reply in time is killed and restarted; a worker that hangs first prints its
    stacks to stderr. Its environments then begin new episodes with FIRST steps, so that nobody learns from
    the interrupted episodes. An exception of an environment causes no restart: it is raised here, with the
    worker's traceback as its cause.

    `close` gives the workers 3 seconds to close their environments, then kills them. It raises nothing: if
    `close()` of an environment fails or hangs, a warning in the log names the worker.

    With `num_splits` = k the pool is the first of k splits, each of B / k environments in this order. All
    workers have environments of every split, and each split may be used by a thread of its own. A worker runs
    the commands in the order in which they arrive, so it steps one split while the others wait for actions.
    The workers end when all splits are closed.

    Args:
        env_fns, seeds, max_random_steps, info_keys: arguments of `EnvBatch`. cloudpickle must be able to
            pickle `env_fns`.
        num_workers: int, the number of processes, at most B / k.
        settings: `WorkerSettings`, or None for the defaults.
        num_splits: int, k; it must divide B.

    Attributes:
        layout: `Layout` of all environments.
        arrays: `Arrays` of B / k.
        num_restarts: int, how often this split has restarted a worker. (Other splits only notice that it was
            replaced.)
        splits: list of the k splits.

    Raises:
        WorkerError: if workers die or hang too often.
        Exception: the errors of `EnvBatch`, and any exception of an environment.
    """

    def __init__(
        self, env_fns, seeds, num_workers, max_random_steps=0, settings=None, info_keys=(), num_splits=1
    ):
        jobs = list(env_fns), list(seeds), max_random_steps, info_keys
        workers = _Workers(*jobs, num_workers, settings or WorkerSettings(), num_splits)
        super().__init__(workers, 0)
        self.num_restarts = workers.num_restarts
        self._others = [WorkerSplit(workers, index) for index in range(1, num_splits)]

    @property
    def splits(self):
        return [self, *self._others]


class _Workers:
    """W worker processes with the environments of k splits: their start, restarts and end.

    The threads of the splits share it. `_replacing` is held while workers are replaced.

    Attributes:
        running: list of the W `Worker`s.
        split_rows: list of slices, the environments of each split.
        seeds: list of B ints.
        layout: `Layout` of all environments.
        num_replaced: int, how often `replace` has put new workers into `running`.
    """

    def __init__(self, env_fns, seeds, max_random_steps, info_keys, num_workers, settings, num_splits):
        self._env_fns, self.seeds, self._rest_of_job = env_fns, seeds, (max_random_steps, info_keys)
        self._settings, self._size = settings, len(env_fns)
        self.num_replaced = 0
        self._restarts = RestartLimit(settings.max_restarts, settings.restart_period)
        self._replacing = threading.Lock()
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
        self.running = []
        self._users = set(range(num_splits))  # the splits that are not closed
        # A finalizer also runs when the pool is garbage and when Python ends. It must not refer to `self`.
        self._close = weakref.finalize(self, _close, self.running, self._memory_file)
        try:
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
        if self._memory is None:
            os.ftruncate(self._memory_file.fileno(), size)
            self._memory = mmap.mmap(self._memory_file.fileno(), size)
        return self._memory

    def leave(self, split):
        """Notes that a split is closed. Ends the workers after the last one."""
        self._users.discard(split)
        if not self._users:
            self._close()

    def receive_replies(self, channels):
        """Waits for the replies of all `channels`, a dict from index to `Channel`.

        Returns:
            a dict from index to reply, and a dict from index to WorkerError for lost workers, which are
            killed.

        Raises:
            Exception: an exception of an environment.
        """
        replies, losses, interval = {}, {}, self._settings.heartbeat_interval

        def log():
            known = {*replies, *losses}
            self._log_heartbeat([channel for index, channel in channels.items() if index not in known])

        for index, channel in channels.items():
            try:
                replies[index] = channel.receive_reply(interval, log)
            except WorkerError as loss:
                losses[index] = loss
                channel.worker.note_loss(loss)
        # A reply that stays in a socket would be taken for the answer to the next command. So errors are
        # raised only after all replies have come, and a worker that hangs is killed before it can reply late.
        if losses:
            kill_workers([channels[index].worker for index in losses])
        for reply in replies.values():
            if isinstance(reply, Exception):
                raise reply
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
        """
        with self._replacing:
            before = self.num_restarts
            # Splits notice a lost worker at different times. The first one replaces it.
            lost = {index: worker for index, worker in lost.items() if self.running[index] is worker}
            if not lost:
                return 0
            for worker in lost.values():
                self._restarts.count_restart(worker.loss, WorkerError)
            # New seeds, because the old ones would repeat the same episodes.
            seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self.seeds]
            for index, layouts in self._start(list(lost), seeds).items():
                if any(layout != self.layout for layout in layouts):
                    raise EnvError(f"{self.running[index].name} has other spaces after its restart")
            self.num_replaced += 1
            return self.num_restarts - before

    def _start(self, indices, seeds):
        """Starts workers until all have made their environments.

        Returns a dict from index to the list of the `Layout`s of the worker's splits.
        """
        layouts, waiting = {}, list(indices)
        at_once = self._settings.max_concurrent_starts or len(waiting)
        while waiting:
            indices, waiting = waiting[:at_once], waiting[at_once:]
            for index in indices:
                worker = Worker(self._rows[index], self._memory_file.fileno(), self._settings)
                self.running[index : index + 1] = [worker]  # appends it, or replaces the previous worker
            for index in indices:
                core = next(_started) if self._settings.pin_workers else None
                job = self._make_jobs(index, seeds), self._size, core, self._settings.worker_nice
                self.running[index].channels[0].send(pack_object(job))
            replies, losses = self.receive_replies({i: self.running[i].channels[0] for i in indices})
            layouts.update(replies)
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
            ((self._env_fns[rows], seeds[rows], max_random_steps, rows.start, info_keys), rows)
            for rows in self._rows[index]
        ]

    def _log_heartbeat(self, channels):
        """Logs which workers have not answered, at most one line in each `heartbeat_interval`."""
        now = time.monotonic()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + self._settings.heartbeat_interval
        silent = [channel for channel in channels if not channel.has_reply()]
        if silent:
            waits = [f"{c.worker.describe()} for {now - c.sent_at:.0f} s" for c in silent]
            logging.warning("no answer from %s", ", ".join(waits))


def _open_memory_file():
    """Opens an unnamed file in memory, which exists as long as a process has it open."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("alf-environments")
        os.fchmod(fd, 0o600)
        return open(fd, "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _close(workers, memory_file):
    """Ends all workers. A function, not a method: a finalizer runs it after the pool is gone."""
    running = [worker for worker in workers if not worker.is_reaped()]
    # The workers see the end of the stream and close their environments, all at the same time.
    for channel in (channel for worker in running for channel in worker.channels):
        channel.shut_down(socket.SHUT_WR)
    deadline = time.monotonic() + _CLOSE_SECONDS
    for worker in running:
        end = worker.wait_for_end(max(0.0, deadline - time.monotonic()))
        if end is None:
            logging.warning("%s did not close them within %g s: it is killed", worker.name, _CLOSE_SECONDS)
        elif end != _SUCCESS:
            logging.warning("%s %s when it closed them", worker.name, end)
    kill_workers(workers)
    for worker in workers:
        worker.close_channels()
    memory_file.close()
