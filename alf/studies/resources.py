# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Resources: what each run of a sweep or a population occupies, and the place that has it."""

import math
import os
from typing import NamedTuple, get_type_hints

from alf.config.kinds import NonNegativeFloat, PositiveFloat, PositiveInt
from alf.config.settings import check_value
from alf.distributed.cluster import connect
from alf.errors import ConfigError, argument
from alf.studies.placement import Cluster, Machine, find_gpus

_GB = 1e9


class Resources(NamedTuple):
    """The cores, the GPUs and the memory of runs; these are also the names of flags.

    Attributes:
        run_cores: cores of each run, which it has to itself; a number below 1: that share of the cores, which
            runs then use together. None: 1, or an equal share of fewer cores than a population has members.
        max_cores: cores for all runs together. None: all that there are.
        run_gpus: GPUs of each run, which sees no others; a number below 1: several runs share each GPU.
        run_memory, max_memory: GB that each run is expected to need, and GB for all runs together. None: no
            limit.
        ray_address: address of a Ray cluster whose processes the runs are; "local" starts Ray here. None: the
            environment variable RAY_ADDRESS, and without it processes of this machine.
    """

    run_cores: PositiveFloat | None = None
    max_cores: PositiveInt | None = None
    run_gpus: NonNegativeFloat = 0
    run_memory: PositiveFloat | None = None
    max_memory: PositiveFloat | None = None
    ray_address: str | None = None

    @property
    def cluster(self):
        """The address of the cluster, a text; None: the runs are processes of this machine."""
        return self.ray_address or os.environ.get("RAY_ADDRESS") or None


def check_resources(resources):
    """Raises ConfigError if `Resources` have a wrong number; without TensorFlow."""
    for name, kind in get_type_hints(Resources, include_extras=True).items():
        check_value(argument(name), getattr(resources, name), kind)
    for name in ("run_cores", "run_gpus"):
        if (number := getattr(resources, name) or 0) > 1 and number % 1:
            raise ConfigError(f"{argument(name)} is {number:g}: above 1 it must be a whole number")
    run_memory, max_memory = argument("run_memory"), argument("max_memory")
    if resources.max_memory is not None and resources.run_memory is None:
        raise ConfigError(f"{max_memory} is {resources.max_memory:g}: set {run_memory}, the GB of each run")
    if resources.run_memory is not None and resources.max_memory is None and not resources.cluster:
        raise ConfigError(f"{run_memory} is {resources.run_memory:g}: set {max_memory}, the GB of all runs")
    for name in ("cores", "memory"):
        one, all_ = getattr(resources, f"run_{name}"), getattr(resources, f"max_{name}")
        if None not in (one, all_) and all_ < one:
            needed = argument(f"run_{name}", f"{one:g}")
            raise ConfigError(f"{argument(f'max_{name}')} is {all_:g}: one run needs {needed}")


def find_place(resources, num_together=1):
    """Returns the place where runs have room, a `Machine` or a `Cluster`.

    Args:
        resources: `Resources`.
        num_together: int, the number of runs that should train at the same time.

    Raises:
        ConfigError: if there is no room for one run.
    """
    return (_find_cluster if resources.cluster else _find_machine)(resources, num_together)


def _find_cluster(resources, num_together):
    ray = connect(resources.cluster, log_to_driver=False)
    cores = min(ray.cluster_resources().get("CPU", 0), resources.max_cores or math.inf)
    run_cores = _share(resources.run_cores, cores, num_together)
    needs = {"CPU": run_cores, "GPU": resources.run_gpus, "memory": (resources.run_memory or 0) * _GB}
    limits = {"CPU": resources.max_cores, "memory": resources.max_memory and resources.max_memory * _GB}
    place = Cluster(ray, needs, limits)
    if place.capacity:
        return place
    place.close()  # Nobody else would leave the cluster.
    raise ConfigError(
        f"{argument('run_cores')} is {run_cores:g}, {argument('run_gpus')} {resources.run_gpus:g}, "
        f"{argument('run_memory')} {resources.run_memory}: no node of the cluster has so much"
    )


def _find_machine(resources, num_together):
    cores = sorted(os.sched_getaffinity(0))
    for name in ("max_cores", "run_cores"):
        if (count := getattr(resources, name) or 0) > len(cores):
            raise ConfigError(f"{argument(name)} is {count:g}: this process may use {len(cores)} cores")
    cores, gpus = cores[: resources.max_cores], find_gpus()
    if resources.run_gpus > len(gpus):
        raise ConfigError(
            f"{argument('run_gpus')} is {resources.run_gpus:g}: TensorFlow sees {len(gpus)} GPUs in this "
            "process; CUDA_VISIBLE_DEVICES may hide others"
        )
    if gpus and not resources.run_gpus:
        some = argument("run_gpus", "1")
        print(f"the runs see none of {len(gpus)} GPUs; {some} gives one to each, 0.5 one to each two")
    max_at_a_time = resources.max_memory and int(resources.max_memory // resources.run_memory)
    run_cores = _share(resources.run_cores, len(cores), num_together)
    return Machine(cores, run_cores, max_at_a_time, gpus, resources.run_gpus)


def _share(run_cores, cores, num_together):
    """Returns the cores of each run."""
    # Rounded down, because Ray counts in steps of 1e-4: the sum must not exceed what there is.
    return run_cores or min(1, math.floor(1e4 * cores / num_together) / 1e4) or 1
