# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WatchedThread: one environment in a thread of this process, whose answers may be waited for."""

import queue
import threading

from alf.workers.env_batch import EnvBatch
from alf.workers.worker import WorkerError


class WatchedThread:
    """Calls methods of one environment as `WorkerPool` does, where cloudpickle cannot pickle it.

    A thread that hangs cannot be ended: it stays until the process ends. A crash ends this process.

    Args:
        env_fn: as in `EnvBatch`.
        settings: `WorkerSettings`, of which the time-outs count.

    Raises:
        WorkerError: if a call takes too long. Exceptions of the environment pass through.
    """

    def __init__(self, env_fn, settings):
        self._calls, self._replies = queue.SimpleQueue(), queue.SimpleQueue()
        self._settings, self._is_lost = settings, False
        threading.Thread(target=self._run, name="watched environment", daemon=True).start()
        self._ask(lambda: setattr(self, "_batch", EnvBatch([env_fn], [0])), "start_timeout")

    def call(self, name, *args):
        """As in `EnvBatch`."""
        return self._ask(lambda: self._batch.call(name, *args), "step_timeout")

    def close(self):
        """Closes the environment, and ends the thread, unless it hangs."""
        try:
            if not self._is_lost:
                self._ask(self._batch.close, "step_timeout")
        finally:
            self._calls.put(None)

    def _ask(self, function, limit):
        self._calls.put(function)
        seconds = getattr(self._settings, limit)
        try:
            result, error = self._replies.get(timeout=seconds)
        except queue.Empty:
            self._is_lost = True
            raise WorkerError(f"the environment did not answer within {limit}={seconds:g} s") from None
        if error is not None:
            raise error
        return result

    def _run(self):
        while (function := self._calls.get()) is not None:
            try:
                self._replies.put((function(), None))
            except BaseException as error:  # raised where it is waited for
                self._replies.put((None, error))
