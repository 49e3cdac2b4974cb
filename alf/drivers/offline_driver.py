# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""OfflineDriver: a driver without environments, for learning from a full replay buffer alone."""

from alf.drivers.driver import Driver


class OfflineDriver(Driver):
    """Collects nothing.

    Args:
        learner: `Learner` that trains from a buffer that is full, see `alf.replay.load_replayer`.
    """

    def start(self):
        """There is nothing to start."""

    def collect(self):
        """Collects nothing: returns 0."""
        return 0

    run = collect

    def stop(self):
        """There is nothing to stop."""
