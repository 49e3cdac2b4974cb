# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool: environments in worker processes, which are watched and restarted."""

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

from alf.core.restart_limit import RestartLimit
from alf.core.seeds import spawn_seeds
from alf.errors import ConfigError, EnvError
from alf.workers.arrays import make_arrays
from alf.workers.process import CALL, HOLD, MEASURE, RENDER, RENDER_FPS, RESET, SEED, STEP, pack_object
from alf.workers.worker import Worker, WorkerError, WorkerSettings, kill_workers

_CLOSE_SECONDS = 3.0  # time for all workers to close their environments
_SUCCESS = "ended with exit status 0"
_started = itertools.count()  # spreads the workers of all pools over the cores


class WorkerSplit:
    """Some of the environments of worker processes, with the interface of `EnvBatch`; see `WorkerPool`.

    Args:
        workers: `_Workers`.
        index: int, which of their splits.
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
        self._new = set()  # indices of workers that were replaced and have not begun episodes here

    def seed(self, seeds):
        """As in `EnvBatch`."""
        self._workers.seeds[self._rows] = list(seeds)
        for channel in self._channels.values():
            channel.send(SEED + pack_object(self._workers.seeds[channel.rows]))

    def hold(self, rows):
        """As in `EnvBatch`."""
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
        """As in `EnvBatch`. Raises WorkerError if the worker is lost, as the next three do."""
        return self._ask_first(MEASURE)

    def call(self, name, *args):
        """As in `EnvBatch`."""
        return self._ask_first(CALL + pack_object((name, *args)))

    def render(self):
        """As in `EnvBatch`."""
        return self._ask_first(RENDER)

    def render_fps(self):
        """As in `EnvBatch`."""
        return self._ask_first(RENDER_FPS)

    def dump_stacks(self):
        """Makes all workers print the stacks of their threads to stderr; any thread may call this."""
        for worker in list(self._workers.running):
            worker.dump_stacks()

    def close(self):
        """Closes the environments and ends the workers, when all splits are closed; may be called again."""
        self._closed = True
        self._workers.leave(self._index)

    @property
    def pids(self):
        """The process ids of the workers."""
        return [worker.process.pid for worker in self._workers.running]

    def _ask_first(self, command):
        """Returns the reply of the worker of environment 0; a WorkerError, and no restart, if it is lost."""
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
        while channels:
            for index, channel in channels.items():
                channel.send(RESET if index in self._new else command)
            self._new.clear()
            _, losses = self._workers.receive_replies(channels)
            if losses:
                lost = {index: channels[index].worker for index in losses}
                self.num_restarts += self._workers.replace(lost)
            # The new workers begin episodes. They may be lost too.
            self._renew_channels()
            channels = {index: self._channels[index] for index in self._new}

    def _renew_channels(self):
        """Takes the channels to those workers that were replaced, by this split or another one."""
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

    Each worker is an `EnvBatch` of some of the environments. All workers write into one block of shared
    memory. A batch step costs one byte to each worker and one byte back. Workers are new processes, because
    TensorFlow does not survive a fork. They end when their owner ends, even if it was killed, and with them
    the processes that their environments started, except those in a process group of their own.

    A worker that dies or does not reply in time is killed and restarted; one that hangs prints its stacks to
    stderr before. Its environments then begin new episodes with FIRST steps, so that nobody learns from the
    interrupted episodes. An exception of an environment causes no restart: it is raised here, and its cause
    is the traceback in the worker.

    `close` gives the workers 3 seconds to close their environments and then kills them. It raises nothing: a
    warning in the log names the worker where `close()` of an environment fails or hangs.

    With `num_splits` = k the pool is the first of k splits, each of B / k environments in this order. All
    workers have environments of every split, and one thread for each split may use it: a worker runs the
    commands in the order in which they arrive, so that it steps one split while others wait for actions. The
    workers end when all splits are closed.

    Args:
        env_fns, seeds, max_random_steps, info_keys: as in `EnvBatch`; cloudpickle must be able to pickle
            `env_fns`.
        num_workers: int, number of processes, at most B / k.
        settings: `WorkerSettings`, or None for the defaults.
        num_splits: int, k; it divides B.

    Attributes:
        layout, arrays: as in `EnvBatch`.
        num_restarts: int, how often this split has restarted a worker. Another one notices that it is new.
        splits: list of the k splits.

    Raises:
        WorkerError: if workers die or hang too often.
        Exception: as in `EnvBatch`, and what an environment raised.
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
    """W worker processes with the environments of k splits; their start, their restarts and their end.

    Attributes:
        running: list of the W `Worker`s.
        split_rows: list of the slice of each split's environments.
        seeds: list of B ints.
        layout: the `Layout` of all environments.
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
        # For each worker the slice of its environments in every split.
        self._rows = [
            [slice(rows.start + start, rows.start + stop) for rows in self.split_rows]
            for start, stop in itertools.pairwise(bounds)
        ]
        self.running = []
        self._users = set(range(num_splits))  # the splits that are not closed
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
        """Makes the `Arrays` of some environments in the shared memory."""
        return make_arrays(self.layout, self._size, self._get_memory, rows)

    def _get_memory(self, size):
        if self._memory is None:
            os.ftruncate(self._memory_file.fileno(), size)
            self._memory = mmap.mmap(self._memory_file.fileno(), size)
        return self._memory

    def leave(self, split):
        """Says that a split is closed; ends the workers after the last one."""
        self._users.discard(split)
        if not self._users:
            self._close()

    def receive_replies(self, channels):
        """Waits for the replies of all `channels`, a dict by index.

        Returns:
            a dict by index of the replies, and one of the WorkerErrors of lost workers, which are killed.

        Raises:
            Exception: what an environment raised.
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
        # A reply that is left in a socket would answer the next command. So errors are raised after all
        # replies, and a worker that hangs ends before it can reply late.
        if losses:
            kill_workers([channels[index].worker for index in losses])
        for reply in replies.values():
            if isinstance(reply, Exception):
                raise reply
        return replies, losses

    def get_current(self):
        """Returns `num_replaced` and a list of the workers; waits while another split replaces some."""
        with self._replacing:
            return self.num_replaced, list(self.running)

    @property
    def num_restarts(self):
        """How often a worker was restarted, an int."""
        return self._restarts.count

    def replace(self, lost):
        """Replaces lost workers, unless another split has done so.

        Args:
            lost: dict by index of the `Worker`s.

        Returns:
            how many restarts that took, an int.

        Raises:
            WorkerError: if there were too many.
        """
        with self._replacing:
            before = self.num_restarts
            lost = {index: worker for index, worker in lost.items() if self.running[index] is worker}
            if not lost:
                return 0
            for worker in lost.values():
                self._restarts.count_restart(worker.loss, WorkerError)
            # Other seeds than before, because the same ones would repeat the same episodes.
            seeds = [spawn_seeds([seed, self.num_restarts], 1)[0] for seed in self.seeds]
            for index, layouts in self._start(list(lost), seeds).items():
                if any(layout != self.layout for layout in layouts):
                    raise EnvError(f"{self.running[index].name} has other spaces after its restart")
            self.num_replaced += 1
            return self.num_restarts - before

    def _start(self, indices, seeds):
        """Starts workers, until all have made their environments; returns a dict of their layouts."""
        layouts, waiting = {}, list(indices)
        at_once = self._settings.max_concurrent_starts or len(waiting)
        while waiting:
            indices, waiting = waiting[:at_once], waiting[at_once:]
            for index in indices:
                worker = Worker(self._rows[index], self._memory_file.fileno(), self._settings)
                self.running[index : index + 1] = [worker]  # appended, or in place of the worker before
            for index in indices:
                core = next(_started) if self._settings.pin_workers else None
                job = self._make_jobs(index, seeds), self._size, core, self._settings.worker_nice
                self.running[index].channels[0].send(pack_object(job))
            replies, losses = self.receive_replies({i: self.running[i].channels[0] for i in indices})
            layouts.update(replies)
            for index, loss in losses.items():
                self._restarts.count_restart(loss, WorkerError)
                self.running[index].close_channels()
            waiting += losses
        for index in layouts:
            self.running[index].note_start()
        return layouts

    def _make_jobs(self, index, seeds):
        """The pairs of the arguments of an `EnvBatch` and its rows, one for each split."""
        max_random_steps, info_keys = self._rest_of_job
        return [
            ((self._env_fns[rows], seeds[rows], max_random_steps, rows.start, info_keys), rows)
            for rows in self._rows[index]
        ]

    def _log_heartbeat(self, channels):
        """Names in the log those that have not answered; at most one line in an interval."""
        now = time.monotonic()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + self._settings.heartbeat_interval
        silent = [channel for channel in channels if not channel.has_reply()]
        if silent:
            waits = [f"{c.worker.describe()} for {now - c.sent_at:.0f} s" for c in silent]
            logging.warning("no answer from %s", ", ".join(waits))


def _open_memory_file():
    """Opens an unnamed file in memory, which exists as long as any process has it open."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("alf-environments")
        os.fchmod(fd, 0o600)
        return open(fd, "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _close(workers, memory_file):
    """Ends all workers. It is no method, so that it can run after the pool is gone, or when Python ends."""
    running = [worker for worker in workers if not worker.is_reaped()]
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
