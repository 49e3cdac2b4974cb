# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StageClock: where the time of a thread goes. docs/metrics.md says what is made of it."""

import contextlib
import dataclasses
import time
from typing import NamedTuple

# What a thread of environments does. HAND_OVER: the learn queue is full, or in lockstep the learner trains.
STEP, ASK, HAND_OVER = "step", "waiting for actor", "waiting for learner"
LOG, REST = "waiting for metrics", "rest"
# What an actor does. In the synchronous driver the thread of the environments makes the inference.
INFERENCE, IDLE = "inference", "waiting for environments"
# What the thread of collectors does, beside HAND_OVER.
RECEIVE = "waiting for collectors"
# What the thread that collects and trains does. STORE is all of a `collect` but waiting. A trainer adds more.
WAIT, STORE, COPY, TRAIN = "waiting for experience", "storing experience", "copying weights", "training"

_NOTHING = 0.0, 0  # seconds, times


class StageClock:
    """Measures how long a thread was in each of its stages, and how often.

    One thread calls `lap`; any thread may call the others. A stage counts when it ends.

    Args:
        get_time: callable () -> seconds.
    """

    def __init__(self, get_time=time.monotonic):
        self._get_time = get_time
        self._stages = {}  # (seconds, times) by stage
        self._lapped = get_time()

    def lap(self, stage, parts=(), times=1):
        """Counts the time since the last lap for a stage.

        Args:
            stage: text.
            parts: triples (stage, seconds, times) of what was done meanwhile, which are not counted for
                `stage`.
            times: int; how often the thread was in `stage`.

        Returns:
            the time now.
        """
        # On the hot path of the environments, so it calls nothing that it can do without.
        now = self._get_time()
        seconds = now - self._lapped
        self._lapped = now
        if seconds < 0.0:  # another thread has dropped time after `now`
            seconds = 0.0
        for part, part_seconds, part_times in parts:
            # They are measured by another clock, which may be set back.
            part_seconds = min(max(part_seconds, 0.0), seconds)
            seconds -= part_seconds
            self._add(part, part_seconds, part_times)
        stages = self._stages
        before = stages.get(stage, _NOTHING)
        stages[stage] = before[0] + seconds, before[1] + times
        return now

    @contextlib.contextmanager
    def stage(self, name):
        """Context whose time counts for a stage; the time since the last lap counts for REST."""
        self.lap(REST)
        yield
        self.lap(name)

    def drop(self):
        """Drops the time since the last lap; from any thread.

        If the thread laps meanwhile, the stage may count as it was.
        """
        self._lapped = self._get_time()

    def read(self):
        """Returns what was counted so far, a dict of `Spent` by stage."""
        return {stage: Spent(*spent) for stage, spent in self._stages.copy().items()}

    def _add(self, stage, seconds, times):
        before = self._stages.get(stage, _NOTHING)
        self._stages[stage] = before[0] + seconds, before[1] + times


class Spent(NamedTuple):
    """What a thread has spent in a stage."""

    seconds: float = 0.0
    times: int = 0


def subtract(after, before):
    """What was spent between two readings of a `StageClock`, a dict of `Spent` by stage."""
    pairs = {stage: (spent, before.get(stage, Spent())) for stage, spent in after.items()}
    return {stage: Spent(a.seconds - b.seconds, a.times - b.times) for stage, (a, b) in pairs.items()}


@dataclasses.dataclass
class StageClocks:
    """The `StageClock`s of a driver's threads."""

    environments: list = dataclasses.field(default_factory=list)
    actors: list = dataclasses.field(default_factory=list)
    collectors: list = dataclasses.field(default_factory=list)
    # Of the thread that collects and trains.
    learner: StageClock = dataclasses.field(default_factory=StageClock)
    takes_turns: bool = False  # whether one environment steps at a time

    def by_group(self):
        """Dict of lists of clocks by the name of their group, without groups that are empty."""
        groups = {name: getattr(self, name) for name in ("environments", "actors", "collectors")}
        return {name: clocks for name, clocks in {**groups, "learner": [self.learner]}.items() if clocks}

    def drop(self):
        """Drops what the stages that last have taken so far, see `StageClock.drop`."""
        for clocks in self.by_group().values():
            for clock in clocks:
                clock.drop()
