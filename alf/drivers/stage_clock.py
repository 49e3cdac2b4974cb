# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StageClock: measures the stages in which a thread spends its time. docs/metrics.md has the metrics."""

import contextlib
import dataclasses
import time
from typing import NamedTuple

# Stages of a thread of environments. HAND_OVER: the learn queue is full, or in lockstep the learner trains.
STEP, ASK, HAND_OVER = "step", "waiting for actor", "waiting for learner"
LOG, REST = "waiting for metrics", "rest"
# Stages of an actor. In the synchronous driver INFERENCE is a stage of the thread of the environments.
INFERENCE, IDLE = "inference", "waiting for environments"
# A stage of the thread of collectors, beside HAND_OVER.
RECEIVE = "waiting for collectors"
# Stages of the thread that collects and trains. STORE is the rest of `collect`, without waits and copies. A
# trainer adds more stages.
WAIT, STORE, COPY, TRAIN = "waiting for experience", "storing experience", "copying weights", "training"

_NOTHING = 0.0, 0  # seconds, times


class StageClock:
    """Measures how long a thread was in each of its stages, and how often.

    One thread calls `lap`; any thread may call the other methods. A stage counts when it ends.

    Args:
        get_time: callable () -> seconds.

    Attributes:
        longest_step: float, seconds of the longest step of an environment since `take_longest_step`.
    """

    def __init__(self, get_time=time.monotonic):
        self.longest_step = 0.0
        self._get_time = get_time
        self._stages = {}  # (seconds, times) by stage
        self._lapped = get_time()

    def lap(self, stage, parts=(), times=1):
        """Counts the time since the last lap as time in `stage`.

        Args:
            stage: text.
            parts: triples (stage, seconds, times) of other stages within that time. Their seconds are not
                counted for `stage`.
            times: int, how often the thread was in the stage in that time.

        Returns:
            the present time in seconds.
        """
        # Every step of an environment calls this, so it makes no call that can be avoided.
        now = self._get_time()
        seconds = now - self._lapped
        self._lapped = now
        if seconds < 0.0:  # another thread has called `drop` after `now`
            seconds = 0.0
        stages = self._stages
        for part, part_seconds, part_times in parts:
            # The graph measures them by the clock of the system, which may be set back or forward.
            part_seconds = min(max(part_seconds, 0.0), seconds)
            seconds -= part_seconds
            before = stages.get(part, _NOTHING)
            stages[part] = before[0] + part_seconds, before[1] + part_times
        # The pair is replaced as a whole: a reader in another thread never sees the seconds of this lap with
        # the times of the one before.
        before = stages.get(stage, _NOTHING)
        stages[stage] = before[0] + seconds, before[1] + times
        return now

    def spend(self, stage, seconds, times):
        """Counts `seconds` of the time since the last lap as time in `stage`; the next lap has the rest.

        Args:
            stage: text.
            seconds: float, from a clock that may be set back or forward.
            times: int, how often the thread was in the stage.
        """
        seconds = min(max(seconds, 0.0), max(self._get_time() - self._lapped, 0.0))
        self._lapped += seconds
        before = self._stages.get(stage, _NOTHING)
        self._stages[stage] = before[0] + seconds, before[1] + times

    @contextlib.contextmanager
    def stage(self, name):
        """Context whose time counts for a stage; the time since the last lap counts for REST."""
        self.lap(REST)
        yield
        self.lap(name)

    def drop(self):
        """Drops the time since the last lap; from any thread.

        It has no lock: if the thread calls `lap` at the same time, nothing may be dropped.
        """
        self._lapped = self._get_time()

    def read(self):
        """Returns the time in each stage so far, a dict of `Spent` by stage."""
        # A copy at once, because the thread may add a stage meanwhile.
        return {stage: Spent(*spent) for stage, spent in self._stages.copy().items()}


class Spent(NamedTuple):
    """The time of a thread in a stage, and how often it was in the stage."""

    seconds: float = 0.0
    times: int = 0


def subtract(after, before):
    """Returns the time in each stage between two readings of a `StageClock`, a dict of `Spent` by stage."""
    pairs = {stage: (spent, before.get(stage, Spent())) for stage, spent in after.items()}
    return {stage: Spent(a.seconds - b.seconds, a.times - b.times) for stage, (a, b) in pairs.items()}


@dataclasses.dataclass
class StageClocks:
    """The `StageClock`s of a driver's threads."""

    environments: list = dataclasses.field(default_factory=list)
    actors: list = dataclasses.field(default_factory=list)
    collectors: list = dataclasses.field(default_factory=list)
    learner: StageClock = dataclasses.field(
        default_factory=StageClock
    )  # of the thread that collects and trains

    def by_group(self):
        """Returns a dict of lists of clocks by group, without empty groups."""
        groups = {name: getattr(self, name) for name in ("environments", "actors", "collectors")}
        return {name: clocks for name, clocks in {**groups, "learner": [self.learner]}.items() if clocks}

    def take_longest_step(self):
        """Returns the seconds of the longest step since the last call, a float; 0.0 if none has ended."""
        longest = 0.0
        for clock in self.environments:
            # Without a lock: a step that ends between these two may be lost, which costs every step nothing.
            longest = max(longest, clock.longest_step)
            clock.longest_step = 0.0
        return longest

    def drop(self):
        """Drops the time of the present stages up to now, of all threads."""
        for clocks in self.by_group().values():
            for clock in clocks:
                clock.drop()
