# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Lost processes, and RestartLimit: how often these, and environments that raise, are replaced."""

import collections
import time

from absl import logging

from alf.errors import EnvError


class LostProcessError(EnvError):
    """A process has died, or does not answer. Its owner may replace it."""


class RestartLimit:
    """Counts restarts within a sliding window of time, and logs them.

    Args:
        max_restarts: int, how many restarts are allowed within the window.
        period: float, the length of the window in seconds.

    Attributes:
        count: int, all restarts so far.
    """

    def __init__(self, max_restarts, period):
        self.count = 0
        self._max_restarts, self._period = max_restarts, period
        self._times = collections.deque()  # the times of the restarts within the window

    def count_restart(self, loss, error_class):
        """Counts a restart after `loss`, a text or an error; raises `error_class` if there are too many.

        Where the error has a cause, the log shows its traceback.
        """
        # Without a lock: workers are counted under the lock of their pool, and collectors in one thread.
        times, now = self._times, time.monotonic()
        while times and times[0] <= now - self._period:
            times.popleft()
        limit, cause = self._max_restarts, getattr(loss, "__cause__", None)
        if len(times) >= limit:
            raise error_class(f"{loss}; max_restarts={limit} is reached within {self._period:g} s") from cause
        times.append(now)
        self.count += 1
        text = "%s: restart %d of %d within %g s"
        logging.warning(text, loss, len(times), limit, self._period, exc_info=cause)
