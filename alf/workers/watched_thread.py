# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WatchedThread: environments in a thread of their own in this process, with time-outs."""

import functools
import queue
import threading

from alf.core.running_time import running_time
from alf.workers.worker import WorkerError


class WatchedThread:
    """B Gymnasium environments with the interface of `EnvBatch`, which live in one thread of this process.

    The thread makes, resets, steps, renders and closes them. So it suits environments that are bound to a
    thread, and those that cloudpickle cannot pickle for a `WorkerPool`. But a thread that hangs stays until
    the process ends, and a crash ends the process.

    Args:
        make_batch: callable without arguments -> `EnvBatch`, which the thread calls.
        settings: `WorkerSettings`, of which only the time-outs are used.

    Raises:
        WorkerError: also from all methods, if a call takes too long. Exceptions of the environments pass
            through.
    """

    def __init__(self, make_batch, settings):
        self._calls, self._replies = queue.SimpleQueue(), queue.SimpleQueue()
        self._settings, self._ended = settings, False
        # A daemon, because a thread that hangs must not keep the process from ending.
        threading.Thread(target=self._run, name="environments", daemon=True).start()
        try:
            # In the thread that steps them later: environments with a window, for example, work only there.
            self._batch = self._ask(make_batch, limit="start_timeout")
        except BaseException:
            self._end()
            raise

    def __getattr__(self, name):
        """Returns an attribute of the `EnvBatch`, or a function that its thread calls."""
        if name == "_batch":  # its constructor has failed
            raise AttributeError(name)
        value = getattr(self._batch, name)
        return functools.partial(self._ask, value) if callable(value) else value

    def dump_stacks(self):
        """Does nothing, as in `EnvBatch`. Any thread may call it, also while the environments hang."""

    def close(self):
        """Closes the environments and ends the thread, unless it hangs. May be called again."""
        if not self._ended:
            try:
                self._ask(self._batch.close)
            finally:
                self._end()

    def _end(self):
        # Also after a loss: if the call returns one day, the thread ends.
        self._ended = True
        self._calls.put(None)

    def _ask(self, function, *args, limit="step_timeout"):
        """Makes the thread call a function; returns its result."""
        if self._ended:
            raise RuntimeError("the thread of the environments has ended")
        self._calls.put(functools.partial(function, *args))
        seconds = getattr(self._settings, limit)
        deadline = running_time() + seconds
        while True:
            try:
                result, error = self._replies.get(timeout=max(deadline - running_time(), 0.0))
                break
            except queue.Empty:
                if running_time() >= deadline:  # and not only because this process was stopped meanwhile
                    # The thread may still reply, and a later call would take that for its own reply.
                    self._end()
                    message = f"the environment did not answer within {limit}={seconds:g} s"
                    raise WorkerError(message) from None
        if error is not None:
            raise error
        return result

    def _run(self):
        while (function := self._calls.get()) is not None:
            try:
                self._replies.put((function(), None))
            except BaseException as error:  # `_ask` raises it in the caller's thread
                self._replies.put((None, error))
