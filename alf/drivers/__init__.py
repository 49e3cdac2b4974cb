# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Drivers step environments with a policy, in threads that queues connect, and return the experience.

A driver knows no learner: `alf.training`, `alf.rollout` and collectors in other processes use the same ones.
"""

from alf.core.tf_runtime import reserve_threads
from alf.drivers.async_off_policy_driver import AsyncOffPolicyDriver
from alf.drivers.driver import Driver
from alf.drivers.driver_settings import DriverSettings, Monitoring
from alf.drivers.env_specs import EnvSpecs
from alf.drivers.fragments import rollout, rollout_episodes
from alf.drivers.offline_driver import OfflineDriver
from alf.drivers.queues import NestFIFOQueue
from alf.drivers.sync_off_policy_driver import SyncOffPolicyDriver
from alf.drivers.tf_queues import TFQueues

__all__ = [
    "AsyncOffPolicyDriver",
    "Driver",
    "DriverSettings",
    "EnvSpecs",
    "Monitoring",
    "NestFIFOQueue",
    "OfflineDriver",
    "SyncOffPolicyDriver",
    "TFQueues",
    "reserve_threads",
    "rollout",
    "rollout_episodes",
]
