# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool: environments in worker processes, which it watches and restarts."""

from alf.workers.process import CALL, HOLD, RESET, SEED, STEP, pack_object
from alf.workers.shared_workers import SharedWorkers
from alf.workers.worker_settings import WorkerSettings


class WorkerSplit:
    """One split of the environments of a `WorkerPool`, with the interface of `EnvBatch`.

    Args:
        workers: `SharedWorkers`.
        index: int, the index of the split.
    """

    def __init__(self, workers, index):
        self._workers, self._index = workers, index
        self._rows = workers.split_rows[index]
        self.layout = workers.layout
        self.arrays = workers.make_arrays(self._rows)
        self.num_restarts = 0
        self._closed = False
        # The workers as this split knows them. Another split may replace some at any time, and the channels
        # stay those of the old ones until `_renew_channels`, so that no thread changes what another one uses.
        self._channels = {i: worker.channels[index] for i, worker in enumerate(workers.running)}
        self._num_replaced = workers.num_replaced
        self._new = set()  # indices of replaced workers that have not begun episodes of this split yet

    def seed(self, seeds):
        """Sets the seeds of the next reset, B ints."""
        # Kept for workers that are replaced later: they get seeds that follow from these. Only the rows of
        # this split: the threads of other splits write theirs.
        self._workers.seeds[self._rows] = list(seeds)
        # Without a reply: a stream keeps its order, so the worker has the seeds before the next reset.
        for channel in self._channels.values():
            channel.send(SEED + pack_object(self._workers.seeds[channel.rows]))

    def hold(self, rows):
        """Makes the next `step` repeat the FIRST steps of the environments `rows`, a list of ints."""
        for channel in self._channels.values():
            # From rows of all environments to rows of this split; a worker counts its own rows from 0.
            start, stop = (x - self._rows.start for x in (channel.rows.start, channel.rows.stop))
            held = [row - start for row in rows if start <= row < stop]
            if held:
                channel.send(HOLD + pack_object(held))

    def reset(self):
        self._ask_all(RESET, begins=True)

    def step(self):
        self._ask_all(STEP, begins=True)

    def measure_step_seconds(self):
        """Measures the fastest of 5 random steps of environment 0, in seconds. Call `reset` afterwards.

        Raises:
            WorkerError: if the worker is lost. The next two methods raise it, too.
        """
        return self._ask_first("measure_step_seconds")

    def render(self):
        """Returns the result of `render` of environment 0."""
        return self._ask_first("render")

    def render_fps(self):
        """Returns the frames per second of environment 0, or None if its metadata has no "render_fps"."""
        return self._ask_first("render_fps")

    def call(self, name, *args):
        """Calls the method `name` of each environment, as `EnvBatch.call`; returns a list of B results.

        If a worker is lost meanwhile, the environments of its successor are called. Workers that are replaced
        later do not know of the call.
        """
        return [result for results in self._call_all("call", name, *args) for result in results]

    def set_attr(self, name, value):
        """Sets an attribute of each environment, as `EnvBatch.set_attr`; also in workers that come later."""
        attributes, before = self._workers.attributes, self._workers.attributes[self._index]
        # Kept first: if another split replaces a worker meanwhile, the new one must have it. In a new dict,
        # because that split's thread may pickle the old one at this moment.
        attributes[self._index] = {**before, name: value}
        try:
            self._call_all("set_attr", name, value)
        except BaseException:
            attributes[self._index] = before
            raise

    def dump_stacks(self):
        """Makes all workers print the stacks of their threads to stderr. Any thread may call this."""
        # A copy of the list, because another thread may replace workers meanwhile.
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

    def _ask_first(self, method):
        """Calls a method of the `EnvBatch` of environment 0; raises WorkerError if its worker is lost."""
        self._renew_channels()
        self._channels[0].send(CALL + pack_object((method,)))
        replies, losses = self._workers.receive_replies({0: self._channels[0]})
        if losses:
            raise losses[0]
        return replies[0]

    def _call_all(self, method, *args):
        """Calls a method of all `EnvBatch`es; returns a list of the results, in the order of the rows."""
        return self._ask_all(CALL + pack_object((method, *args)))

    def _ask_all(self, command, begins=False):
        """Sends a command to all workers; returns a list of the replies, in the order of the rows.

        With `begins` new workers begin episodes instead, and with `restart_on_error` an environment that
        raises is a loss.
        """
        if self._closed:
            raise RuntimeError("the worker processes were closed")
        self._renew_channels()
        channels, results = self._channels, {}
        # All workers step at the same time: every command is sent before any reply is received. The loop
        # repeats only for workers that were lost; those that replace them may get lost, too.
        while channels:
            for index, channel in channels.items():
                channel.send(RESET if begins and index in self._new else command)
            if begins:  # before the replies: workers that are replaced from now on have not begun
                self._new.difference_update(channels)
            replies, losses = self._workers.receive_replies(channels, restarts=begins)
            results |= replies
            if losses:
                lost = {index: channels[index].worker for index in losses}
                self.num_restarts += self._workers.replace(lost)
            self._renew_channels()
            channels = {index: self._channels[index] for index in losses}
        return [results[index] for index in sorted(results)]

    def _renew_channels(self):
        """Takes the channels to workers that were replaced, by this split or another one."""
        # Read without the lock: a stale number only means that the loss is noticed at the next reply.
        if self._num_replaced == self._workers.num_replaced:
            return
        self._num_replaced, workers = self._workers.get_current()
        for index, worker in enumerate(workers):
            if self._channels[index].worker is not worker:
                # Closed here and not by whoever replaced the worker: only this thread knows that it does not
                # wait for this channel any more.
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
    the interrupted episodes. An exception of an environment is raised here, with the worker's traceback as
    its cause. With `restart_on_error` it is a loss of its worker.

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
        workers = SharedWorkers(*jobs, num_workers, settings or WorkerSettings(), num_splits)
        super().__init__(workers, 0)
        self.num_restarts = workers.num_restarts
        self._others = [WorkerSplit(workers, index) for index in range(1, num_splits)]

    @property
    def splits(self):
        return [self, *self._others]
