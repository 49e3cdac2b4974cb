# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Shows the progress of a run: a bar on a terminal, or else a line of the log every few seconds."""

import bisect
import collections
import math
import shutil
import time

from absl import logging
from tqdm import tqdm

_WINDOWS = {"10s": 10.0, "1min": 60.0, "5min": 300.0}


class Throughput:
    """Measures steps per second over the last 10 seconds, minute and 5 minutes. `clock` returns seconds."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._points = collections.deque([(clock(), 0)])

    def add(self, steps):
        """Adds `steps` that were made since the last call."""
        now = self._clock()
        total = self._points[-1][1] + steps
        # At most one point per quarter of a second is kept: 1,200 points in 5 minutes.
        if len(self._points) > 1 and now - self._points[-2][0] < 0.25:
            self._points.pop()
        self._points.append((now, total))
        while now - self._points[1][0] > max(_WINDOWS.values()):
            self._points.popleft()

    def rates(self):
        """Returns steps per second, a dict by window; a window longer than the run is the whole run."""
        end, total = self._clock(), self._points[-1][1]
        rates = {}
        for name, window in _WINDOWS.items():
            after = bisect.bisect_right(self._points, end - window, key=lambda point: point[0])
            start, before = self._points[max(0, after - 1)]
            rates[name] = (total - before) / max(end - start, 1e-9)
        return rates


class ProgressBar:
    """Shows a run's progress on stderr, every 5 seconds, on a terminal four times a second.

    Args:
        throughput: the `Throughput` of the run.
        total_steps: number of environment steps at which the run ends, or None.
        initial_steps: number of environment steps of earlier runs.
    """

    def __init__(self, throughput, total_steps=None, initial_steps=0):
        self._throughput = throughput
        self._shown = time.monotonic()
        columns = shutil.get_terminal_size().columns  # never 0: with 0, tqdm would show nothing
        # With `disable=None` there is a bar on a terminal alone.
        settings = dict(unit="step", unit_scale=True, ncols=columns, disable=None)
        self._bar = tqdm(total=total_steps, initial=initial_steps, **settings)
        self._interval = 5.0 if self._bar.disable else 0.25

    def update(self, env_steps, metrics, summary):
        """Shows the environment steps learned from, results of metrics by name, the last summary of `train`.

        It does nothing if the last time is too recent.
        """
        now = time.monotonic()
        if now - self._shown < self._interval:
            return
        self._shown = now
        if self._bar.disable:
            logging.info("%s", self.line(env_steps, metrics, summary))
            return
        self._bar.n = env_steps
        self._bar.set_postfix_str(" ".join(_format(metrics, summary)))

    def line(self, env_steps, metrics, summary):
        """Returns a line with steps, steps/s over 10 s / 1 min / 5 min, return, episodes and policy lag."""
        rates = " / ".join(f"{rate:,.0f}" for rate in self._throughput.rates().values())
        average, lag = _format(metrics, summary)
        return (
            f"env steps {env_steps:,} | steps/s {rates} (10 s / 1 min / 5 min) | {average} "
            f"| episodes {metrics['NumberOfEpisodes']:,} | {lag}"
        )

    def close(self):
        self._bar.close()


def _format(metrics, summary):
    """The average return and the policy lag as texts."""
    average = metrics["AverageReturn"]
    average = "return -" if math.isnan(average) else f"return {average:.1f}"
    if not summary:
        return average, "no update yet"
    lag = [float(summary[f"policy_lag_{k}"]) for k in ("min", "mean", "max")]
    return average, "lag {:.0f}/{:.1f}/{:.0f}".format(*lag)
