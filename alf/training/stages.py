# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StageMeter: measures the time that threads spend in each stage, and finds the bottleneck.

docs/metrics.md has the names and rules.
"""

import numpy as np

from alf.drivers.stage_clock import (
    ASK,
    HAND_OVER,
    INFERENCE,
    LOG,
    RECEIVE,
    STEP,
    STORE,
    TRAIN,
    WAIT,
    Spent,
    subtract,
)

_NO_WAIT = 0.05  # a share of time: a thread that waits for less counts as always busy
_TIMED = STEP, ASK, HAND_OVER, INFERENCE, RECEIVE, WAIT  # stages with a mean duration in the figures


class StageMeter:
    """Measures the stages of a driver's threads between two calls of `measure`.

    A stage counts when it ends, so whole stages are measured. If a thread has ended no stage, its last
    figures stay, so that curves have no gaps.

    Args:
        clocks: `StageClocks` of the driver.
        count_updates: callable () -> int, the number of updates so far.
        min_seconds: float, the shortest time to measure. An earlier call returns the last figures, because a
            few train iterations say little about the stages.

    Attributes:
        bottleneck: text from `find_bottleneck`; "" before the first `measure`.
        shares: dict by group of dicts by stage of floats: the share of time, averaged over threads of the
            group.
    """

    def __init__(self, clocks, count_updates, min_seconds=0.0):
        self._clocks = clocks
        self._count_updates = count_updates
        self._min_seconds = min_seconds
        self.bottleneck, self.shares, self._seconds = "", {}, {}
        self._values, self._collects = {}, True
        self._before, self._updates = self._read(), count_updates()

    def measure(self, collects=True):
        """Returns the figures to show, a dict by name of floats and of the bottleneck, a text.

        `collects` is whether the driver runs. If not, there are only figures of the learner.
        """
        now, clock = self._read(), self._clocks.learner
        # By the learner's clock, which ends stages in every iteration: other threads may be in a long one.
        is_short = _add_up(now[clock]) - _add_up(self._before[clock]) < self._min_seconds
        if self._values and collects == self._collects and is_short:
            return self._values
        self._collects = collects
        before, updates = self._before, self._updates
        self._before, self._updates = now, self._count_updates()
        groups = self._clocks.by_group()
        groups = groups if collects else {"learner": groups["learner"]}
        self.shares = {group: shares for group, shares in self.shares.items() if group in groups}
        for group, clocks in groups.items():
            spent = [subtract(self._before[clock], before.get(clock, {})) for clock in clocks]
            spent = [stages for stages in spent if _add_up(stages) > 0]
            if spent:
                # A stage of another thread, which has ended none since, is 0 and stays: no gap in its curve.
                earlier = dict.fromkeys(self.shares.get(group, ()), 0.0)
                self.shares[group] = {**earlier, **_mean_shares(spent)}
                self._seconds[group] = {**self._seconds.get(group, {}), **_mean_seconds(spent)}
            if group == "learner" and spent and self._updates > updates:
                seconds = spent[0].get(TRAIN, Spent()).seconds
                self._seconds[group]["update"] = seconds / (self._updates - updates)
        self.bottleneck = find_bottleneck(self.shares)
        figures = {"time_share": self.shares, "time": {g: self._seconds.get(g, {}) for g in groups}}
        values = {
            f"{kind}/{group}/{stage.replace(' ', '_')}": value
            for kind, by_group in figures.items()
            for group, by_stage in by_group.items()
            for stage, value in by_stage.items()
        }
        self._values = {**values, "time/bottleneck": self.bottleneck}
        return self._values

    def restart(self):
        """Starts a new measurement. Earlier figures stay only for threads that end no stage from now on."""
        self.measure()
        # Or the next `measure`, if it came soon, would return the figures from before.
        self._values = {}

    def _read(self):
        # The threads go on meanwhile, so the clocks are not read at the same moment. A share is a part of its
        # own clock's time, so it does not matter.
        return {clock: clock.read() for clocks in self._clocks.by_group().values() for clock in clocks}


def find_bottleneck(shares):
    """Finds the part of a run that limits its speed.

    Args:
        shares: dict by group of dicts by stage, as `StageMeter.shares`; it must have the group "learner".

    Returns:
        "balanced", "learner", "storing", "trainer", "collectors", "environments", "actors", "metrics",
        "hand-overs" or "driver". docs/metrics.md has the rules.
    """
    learner, environments = shares["learner"], shares.get("environments")
    # Where nothing collects, as before and after collection, the learner alone sets the speed. So the other
    # side counts as waiting all the time.
    waits = [shares[group].get(HAND_OVER, 0.0) for group in ("environments", "collectors") if group in shares]
    sampling_waits, learner_waits = np.mean(waits) if waits else 1.0, learner.get(WAIT, 0.0)
    if max(sampling_waits, learner_waits) < _NO_WAIT:
        return "balanced"
    # The side that waits less is the slower one; its largest part is the bottleneck.
    if learner_waits <= sampling_waits:
        parts = {"learner": learner.get(TRAIN, 0.0), "storing": learner.get(STORE, 0.0)}
        parts["trainer"] = 1 - learner_waits - sum(parts.values())
    elif environments is None:
        return "collectors"
    else:
        # Without actors the threads of the environments infer themselves.
        inference = shares.get("actors", environments).get(INFERENCE, 0.0)
        parts = {
            "environments": environments.get(STEP, 0.0),
            "actors": inference,
            "metrics": environments.get(LOG, 0.0),
        }
        parts["hand-overs"] = max(environments.get(ASK, 0.0) - inference, 0.0)
        parts["driver"] = 1 - environments.get(HAND_OVER, 0.0) - sum(parts.values())
    return max(parts, key=parts.get)


def _add_up(stages):
    return sum(spent.seconds for spent in stages.values())


def _mean_shares(spent):
    """Returns the mean share of each stage over threads; `spent` is a list of dicts of `Spent` by stage."""
    totals = [_add_up(stages) for stages in spent]
    names = dict.fromkeys(stage for stages in spent for stage in stages)
    return {
        name: float(np.mean([s.get(name, Spent()).seconds / total for s, total in zip(spent, totals)]))
        for name in names
    }


def _mean_seconds(spent):
    """Returns the mean duration of each timed stage that has ended, over all threads."""
    sums = {name: np.sum([stages.get(name, Spent()) for stages in spent], axis=0) for name in _TIMED}
    return {name: float(seconds / times) for name, (seconds, times) in sums.items() if times}
