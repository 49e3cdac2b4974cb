# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Counts how many members of a population have room, without importing Ray or TensorFlow.

Resources are dicts of numbers by Ray's names: "CPU", "GPU" and names that the cluster defines.
"""

import collections
import copy
import math

import gin

from alf.distributed.ray_process import count_fits
from alf.errors import ConfigError


def find_helpers():
    """Returns the resources that the collectors and the evaluation of one member occupy; {} if it has none.

    They follow from gin's configuration, with its macros and the scopes of `@scope/RayCollectors`.
    """
    experiment, trainer = _read("Experiment"), _read("Trainer")
    helpers = collections.Counter()
    if count := _resolve(experiment, "num_collectors", 0):
        collectors = _find_referred(experiment, "collectors", "RayCollectors")
        # The call in a scope makes its settings in the same scope.
        usual = "/".join([*collectors.split("/")[:-1], "CollectorSettings"])
        settings = _read(_find_referred(_read(collectors), "settings", usual))
        helpers.update({name: count * number for name, number in _list_occupied(settings).items()})
        # An actor of the collectors reserves these for the member's own process (`Reservation`).
        helpers["CPU"] += _resolve(settings, "learner_num_cpus", 0)
        helpers["GPU"] += _resolve(settings, "learner_num_gpus", 0)
    evaluator = _read(_find_referred(trainer, "evaluator", "Evaluator"))
    # By the bindings, and not by an `Evaluator` that is made for it, which would connect to Ray and start a
    # cluster.
    if trainer.get("evaluator") is not None and _resolve(evaluator, "place", "thread") == "cluster":
        worker = _list_occupied(_read(_find_referred(evaluator, "cluster", "RayEvaluator")))
        count = _resolve(evaluator, "num_workers", 1)
        helpers.update({name: count * number for name, number in worker.items()})
    return dict(helpers)


def request_resources(total, population, num_members, helpers):
    """Returns the resources of each member without its helpers, and how many members have room at a time.

    Args:
        total: the resources of the cluster, or of this machine.
        population: `Population`.
        num_members: int.
        helpers: the result of `find_helpers`. If members have helpers, all members must have room.

    Raises:
        ConfigError: if the resources do not suffice.
    """
    share = total.get("CPU", 1.0) / num_members - helpers.get("CPU", 0)
    # Rounded down, because Ray counts in steps of 1e-4: the sum must not exceed what there is.
    num_cpus = population.num_cpus or min(math.floor(1e4 * share) / 1e4, 1.0)
    request = {"CPU": num_cpus, "GPU": population.num_gpus, **population.resources}
    room = count_fits(total, collections.Counter(request) + collections.Counter(helpers))
    # Else members would occupy everything, and wait for ever for helpers without room.
    if helpers and (num_cpus <= 0 or room < num_members):
        raise ConfigError(
            f"Experiment.num_collectors, Evaluator.place: the cluster lacks room for {helpers}, the "
            f"collectors and the evaluation of each of {num_members} members, beside the members: lower "
            "CollectorSettings.num_cpus, RayEvaluator.num_cpus or Population.num_cpus"
        )
    if not room:
        raise ConfigError(
            f"Population.num_cpus, num_gpus, resources: there is not {request} for a member, only {total}"
        )
    return request, min(room, num_members)


def _list_occupied(settings):
    """Returns the resources of one process from the bindings of `CollectorSettings` or `RayEvaluator`."""
    numbers = {"CPU": _resolve(settings, "num_cpus", 1), "GPU": _resolve(settings, "num_gpus", 0)}
    return numbers | (_resolve(settings, "resources", None) or {})


def _read(name):
    """Returns the bindings of a configurable, whose name may have scopes. References stay references."""
    return gin.get_bindings(name, resolve_references=False)


def _find_referred(bindings, name, usual):
    """Returns `usual`, or the name with other scopes by which a parameter refers to the same class."""
    reference = bindings.get(name)
    is_usual = getattr(reference, "selector", "").rpartition(".")[2] == usual.rpartition("/")[2]
    return reference.scoped_selector if is_usual else usual


def _resolve(bindings, name, default):
    """Returns the value of a parameter. The copy makes gin replace macros by their values."""
    return copy.deepcopy(bindings.get(name, default))
