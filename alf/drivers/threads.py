# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The threads of a driver: starting, watching and ending them, and closing the environments.

The first thread that ends, for any reason, stops the coordinator and closes all queues. That wakes every
thread that waits. The caller of the driver sees the first error.
"""

import abc
import collections
import concurrent.futures
import contextlib
import functools
import itertools
import threading

import tensorflow as tf
from absl import logging

from alf.core.tf_runtime import single_threaded
from alf.drivers.env_making import EnvCloser, join_all
from alf.drivers.env_specs import name_env
from alf.drivers.graph_steps import find_graph_envs
from alf.drivers.stage_clock import STORE, WAIT
from alf.drivers.stall_watch import StallWatch
from alf.errors import InterruptedDriverError, contain

# Errors of an operation on a closed queue: it is empty, or the close has cancelled a wait.
QUEUE_CLOSED = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


class _Coordinator(tf.train.Coordinator):
    """Keeps the first error for the caller of the driver, without a line of its own in the log.

    In a notebook TensorFlow would show that line, with the traceback, twice before the error itself.
    """

    def request_stop(self, ex=None):
        tf.get_logger().addFilter(_is_not_of_coordinator)
        try:
            super().request_stop(ex)
        finally:
            tf.get_logger().removeFilter(_is_not_of_coordinator)


def _is_not_of_coordinator(record):
    return record.module != "coordinator"


class DriverThread(threading.Thread, abc.ABC):
    """Repeats `work` until the coordinator stops. When it ends, it wakes all threads that wait.

    Args:
        coord: the `tf.train.Coordinator` of all threads of a driver.
        queues: `TFQueues` or `Handover`. Each thread closes them when it ends.
        name: the thread's name.
    """

    def __init__(self, coord, queues, name):
        # A daemon: an environment that never returns must not keep the process alive.
        super().__init__(name=name, daemon=True)
        self._coord = coord
        self._queues = queues
        self._asked = collections.deque()  # pairs of a future and the function whose result it waits for

    def ask(self, function):
        """Makes this thread call `function` between two pieces of its work; from any thread.

        Returns a `concurrent.futures.Future`. It is running once this thread has taken the function up, and
        stays pending if this thread ends before that.
        """
        future = concurrent.futures.Future()
        self._asked.append((future, function))
        return future

    def answer(self):
        """Calls the functions that other threads have asked for; `work` calls it."""
        while self._asked:
            future, function = self._asked.popleft()
            future.set_running_or_notify_cancel()
            try:
                future.set_result(function())
            except Exception as error:  # for the thread that has asked; this one goes on
                future.set_exception(error)

    @abc.abstractmethod
    def work(self):
        """Does one piece of work, such as one unroll. Every wait in it must end when the queues close."""

    def run(self):
        try:
            # The coordinator keeps this thread's error for the caller of the driver, if it is the first one
            # and comes before any stop. Later errors follow from the stop, and would only hide the cause. The
            # executor's context belongs to a thread, so each one enters it.
            with self._coord.stop_on_exception(), single_threaded():
                try:
                    while not self._coord.should_stop():
                        self.work()
                except QUEUE_CLOSED:
                    # After a stop, a closed queue tells the thread to end. Before, it is an error.
                    if not self._coord.should_stop():
                        raise
                except Exception as error:  # the coordinator makes its text, and would fail if nobody can
                    error = contain(error, self.name)
                    raise error
        finally:
            # In this order: a thread that is woken by the closed queues must find that the coordinator stops.
            # Else it would take the closed queue for an error of its own.
            self._coord.request_stop()
            self._queues.close()


class DriverThreads:
    """Starts, watches and ends the threads of a driver, and closes its environments.

    Args:
        envs: list of the driver's batched environments.
        collectors: `Collectors`, which end with the threads, or None.
        monitoring: `Monitoring`, for its time-outs.
        wake: callable () that ends every wait of the driver, now and later. Any thread may call it,
            repeatedly.
        get_queue_sizes: callable () -> dict of ints by name; the message of a stall shows it.

    Attributes:
        coord: `tf.train.Coordinator` of the threads.
        unroller: `EnvUnroller` that calls the environments; None until the driver sets it.
    """

    def __init__(self, envs, collectors, monitoring, wake, get_queue_sizes):
        # No error is a clean stop by its type: by default the coordinator would swallow OutOfRangeError.
        # Whether a closed queue is an error depends on the time, and `DriverThread.run` decides it.
        self.coord = _Coordinator(clean_stop_exception_types=())
        self.unroller = None
        self._envs, self._collectors = envs, collectors
        self._monitoring = monitoring
        self._wake, self._get_queue_sizes = wake, get_queue_sizes
        self._threads, self._watches = [], []  # lists of `DriverThread`s and `StallWatch`es
        self._stepping = [None]  # L threads; thread i steps the environments i, i + L, ...
        self._waiting_since = None  # the start of the present wait of `collect`, seconds of `time.monotonic`
        self._started = self._stopped = False
        # The error of a thread, once `collect` has raised it: `stop` does not raise it again.
        self._raised = None

    @property
    def has_started(self):
        return self._started

    def begin(self):
        """Notes that the driver starts; raises RuntimeError if it has started or stopped before."""
        if self._started or self._stopped:
            raise RuntimeError("start() works once: make a new driver to start again")
        self._started = True

    def start(self, threads, stepping):
        """Starts the threads.

        Args:
            threads: list of `DriverThread`s.
            stepping: list with the thread of each loop of `EnvUnroller`.
        """
        timeout = self._monitoring.stall_timeout
        if timeout is not None:
            on_error = self.interrupt if self._monitoring.on_stall == "error" else None
            # The watch only reads what other threads write. A stale value delays a warning by one look.
            waiting_since = lambda: self._waiting_since  # noqa: E731
            calls = [] if self.unroller is None else self.unroller.calls
            watched = self.coord, self._envs, calls, waiting_since, self._get_queue_sizes
            self._watches = [StallWatch(*watched, timeout, on_error)]
        self._threads, self._stepping = threads, stepping
        for thread in [*threads, *self._watches]:
            thread.start()

    def check_runs(self, name="collect"):
        """Raises an error unless the driver runs. An error of a thread is raised here, not only by `stop`."""
        if not self._threads or self._stopped:
            raise RuntimeError(f"{name}() needs a driver that runs: call start() first, and not after stop()")
        self.raise_if_stopping()

    @property
    def num_loops(self):
        """The number of loops that step the environments, an int; 0 without environments."""
        return 0 if self.unroller is None else self.unroller.num_loops

    def in_order(self, by_loop):
        """Returns a list of results in the order of the environments, of a list of them for each loop."""
        return [by_loop[i % self.num_loops][i // self.num_loops] for i in range(len(self._envs))]

    def ask_envs(self, method, *args):
        """Makes the thread of each loop call `EnvUnroller.ask`; returns a list of futures of lists."""
        return [
            thread.ask(functools.partial(self.unroller.ask, index, method, *args))
            for index, thread in enumerate(self._stepping)
        ]

    def raise_if_stopping(self):
        """Raises the error that has ended a thread; InterruptedDriverError if the driver was interrupted."""
        if not self.coord.should_stop():
            return
        try:
            self.coord.raise_requested_exception()
        except BaseException as error:
            self._raised = error
            raise
        raise InterruptedDriverError("the driver was interrupted")

    @contextlib.contextmanager
    def waiting(self, clock, stage=WAIT, before=STORE):
        """Context in which the learner's thread waits. `StallWatch` measures it; it counts as `stage`.

        The time since the last lap counts as the stage `before`.
        """
        self._waiting_since = clock.lap(before)
        try:
            yield
        finally:
            self._waiting_since = None
            clock.lap(stage)

    def interrupt(self, error=None):
        """Makes all threads stop, and `collect` raise `error`. From any thread; returns at once."""
        # In this order: threads that wake must find that the coordinator stops, and step no environment.
        self.coord.request_stop(None if error is None else (type(error), error, error.__traceback__))
        if self.unroller is not None:
            self.unroller.close()
        self._wake()

    def stop(self):
        """Ends all threads and closes the environments, as `Driver.stop` describes."""
        if self._stopped:
            return
        # Set before anything can fail: a second `stop` must not close the environments again.
        self._stopped = True
        self.interrupt()
        complaint = self._join_and_close()
        # The first error of a thread is the cause of the rest, so it goes before complaints of the end.
        try:
            self.coord.raise_requested_exception()
        except BaseException as error:
            if complaint is not None:
                logging.warning("%s", complaint)
            if error is not self._raised:
                raise
        else:
            if complaint is not None:
                raise complaint

    def _join_and_close(self):
        """Waits for threads and closes environments; returns a RuntimeError with all failures, or None."""
        # An environment must not be closed while a thread is in a call of it, so its closer waits for that
        # thread. After `EnvUnroller.close` no new call begins: environments that are not called close at
        # once. Steps in the graph are no calls: these environments always close after their threads.
        calls = [None] * len(self._envs) if self.unroller is None else self.unroller.calls
        in_graph = find_graph_envs(self._envs)
        closers = [
            EnvCloser(name_env(i, env), env, thread if calls[i] or i in in_graph else None)
            for i, (env, thread) in enumerate(zip(self._envs, itertools.cycle(self._stepping)))
        ]
        for closer in closers:
            closer.start()
        timeout = self._monitoring.stop_timeout
        join_all([*closers, *self._threads, *self._watches], timeout)
        if self._collectors is not None:
            # Now, because the thread that uses them has ended, or does not end in time.
            self._collectors.close()
        # A call may have returned since its closer was made, whose thread then still ends: it counts as a
        # step.
        stages = [call[0] if call else "step" for call in calls]
        complaints = [closer.complain(stage) for closer, stage in zip(closers, stages, strict=True)]
        complaints += [
            f"{thread.name} still runs"
            for thread in self._threads
            if thread.is_alive() and thread not in self._stepping
        ]
        complaints = [complaint for complaint in complaints if complaint]
        if not complaints:
            return None
        error = RuntimeError(f"after stop_timeout={timeout:g} seconds: {'; '.join(complaints)}")
        error.__cause__ = next((closer.error for closer in closers if closer.error is not None), None)
        return error
