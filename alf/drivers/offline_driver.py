# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""OfflineDriver: the driver of a run without environments."""

from alf.data_structures import Experience
from alf.drivers.driver import Driver
from alf.policies.policy import Policy


class OfflineDriver(Driver):
    """Collects nothing: the learner trains from a buffer that is filled, by `alf.replay.load_replayer`."""

    def __init__(self, policy: Policy) -> None:
        super().__init__((), policy)

    def start(self) -> None:
        pass

    def collect(self) -> list[Experience]:
        return []

    def get_training_exps(self) -> Experience:
        raise RuntimeError("there are no environments: an OfflineDriver collects nothing")
