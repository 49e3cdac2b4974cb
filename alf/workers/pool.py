# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WorkerPool: environments in worker processes, which it watches and restarts."""

from alf.workers.arrays import make_arrays
from alf.workers.process import CALL, HOLD, RESET, SEED, STEP, pack_object
from alf.workers.running_workers import RunningWorkers
from alf.workers.worker_settings import WorkerSettings


class WorkerPool:
    """B Gymnasium environments in worker processes, with the interface of `EnvBatch`.

    Each worker runs an `EnvBatch` of some of the environments. All workers write into one block of shared
    memory, so a step of the batch costs one byte to each worker and one byte back. Workers are new processes,
    because TensorFlow does not survive a fork. They end when their owner ends, even if it is killed, and with
    them the processes that their environments started, except those in a process group of their own.

    A worker that dies or does not reply in time is killed and restarted; a worker that hangs first prints its
    stacks to stderr. Its environments then begin new episodes with FIRST steps, so that nobody learns from
    the interrupted episodes. An exception of an environment is raised here, with the worker's traceback as
    its cause. With `restart_on_error` its worker makes this environment again, and no other.

    `close` gives the workers 3 seconds to close their environments, then kills them. It raises nothing: if
    `close()` of an environment fails or hangs, a warning in the log names the worker.

    Args:
        env_fns, seeds, max_random_steps, info_keys: arguments of `EnvBatch`. cloudpickle must be able to
            pickle `env_fns`.
        num_workers: int, the number of processes, at most B.
        settings: `WorkerSettings`, or None for the defaults.

    Attributes:
        layout: `Layout` of all environments.
        arrays: `Arrays` of B.

    Raises:
        WorkerError: if workers die or hang too often.
        Exception: the errors of `EnvBatch`, and any exception of an environment.
    """

    def __init__(self, env_fns, seeds, num_workers, max_random_steps=0, settings=None, info_keys=()):
        jobs = list(env_fns), list(seeds), max_random_steps, info_keys
        self._workers = workers = RunningWorkers(*jobs, num_workers, settings or WorkerSettings())
        self.layout = workers.layout
        self.arrays = make_arrays(self.layout, len(workers.seeds), workers.make_memory)
        self._closed = False

    @property
    def num_restarts(self):
        """How often a worker was restarted, or an environment made again, an int."""
        return self._workers.num_restarts

    @property
    def pids(self):
        """The process ids of the workers."""
        return [worker.process.pid for worker in self._workers.running]

    def seed(self, seeds):
        """Sets the seeds of the next reset, B ints."""
        # Kept for workers that are replaced later: they get seeds that follow from these.
        self._workers.seeds[:] = seeds
        # Without a reply: a stream keeps its order, so the worker has the seeds before the next reset.
        for worker in self._workers.running:
            worker.channel.send(SEED + pack_object(self._workers.seeds[worker.rows]))

    def hold(self, rows):
        """Makes the next `step` repeat the FIRST steps of the environments `rows`, a list of ints."""
        for worker in self._workers.running:
            start, stop = worker.rows.start, worker.rows.stop
            held = [row - start for row in rows if start <= row < stop]  # a worker counts its own rows
            if held:
                worker.channel.send(HOLD + pack_object(held))

    def reset(self):
        self._ask_all(RESET, begins=True)

    def step(self):
        self._ask_all(STEP, begins=True)

    def measure_step(self):
        """Measures a step of environment 0, as `EnvBatch.measure_step`. Call `reset` afterwards.

        Raises:
            WorkerError: if the worker is lost. The next two methods raise it, too.
        """
        return self._ask_first("measure_step")

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
        before = self._workers.attributes
        # Kept first: a worker that replaces another one meanwhile must have it.
        self._workers.attributes = {**before, name: value}
        try:
            self._call_all("set_attr", name, value)
        except BaseException:
            self._workers.attributes = before
            raise

    def dump_stacks(self):
        """Makes all workers print the stacks of their threads to stderr. Any thread may call this."""
        # A copy of the list, because another thread may replace workers meanwhile.
        for worker in list(self._workers.running):
            worker.dump_stacks()

    def close(self):
        """Closes the environments and ends the workers. May be called again."""
        self._closed = True
        self._workers.close()

    def _ask_first(self, method):
        """Calls a method of the `EnvBatch` of environment 0; raises WorkerError if its worker is lost."""
        self._check_is_whole()
        self._workers.running[0].channel.send(CALL + pack_object((method,)))
        replies, losses = self._workers.receive_replies([0])
        if losses:
            raise losses[0]
        return replies[0]

    def _call_all(self, method, *args):
        """Calls a method of all `EnvBatch`es; returns a list of the results, in the order of the rows."""
        return self._ask_all(CALL + pack_object((method, *args)))

    def _ask_all(self, command, begins=False):
        """Sends a command to all workers; returns a list of the replies, in the order of the rows.

        With `begins` new workers begin episodes instead, and with `restart_on_error` the replies have the
        environments that were made again.
        """
        self._check_is_whole()
        workers, results = self._workers.running, {}
        indices = list(range(len(workers)))
        # All workers step at the same time: every command is sent before any reply is received. The loop
        # repeats only for workers that were lost; those that replace them may get lost, too.
        while indices:
            for worker in [workers[index] for index in indices]:
                worker.channel.send(command if worker.has_begun or not begins else RESET)
                worker.has_begun |= begins
            replies, losses = self._workers.receive_replies(indices, restarts=begins)
            results |= replies
            for raised in replies.values() if begins else ():
                self._workers.count_raised(raised)
            if losses:
                self._workers.replace(losses)
            indices = list(losses)
        return [results[index] for index in sorted(results)]

    def _check_is_whole(self):
        if self._closed:
            raise RuntimeError("the worker processes were closed")
        if self._workers.failure is not None:
            raise self._workers.failure
