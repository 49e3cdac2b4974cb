# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a member occupies in the cluster, and how many have room there. Without Ray and TensorFlow.

What is occupied, or there, is a dict of numbers by Ray's names: "CPU", "GPU" and the cluster's own ones.
"""

import collections
import math

import gin

from alf.errors import ConfigError


def find_collectors():
    """Returns what all collectors of one member occupy, by gin's configuration; {} without collectors."""
    count = _query("Experiment.num_collectors", 0)
    occupied = {"CPU": _query("RayCollectors.num_cpus", 1), "GPU": _query("RayCollectors.num_gpus", 0)}
    occupied |= _query("RayCollectors.resources", None) or {}
    return {name: count * number for name, number in occupied.items()} if count else {}


def request_resources(total, population, num_members, collectors):
    """Returns what each member itself occupies, and whether all have room at the same time.

    Args:
        total: what the cluster has.
        population: `Population`.
        num_members: int.
        collectors: as of `find_collectors`. Members with collectors must all have room.

    Raises:
        ConfigError: if there is no room.
    """
    share = total.get("CPU", 1.0) / num_members - collectors.get("CPU", 0)
    num_cpus = population.num_cpus or min(math.floor(1e4 * share) / 1e4, 1.0)
    request = {"CPU": num_cpus, "GPU": population.num_gpus, **population.resources}
    room = _count_room(total, collections.Counter(request) + collections.Counter(collectors))
    # The collectors of a member that trains would wait for ever for what the members occupy.
    if collectors and (num_cpus <= 0 or room < num_members):
        raise ConfigError(
            f"Experiment.num_collectors: the cluster has not {collectors} for the collectors of each of "
            f"{num_members} members, beside the members: see RayCollectors.num_cpus, Population.num_cpus"
        )
    if not room:
        raise ConfigError(
            f"Population.num_cpus, num_gpus, resources: the cluster has not {request} for a member"
        )
    return request, room >= num_members


def _count_room(total, request):
    shares = [total.get(name, 0.0) / number for name, number in request.items() if number]
    return math.floor(min(shares, default=math.inf) + 1e-6)


def _query(name, default):
    """What gin binds to a parameter: a number, or a dict of numbers."""
    try:
        value = gin.query_parameter(name)
    except ValueError:  # nothing
        return default
    return value if isinstance(value, (int, float, dict)) else default
