# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CollectorSettings: the settings of collectors' processes in a cluster."""

import dataclasses

from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.settings import Role, Timeout, configurable
from alf.distributed.ray_process import Placement, Resource, Resources


@configurable("alf.distributed", role=Role.EXECUTION)
@dataclasses.dataclass(frozen=True)
class CollectorSettings:
    """Settings of the processes of `RayCollectors`: where Ray starts them, and when they are replaced.

    Args:
        num_cpus, num_gpus: numbers, at least 0, that each collector occupies in the cluster.
        resources: dict of numbers by the cluster's own names that each collector occupies; or None.
        placement: "SPREAD" over the nodes of the cluster, or "DEFAULT", which fills one after another.
        all_or_nothing: whether the resources of all collectors are reserved before the first one starts
            (Ray's placement group). The run ends with a ConfigError if they do not become free within
            `start_timeout`. False: it begins with the collectors that have room.
        learner_num_cpus, learner_num_gpus: numbers of CPUs and GPUs of the learner's node that collectors do
            not get, because the learner's process uses them (`Reservation`).
        max_restarts, restart_period: a collector that dies is replaced. The run ends after more than
            `max_restarts` replacements within `restart_period` seconds, or if one collector was started 3
            times in a row and did not answer within `start_timeout`.
        min_collectors: int; in place of ending, the run then goes on without the collector, as long as so
            many are left. It does not start it again; a run that is continued begins with all of them. The
            modes "lockstep" and "overlap" need all collectors. None: it ends.
        timeout: seconds after which a collector that does not answer is replaced, too.
        start_timeout: the same for the first answer. Before it, Ray starts the process, TensorFlow is
            imported and the environments are made.
    """

    num_cpus: Resource = 1
    num_gpus: Resource = 0
    resources: Resources = None
    placement: Placement = "SPREAD"
    all_or_nothing: bool = False
    learner_num_cpus: Resource = 0
    learner_num_gpus: Resource = 0
    max_restarts: NonNegativeInt = 10
    restart_period: Timeout = 600.0
    min_collectors: PositiveInt | None = None
    timeout: Timeout = 300.0
    start_timeout: Timeout = 300.0
