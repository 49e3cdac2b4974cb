# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Stand-ins of collectors, which send one recorded answer again and again. They import no TensorFlow."""

import time


class StandIn:
    """Makes stand-ins: called as `RayCollectors` calls its `make_collector`.

    Args:
        answer: list of arrays, what `Collector.collect` returned.
        seconds: float, how long an answer takes, as if environments stepped.
    """

    def __init__(self, answer, seconds):
        self._answer, self._seconds = answer, seconds
        self._due = None

    def __call__(self, index, num_restarts, num_groups, **settings):
        return self

    def collect(self, weights=None):
        self._due = (self._due or time.monotonic()) + self._seconds
        time.sleep(max(0.0, self._due - time.monotonic()))
        return self._answer
