# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Processes that Ray starts: their resources, and the start of their work. Without TensorFlow."""

import math
import os
import sys
from typing import Annotated, Literal

import cloudpickle

from alf.config.kinds import AtLeast
from alf.config.settings import Role
from alf.core.startup import import_tensorflow

# Kinds of the settings that say how much of the cluster a process occupies.
Resource = Annotated[float, AtLeast(0), Role.EXECUTION]
Resources = Annotated[dict[str, float] | None, Role.EXECUTION]
Placement = Annotated[Literal["DEFAULT", "SPREAD"], Role.EXECUTION]


def actor_options(num_cpus, num_gpus, resources, placement):
    """Returns a dict of Ray's options for an actor that Ray does not restart.

    Args:
        num_cpus, num_gpus: numbers that the actor occupies, at least 0.
        resources: dict of numbers by the cluster's own names that it occupies; or None.
        placement: "SPREAD" over the nodes of the cluster, or "DEFAULT", which fills one after another.
    """
    return dict(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        scheduling_strategy=placement,
        max_restarts=0,  # ALF restarts actors itself, and counts.
    )


def list_needs(options):
    """Returns the resources that an actor with `actor_options` occupies, a dict of numbers above 0."""
    needs = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], **(options["resources"] or {})}
    return {name: number for name, number in needs.items() if number}


def list_nodes(ray):
    """Returns a dict of the resources, numbers by name, of each node of the cluster."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def count_fits(total, needs, lacking=0.0):
    """Returns how many processes fit into `total`, a dict of numbers.

    A name that is missing in it counts as `lacking`, where None means no limit.
    """
    shares = [(total.get(name, lacking), need) for name, need in needs.items() if need]
    # The small number makes up for rounding: 0.3 / 0.1 is 2.9999999999999996.
    return min((math.floor(x / need + 1e-6) for x, need in shares if x is not None), default=sys.maxsize)


def hide_gpus():
    """Hides all GPUs from an actor without any: TensorFlow takes the memory of all GPUs that it sees."""
    import ray  # here, because ALF works without it

    # Ray hides GPUs only from actors with some of them.
    if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def make_here(make, import_paths):
    """Calls a pickled callable in this process, an actor's; returns its result.

    Args:
        make: bytes, a pickled callable.
        import_paths: `sys.path` of the learner's process; entries that `sys.path` lacks here are added.
    """
    hide_gpus()  # before TensorFlow is imported, which the callable needs
    import_tensorflow()
    # At the end: where this node has a package itself, that one counts.
    sys.path += [path for path in import_paths if path not in sys.path]
    return cloudpickle.loads(make)()


def is_ready(ray, reference):
    """Whether Ray has the object, or the error, that a reference stands for."""
    # With a time-out of 0 Ray looks and does not wait.
    return bool(ray.wait([reference], timeout=0)[0])


def raised(error):
    """Returns the exception that a `RayTaskError` reports, as it was raised in the other process."""
    cause = error.cause
    return cause if isinstance(cause, Exception) else error


def first_line(error):
    """Returns the first line of the text of one of Ray's errors, which have many lines."""
    return (str(error).strip() or repr(error)).splitlines()[0]
