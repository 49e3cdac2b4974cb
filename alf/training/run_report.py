# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunReport, the table at the end of a run; figures of its episodes; and how numbers are shown."""

import math
import time

from alf.drivers.stage_clock import REST, subtract
from alf.training.stages import StageMeter

_BEFORE = "until the first train step"
_OLD_SECONDS, _OLD_EPISODES = 60.0, 5


class RunReport:
    """Measures the counts of a run, and its time in each stage.

    Args:
        count: callable () -> dict of ints by name, among them "env steps" and "updates". They count all runs
            in the root_dir.
        episodes: `EpisodeFigures`.
        clocks: `StageClocks` of the driver.
    """

    def __init__(self, count, episodes, clocks):
        self._count = count
        self._episodes = episodes
        self._clocks = clocks
        clocks.learner.lap(REST)  # the time before this run is not part of it
        # Only differences to these are shown: counters go on from the processes before, and the clock has
        # counted since the driver was made.
        self._start, self._start_readings = count(), clocks.learner.read()
        self._first = None  # the counts at the first train step
        self._seconds_before = 0.0  # the time until then
        self._meter = None  # `StageMeter` from then on

    def note_first_train_step(self):
        """Counts all time so far as one stage, the start of the run, in which graphs are compiled."""
        # Before the new readings, from which `_read_seconds` counts afterwards.
        self._seconds_before = sum(self._read_seconds().values())
        self._start_readings = self._clocks.learner.read()
        self._first = self._count()
        self._clocks.drop()  # present stages, such as the wait of an environment, lasted through the start
        self._meter = StageMeter(self._clocks, lambda: self._count()["updates"])

    def note_last_train_step(self, collects):
        """Ends the measurement of the stages. `collects` is False if the driver has stopped before."""
        if self._meter is not None:
            self._meter.measure(collects)

    def _read_seconds(self):
        spent = subtract(self._clocks.learner.read(), self._start_readings)
        seconds = {name: x.seconds for name, x in spent.items() if x.seconds}
        return {_BEFORE: self._seconds_before, **seconds} if self._seconds_before else seconds

    def format(self):
        """Makes the table, a text of several lines."""
        counts, seconds_of = self._count(), self._read_seconds()
        total = sum(seconds_of.values())
        rows = [("", "this run", "all runs")]
        rows += [(name, f"{n - self._start[name]:,}", f"{n:,}") for name, n in counts.items()]
        rows += [("seconds", f"{total:,.1f}", "")]
        for name, seconds in sorted(seconds_of.items(), key=lambda item: -item[1]):
            rows.append((f"  {name}", f"{seconds:,.1f}", f"{seconds / max(total, 1e-9):.1%}"))
        if self._first is not None:
            steps, seconds = counts["env steps"] - self._first["env steps"], total - self._seconds_before
            rows.append(("env steps/s since first train step", f"{steps / max(seconds, 1e-9):,.0f}", ""))
        rows += self._describe_stages()
        rows += self._episodes.list_rows()
        return "\n".join(f"{name:36}{a:>14}  {b:>14}".rstrip() for name, a, b in rows)

    def _describe_stages(self):
        """Returns the rows of the bottleneck, and of the driver's threads since the first train step."""
        if self._meter is None or not self._meter.bottleneck:
            return []
        rows = [("bottleneck", self._meter.bottleneck, "")]
        for group, shares in self._meter.shares.items():
            if group != "learner":  # its seconds are rows above
                rows += [(f"  {group}: {stage}", "", f"{share:.1%}") for stage, share in shares.items()]
        return rows


class EpisodeFigures:
    """Describes the last episodes, and marks their return as old if no episode has ended for long.

    It is old after a minute, or after 5 times the mean time between two ends of episodes, if that is longer.

    Args:
        metrics: dict of the driver's metrics by name.
        clock: callable () -> seconds.
        policies: names of the policies that are described, too, if there are several.
    """

    def __init__(self, metrics, clock=time.monotonic, policies=()):
        self._metrics, self._policies = metrics, policies
        self._clock = clock
        self._initial = self._num_episodes = self.count()
        self._start = self._ended = clock()

    def count(self):
        """Returns the number of episodes that have ended, over all runs in the root_dir."""
        return self._metrics["NumberOfEpisodes"].result()

    def list_rows(self):
        """Returns rows of the table: the metrics of the last episodes by their names, and their age."""
        names, (_, age) = ["BalancedReturn", "AverageReturn", "AverageEpisodeLength"], self.describe_return()
        names[2:2] = [f"policies/{policy}/{name}" for policy in self._policies for name in names[:2]]
        values = [format_number(self._metrics[name].result()) for name in names]
        return [(name, x, age * (x != "-")) for name, x in zip(names, values, strict=True)]

    def describe_policies(self):
        """Returns the metric of `describe_return` of each of several policies, a dict of texts by name."""
        metrics = {name: self._metrics[f"policies/{name}/{self._choose()}"] for name in self._policies}
        return {name: format_number(metric.result()) for name, metric in metrics.items()}

    def describe_return(self):
        """Returns two texts: a metric, such as "BalancedReturn 21.3"; and its age, "over 2 min old", or "".

        It is `AverageReturn` until `BalancedReturn` has a value. An episode counts as ended at the next call,
        so call this often.
        """
        now, num_episodes = self._clock(), self.count()
        if num_episodes > self._num_episodes:
            self._num_episodes, self._ended = num_episodes, now
        # Long episodes end seldom, and a return is not old only because none has ended for a minute.
        between = (self._ended - self._start) / max(1, num_episodes - self._initial)
        name = self._choose()
        age, value = now - self._ended, format_number(self._metrics[name].result())
        if age <= max(_OLD_SECONDS, _OLD_EPISODES * between) or value == "-":
            return f"{name} {value}", ""
        old = f"over {age // 3600:.0f} h old" if age >= 3600 else f"over {age // 60:.0f} min old"
        return f"{name} {value}", old

    def _choose(self):
        return "AverageReturn" if math.isnan(self._metrics["BalancedReturn"].result()) else "BalancedReturn"


def format_number(x):
    """Formats a number with 3 significant digits, a large one with all digits: 0.74, 21.3, 1,234; NaN: -."""
    if math.isnan(x):
        return "-"
    return f"{x:,.0f}" if 999.5 <= abs(x) < 1e9 else f"{x:.3g}"
