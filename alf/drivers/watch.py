# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Watch: a thread that looks from time to time whether something takes too long."""

import abc
import faulthandler
import threading
import time

from alf.core.running_time import stopped_time

_STDERR = 2  # the file descriptor: `sys.stderr` may have none
_JOIN_SECONDS = 1.0  # for the thread, which may be in the middle of a look


class Watch(threading.Thread, abc.ABC):
    """Calls `look` from time to time. As a context manager it begins with the block and ends with it.

    Args:
        name: the thread's name.
        timeout: the shortest time, in seconds, after which something takes too long.
        wait: callable (seconds) -> bool, which waits so long, and tells whether the watch ends. None: it
            ends with the block.
    """

    def __init__(self, name, timeout, wait=None):
        super().__init__(name=name, daemon=True)
        self._over = threading.Event()
        self._wait, self._interval = wait or self._over.wait, min(1.0, timeout / 5)
        # When this process went on after it was stopped, by Ctrl-Z for example: calls count from then on.
        self._resumed_at = float("-inf")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join(_JOIN_SECONDS)

    def run(self):
        stopped = stopped_time()
        while not self._wait(self._interval):
            now, before, stopped = time.monotonic(), stopped, stopped_time()
            if stopped > before:
                self._resumed_at = now
            self.look(now)

    @abc.abstractmethod
    def look(self, now):
        """Looks at the time `now`, in seconds of `time.monotonic`."""


def print_stacks():
    """Prints the stacks of all threads to the standard error stream."""
    faulthandler.dump_traceback(_STDERR, all_threads=True)
