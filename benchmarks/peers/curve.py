# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The learning curve of a library's script, without ALF."""

import time

import numpy as np

_NUM_POINTS = 20


class Curve:
    """Notes steps, seconds and the average return of the last 100 episodes, after each part of `steps`.

    `points` has them; the return is None before the first episode. `reached` says whether the average of 100
    episodes is at `target`, unless that is None.
    """

    def __init__(self, steps, target):
        self.points, self.reached = [], False
        self._target, self._part = target, max(1, steps // _NUM_POINTS)
        self._start = time.monotonic()

    def advance(self, steps, returns):
        """Takes the number of all steps, and the returns of the last 100 episodes."""
        if steps >= (len(self.points) + 1) * self._part:
            self.note(steps, returns)
        if self._target is not None and len(returns) == 100:
            self.reached = bool(np.mean(returns) >= self._target)

    def note(self, steps, returns):
        """Adds a point."""
        mean = float(np.mean(returns)) if len(returns) else None
        self.points.append((steps, round(time.monotonic() - self._start, 1), mean))
