# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""WatchedThread: environments in a thread of their own in this process, with time-outs."""

import functools
import queue
import threading

from alf.config.registry import run_in_turn
from alf.core.running_time import running_time
from alf.workers.worker import WorkerError


class WatchedThread:
    """B Gymnasium environments with the interface of `EnvBatch`, which live in one thread of this process.

    The thread makes, resets, steps, renders and closes them. So it suits environments that are bound to a
    thread, and those that cloudpickle cannot pickle for a `WorkerPool`. But a thread that hangs stays until
    the process ends, and a crash ends the process.

    Args:
        make_batch: callable without arguments -> `EnvBatch`, which the thread calls.
        settings: `WorkerSettings`, of which only time-outs are used. Where `restart_on_error` is set, a step
            may make the environments anew and has `start_timeout` more.

    Raises:
        WorkerError: also from all methods, if a call takes too long. Exceptions of the environments pass
            through.
    """

    def __init__(self, make_batch, settings):
        self._calls, self._replies = queue.SimpleQueue(), queue.SimpleQueue()
        self._settings, self._ended, self._num_calls = settings, False, 0
        # A daemon, because a thread that hangs must not keep the process from ending.
        threading.Thread(target=run_in_turn(self._run), name="environments", daemon=True).start()
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
                self._ask(self._batch.close, limit="close_timeout")
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
        self._num_calls += 1
        self._calls.put((self._num_calls, functools.partial(function, *args)))
        seconds = getattr(self._settings, limit)
        if limit == "step_timeout" and self._settings.restart_on_error:
            seconds, limit = seconds + self._settings.start_timeout, "step_timeout + start_timeout"
        deadline, number = running_time() + seconds, None
        while number != self._num_calls:  # after Ctrl-C there is also the reply to an earlier call
            try:
                number, result, error = self._replies.get(timeout=max(deadline - running_time(), 0.0))
            except queue.Empty:
                if running_time() >= deadline:  # and not only because this process was stopped meanwhile
                    self._end()
                    message = f"the environment did not answer within {limit}={seconds:g} s"
                    raise WorkerError(message) from None
        if error is not None:
            raise error
        return result

    def _run(self):
        while (call := self._calls.get()) is not None:
            number, function = call
            try:
                self._replies.put((number, function(), None))
            except BaseException as error:  # `_ask` raises it in the caller's thread
                self._replies.put((number, None, error))
