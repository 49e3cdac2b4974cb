# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ProgressBar: shows the progress of a run as a bar on a terminal, or as lines in the log."""

import bisect
import collections
import shutil
import sys
import time

from absl import logging
from tqdm import tqdm

from alf.training.stop_criteria import estimate_end

_LOG_SECONDS = 5.0  # between two lines
_WINDOWS = {"10s": 10.0, "1min": 60.0, "5min": 300.0}


class Throughput:
    """Measures steps per second over the last 10 seconds, minute and 5 minutes.

    Args:
        clock: callable () -> seconds.
    """

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._points = collections.deque([(clock(), 0)])
        self._counted = None  # the count in the last call of `count_up_to`

    def add(self, steps):
        """Adds `steps` that were made since the last call."""
        now = self._clock()
        total = self._points[-1][1] + steps
        # At most one point per quarter of a second is kept: 1,200 points in 5 minutes.
        if len(self._points) > 1 and now - self._points[-2][0] < 0.25:
            self._points.pop()
        self._points.append((now, total))
        # The second point and not the first: one point from before the longest window stays, where its rate
        # begins.
        while now - self._points[1][0] > max(_WINDOWS.values()):
            self._points.popleft()

    def count_up_to(self, count):
        """Adds the steps that a counter has made since the last call; the first call adds none."""
        # The counter of a continued run begins with the steps of the processes before, which were not made
        # just now.
        self.add(0 if self._counted is None else count - self._counted)
        self._counted = count

    def rates(self):
        """Returns steps per second, a dict of floats by window. In a short run a window is the whole run."""
        end, total = self._clock(), self._points[-1][1]
        rates = {}
        for name, window in _WINDOWS.items():
            # From the newest point that is as old as the window; in a short run from the first one.
            after = bisect.bisect_right(self._points, end - window, key=lambda point: point[0])
            start, before = self._points[max(0, after - 1)]
            rates[name] = (total - before) / max(end - start, 1e-9)
        return rates


class ProgressBar:
    """Shows a run's progress on stderr: four times a second on a terminal, else every 5 seconds.

    The fraction and the remaining time belong to the stop criterion that comes first, or to the end of the
    present phase if it comes earlier. On a terminal the last state stays.

    Args:
        throughput, collected: `Throughput`s of the steps learned from, and of the steps of the environments.
        stop_criteria: `StopCriteria`.
        episodes: `EpisodeFigures`.
        stages: `StageMeter` with the bottleneck to show.
    """

    def __init__(self, throughput, collected, stop_criteria, episodes, stages):
        self._throughput, self._collected = throughput, collected
        self._stages = stages
        self._stop_criteria = stop_criteria
        self._episodes = episodes
        self._started = self._shown = time.monotonic()
        self._phase = None
        # `Position`s: the first one of the present phase, at or after the first train step, and the newest
        # one.
        self._first = self._position = None
        self._summary = {}
        columns, lines = shutil.get_terminal_size()  # never 0: with 0, tqdm would show nothing
        # With `disable=None` tqdm shows a bar only on a terminal. A closed stderr is None.
        is_off = True if sys.stderr is None else None
        self._bar = tqdm(bar_format="{desc}", ncols=columns, nrows=lines, disable=is_off)
        self._interval = _LOG_SECONDS if self._bar.disable else 0.25
        # A filter of the handler is called just before a line is written, in whichever thread writes it.
        # `clear` takes tqdm's lock, as drawing does, so a line of another thread never lands in the middle of
        # the bar.
        logging.get_absl_handler().addFilter(self._clear_line)

    def update(self, position, summary, phase=None):
        """Shows a new state, unless the last one was shown a moment ago.

        Args:
            position: `Position` of the run.
            summary: dict from `Learner.train`; empty keeps the values of the last one.
            phase: `alf.training.collection.Phase` of the run. None: only stop criteria end the run.
        """
        self._position = position
        # A phase has its own speed, so estimates start again.
        if phase is not self._phase:
            self._phase, self._first = phase, None
        self._summary = summary or self._summary
        if self._first is None and position.max_seconds > 0:
            self._first = position
        now = time.monotonic()
        if now - self._shown < self._interval:
            return
        self._shown = now
        if self._bar.disable:
            logging.info("%s", self.line())
        else:
            self._draw()

    def line(self):
        """Returns a line with returns, episodes, steps, steps/s, bottleneck, policy lag, the time left."""
        bottleneck = self._stages.bottleneck
        rates = " / ".join(f"{rate:,.0f}" for rate in self._throughput.rates().values())
        _, left, what_ends = self._estimate_end()
        policies = self._describe_policies()
        return (
            f"{self._describe_return()}{policies and f' | {policies}'} | episodes {self._episodes.count():,} "
            f"| env steps {self._position.num_env_steps:,} | steps/s {rates} (10 s / 1 min / 5 min) "
            f"| collected/s {self._collected.rates()['10s']:,.0f} "
            f"{bottleneck and f'| bottleneck {bottleneck} '}| {self._describe_lag()}"
            f"{left and f' | {left} {what_ends}'}"
        )

    def close(self):
        """Shows the last state and ends the bar; may be repeated."""
        if not self._bar.disable and self._position is not None:
            self._draw()
        self._bar.close()
        logging.get_absl_handler().removeFilter(self._clear_line)

    def _draw(self):
        fraction, left, _ = self._estimate_end()
        self._bar.bar_format = "{desc}" if fraction is None else "{percentage:3.0f}%|{bar}| {desc}"
        self._bar.n, self._bar.total = fraction or 0.0, 1.0
        elapsed = tqdm.format_interval(time.monotonic() - self._started)
        rate = f"{self._throughput.rates()['10s']:,.0f} steps/s"
        policies = self._describe_policies()
        rate += self._stages.bottleneck and f", bottleneck {self._stages.bottleneck}"
        self._bar.set_description_str(
            f"{self._describe_return()} {self._position.num_env_steps:,} steps "
            # At the end, because the terminal may be too narrow for all policies.
            f"[{elapsed}{left and f'<{left}'}, {rate}] {self._describe_lag()}{policies and f' {policies}'}"
        )

    def _estimate_end(self):
        """Returns the fraction done or None, the remaining time or "", and the text that names the end."""
        if self._first is None:
            return None, "", ""
        ends = [(self._stop_criteria.estimate_end(self._first, self._position), "left")]
        if self._phase is not None:
            ends.append((estimate_end(self._phase.end, self._first, self._position), self._phase.what_ends))
        ends = [(end, what) for end, what in ends if end is not None]
        if not ends:
            return None, "", ""
        (fraction, seconds), what_ends = min(ends, key=lambda item: item[0][1])
        return fraction, tqdm.format_interval(seconds), what_ends

    def _describe_return(self):
        value, age = self._episodes.describe_return()
        return f"{value} ({age})" if age else value

    def _describe_policies(self):
        return ", ".join(f"{name} {average}" for name, average in self._episodes.describe_policies().items())

    def _describe_lag(self):
        if not self._summary:
            return "no update yet"
        lag = [float(self._summary[f"policy_lag_{k}"]) for k in ("min", "mean", "max")]
        return "lag {:.0f}/{:.1f}/{:.0f}".format(*lag)

    def _clear_line(self, _):
        """Clears the bar before a line of the log. The next `update` draws it again below the line."""
        self._bar.clear()
        return True
