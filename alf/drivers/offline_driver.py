# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""OfflineDriver: the driver of a run without environments."""

from alf.drivers.driver import Driver
from alf.learner.learner import Learner


class OfflineDriver(Driver):
    """Collects nothing: its learner trains from a buffer that is filled, by `alf.replay.load_replayer`."""

    def __init__(self, learner: Learner) -> None:
        super().__init__((), learner)

    def start(self) -> None:
        pass

    def _collect(self, observe):
        return 0
