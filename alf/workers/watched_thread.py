# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WatchedThread: one environment in a thread of this process, with time-outs."""

import queue
import threading

from alf.workers.env_batch import EnvBatch
from alf.workers.worker import WorkerError


class WatchedThread:
    """Calls methods of one environment with time-outs, for environments that cloudpickle cannot pickle.

    It replaces a `WorkerPool` of one environment, but a thread that hangs stays until the process ends, and a
    crash ends the process.

    Args:
        env_fn: callable without arguments -> `gymnasium.Env` or TF-Agents `PyEnvironment`.
        settings: `WorkerSettings`; only the time-outs are used.

    Raises:
        WorkerError: if a call takes too long. Exceptions of the environment pass through.
    """

    def __init__(self, env_fn, settings):
        self._calls, self._replies = queue.SimpleQueue(), queue.SimpleQueue()
        self._settings, self._is_lost = settings, False
        # A daemon, because a thread that hangs must not keep the process from ending.
        threading.Thread(target=self._run, name="watched environment", daemon=True).start()
        # Made in the thread that calls it later: some environments, with a window for example, work only
        # there.
        self._ask(lambda: setattr(self, "_batch", EnvBatch([env_fn], [0])), "start_timeout")

    def call(self, name, *args):
        """Calls the method `name` of the environment and returns a list with its result."""
        return self._ask(lambda: self._batch.call(name, *args), "step_timeout")

    def close(self):
        """Closes the environment and ends the thread, unless it hangs."""
        try:
            if not self._is_lost:
                self._ask(self._batch.close, "step_timeout")
        finally:
            self._calls.put(None)  # also after a loss: if the call returns one day, the thread ends

    def _ask(self, function, limit):
        self._calls.put(function)
        seconds = getattr(self._settings, limit)
        try:
            result, error = self._replies.get(timeout=seconds)
        except queue.Empty:
            # The thread may still reply, and `close` would take that for the reply to its own call.
            self._is_lost = True
            raise WorkerError(f"the environment did not answer within {limit}={seconds:g} s") from None
        if error is not None:
            raise error
        return result

    def _run(self):
        while (function := self._calls.get()) is not None:
            try:
                self._replies.put((function(), None))
            except BaseException as error:  # `_ask` raises it in the caller's thread
                self._replies.put((None, error))
