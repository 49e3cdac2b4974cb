# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a run shows to people: numbers, figures of its episodes, and RunReport, the table at its end."""

import math
import time

_BEFORE = "until the first train step"
_OLD_SECONDS, _OLD_EPISODES = 60.0, 5


class RunReport:
    """Measures a run: what was done, and where the time went.

    Args:
        count: callable () -> dict of ints by name, which count all runs in the root_dir; one is "env steps".
        episodes: `EpisodeFigures`.
        clock: callable () -> seconds.
    """

    def __init__(self, count, episodes, clock=time.monotonic):
        self._count = count
        self._episodes = episodes
        self._clock = clock
        self._start = count()
        self._first = None  # the counts at the first train step
        self._seconds = {}
        self._lapped = clock()

    def lap(self, name):
        """Counts the time since the last lap under a name; returns the time now."""
        now = self._clock()
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._lapped
        self._lapped = now
        return now

    def note_first_train_step(self):
        """Counts all time so far as that until the first train step: it is spent to start and to compile."""
        self._seconds = {_BEFORE: sum(self._seconds.values())}
        self._first = self._count()

    def format(self):
        """Makes the table, a text of several lines."""
        counts, total = self._count(), sum(self._seconds.values())
        rows = [("", "this run", "all runs")]
        rows += [(name, f"{n - self._start[name]:,}", f"{n:,}") for name, n in counts.items()]
        rows += [("seconds", f"{total:,.1f}", "")]
        for name, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            rows.append((f"  {name}", f"{seconds:,.1f}", f"{seconds / max(total, 1e-9):.1%}"))
        if self._first is not None:
            steps, seconds = counts["env steps"] - self._first["env steps"], total - self._seconds[_BEFORE]
            rows.append(("env steps/s since first train step", f"{steps / max(seconds, 1e-9):,.0f}", ""))
        rows.append(("average return", *self._episodes.describe_return()))
        rows.append(("average episode length", self._episodes.describe_length(), ""))
        return "\n".join(f"{name:36}{a:>14}  {b:>14}".rstrip() for name, a, b in rows)


class EpisodeFigures:
    """Describes the last episodes, and whether the average return is old because none has ended for long.

    It is old after a minute, or after 5 times the mean time between two ends in this run, if that is longer.

    Args:
        metrics: dict by name of the driver's metrics.
        clock: callable () -> seconds.
    """

    def __init__(self, metrics, clock=time.monotonic):
        self._metrics = metrics
        self._clock = clock
        self._initial = self._num_episodes = self.count()
        self._start = self._ended = clock()

    def count(self):
        """The number of episodes that have ended in all runs."""
        return self._metrics["NumberOfEpisodes"].result()

    def describe_length(self):
        """The average number of steps."""
        return format_number(self._metrics["AverageEpisodeLength"].result())

    def describe_return(self):
        """Returns the average return, "21.3" say, and "over 2 min old" or "". Call it often."""
        now, num_episodes = self._clock(), self.count()
        if num_episodes > self._num_episodes:
            self._num_episodes, self._ended = num_episodes, now
        between = (self._ended - self._start) / max(1, num_episodes - self._initial)
        age, average = now - self._ended, format_number(self._metrics["AverageReturn"].result())
        if age <= max(_OLD_SECONDS, _OLD_EPISODES * between) or average == "-":
            return average, ""
        return average, f"over {age // 3600:.0f} h old" if age >= 3600 else f"over {age // 60:.0f} min old"


def format_number(x):
    """Shows 3 significant digits of a number, all digits of a large one: 0.74, 21.3, 1,234; - for NaN."""
    if math.isnan(x):
        return "-"
    return f"{x:,.0f}" if 999.5 <= abs(x) < 1e9 else f"{x:.3g}"
