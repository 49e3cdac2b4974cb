# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Drivers: environments, actors and queues that bring experience to an algorithm."""

from alf.drivers.async_off_policy_driver import AsyncOffPolicyDriver
from alf.drivers.offline_driver import OfflineDriver
from alf.drivers.queues import NestFIFOQueue, TFQueues
from alf.drivers.sync_off_policy_driver import SyncOffPolicyDriver
from alf.tf_runtime import reserve_default_threads, reserve_threads, spare_version_checks

__all__ = [
    "AsyncOffPolicyDriver",
    "NestFIFOQueue",
    "OfflineDriver",
    "SyncOffPolicyDriver",
    "TFQueues",
    "reserve_threads",
]

reserve_default_threads()
spare_version_checks()
