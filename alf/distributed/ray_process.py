# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Processes that Ray starts: what they occupy, and how their work begins. Without TensorFlow."""

import os
import sys
from typing import Annotated, Literal

import cloudpickle

from alf.config.kinds import AtLeast
from alf.config.settings import Role
from alf.core.startup import start_tensorflow

# Settings of what a process occupies in the cluster.
Resource = Annotated[float, AtLeast(0), Role.EXECUTION]
Resources = Annotated[dict[str, float] | None, Role.EXECUTION]
Placement = Annotated[Literal["DEFAULT", "SPREAD"], Role.EXECUTION]


def actor_options(num_cpus, num_gpus, resources, placement):
    """Returns a dict of Ray's options for an actor that Ray does not restart.

    Args:
        num_cpus, num_gpus: numbers that the actor occupies, at least 0.
        resources: dict of the cluster's own resources that it occupies, numbers by name; or None.
        placement: "SPREAD" over the nodes of the cluster, or "DEFAULT", which fills one after another.
    """
    return dict(
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        resources=resources,
        scheduling_strategy=placement,
        max_restarts=0,  # of Ray's own, which would not count
    )


def hide_gpus():
    """Hides all GPUs from an actor that has none: TensorFlow takes the memory of all that it sees."""
    import ray  # here, because ALF works without it

    if not ray.get_runtime_context().get_accelerator_ids().get("GPU"):  # Ray hides them from others alone
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def make_here(make, import_paths):
    """Returns what a callable makes in this process, an actor's.

    Args:
        make: bytes, a pickled callable.
        import_paths: `sys.path` of the learner's process. Those that exist here are added.
    """
    hide_gpus()
    sys.path += [path for path in import_paths if path not in sys.path]
    return cloudpickle.loads(make)()


class AfterTensorFlow:
    """A callable that Ray carries to another process, where TensorFlow starts before it is loaded.

    Args:
        function: the callable.
    """

    def __init__(self, function):
        self._pickled = cloudpickle.dumps(function)

    def __call__(self, *args, **kwargs):
        start_tensorflow()
        return cloudpickle.loads(self._pickled)(*args, **kwargs)


def is_ready(ray, reference):
    """Whether Ray has the object, or the error, of a reference."""
    return bool(ray.wait([reference], timeout=0)[0])


def raised(error):
    """The exception that a `RayTaskError` reports, as it was raised in the other process."""
    cause = error.cause
    return cause if isinstance(cause, Exception) else error


def first_line(error):
    """The first line of the text of one of Ray's errors, which go on for several."""
    return (str(error).strip() or repr(error)).splitlines()[0]
