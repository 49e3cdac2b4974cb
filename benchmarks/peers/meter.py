# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures a training loop of a peer. Needs nothing but Python."""

import json
import os
import pathlib
import time


def process_seconds():
    """Returns the seconds since this process began.

    Not by psutil's wall time of the beginning: the kernel gives the time of the boot in whole seconds.
    """
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


class Meter:
    """Counts the steps and updates of a loop, after a warm-up of a fifth of the seconds.

    The warm-up begins with the first update, as in `benchmarks.throughput`.
    """

    def __init__(self, seconds):
        self._seconds = seconds
        self._to_first = self._warm_at = self._start = None
        self._steps = self._updates = 0

    def count(self, steps, updates):
        """Adds steps that were trained on, and updates. Returns whether to go on."""
        now = time.monotonic()
        if self._to_first is None and updates:
            self._to_first = process_seconds()
            self._warm_at = now + self._seconds / 5
        if self._start is not None:
            self._steps += steps
            self._updates += updates
            self._end = now
            return now < self._start + self._seconds
        if self._warm_at is not None and now >= self._warm_at:
            self._start = now
        return True

    def count_total(self, steps, updates):
        """As `count`, from the totals so far."""
        before, self._total = getattr(self, "_total", (0, 0)), (steps, updates)
        return self.count(steps - before[0], updates - before[1])

    def report(self, **settings):
        """Prints one JSON line."""
        seconds = self._end - self._start
        figures = {
            "steps_per_second": self._steps / seconds,
            "updates_per_second": self._updates / seconds,
            "seconds_to_first_update": self._to_first,
        }
        print(json.dumps({**figures, **settings}), flush=True)
