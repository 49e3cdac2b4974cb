# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a member of a population occupies, and how many have room. Without Ray and TensorFlow.

What is occupied, or there, is a dict of numbers by Ray's names: "CPU", "GPU" and the cluster's own ones.
"""

import collections
import copy
import math

import gin

from alf.errors import ConfigError
from alf.studies.placement import count_fits


def find_helpers():
    """Returns what the collectors of one member and its evaluation occupy; {} without any.

    It is what gin's configuration says. Macros count, and the scopes of `@scope/RayCollectors`, as they do
    where a member is made.
    """
    experiment, trainer = _read("Experiment"), _read("Trainer")
    helpers = collections.Counter()
    if count := _resolve(experiment, "num_collectors", 0):
        settings = _read_referred(experiment, "collectors_ctor", "RayCollectors")
        helpers.update({name: count * number for name, number in _list_occupied(settings).items()})
        helpers["CPU"] += _resolve(settings, "learner_num_cpus", 0)
        helpers["GPU"] += _resolve(settings, "learner_num_gpus", 0)
    evaluator = _read_referred(trainer, "evaluator_ctor", "Evaluator")
    if trainer.get("evaluator_ctor") is not None and _resolve(evaluator, "place", "thread") == "cluster":
        helpers.update(_list_occupied(_read_referred(evaluator, "cluster_ctor", "RayEvaluator")))
    return dict(helpers)


def request_resources(total, population, num_members, helpers):
    """Returns what each member itself occupies, and how many have room at the same time.

    Args:
        total: what there is in all.
        population: `Population`.
        num_members: int.
        helpers: as of `find_helpers`. Members with helpers must all have room.

    Raises:
        ConfigError: if there is no room.
    """
    share = total.get("CPU", 1.0) / num_members - helpers.get("CPU", 0)
    num_cpus = population.num_cpus or min(math.floor(1e4 * share) / 1e4, 1.0)
    request = {"CPU": num_cpus, "GPU": population.num_gpus, **population.resources}
    room = count_fits(total, collections.Counter(request) + collections.Counter(helpers))
    # The helpers of a member that trains would wait for ever for what the members occupy.
    if helpers and (num_cpus <= 0 or room < num_members):
        raise ConfigError(
            f"Experiment.num_collectors, Evaluator.place: the cluster has not {helpers} for the collectors "
            f"and the evaluation of each of {num_members} members, beside the members: see "
            "RayCollectors.num_cpus, RayEvaluator.num_cpus, Population.num_cpus"
        )
    if not room:
        raise ConfigError(
            f"Population.num_cpus, num_gpus, resources: there is not {request} for a member, only {total}"
        )
    return request, min(room, num_members)


def _list_occupied(settings):
    """What one process occupies, by the bindings of `RayCollectors` or `RayEvaluator`."""
    numbers = {"CPU": _resolve(settings, "num_cpus", 1), "GPU": _resolve(settings, "num_gpus", 0)}
    return numbers | (_resolve(settings, "resources", None) or {})


def _read(name):
    """The bindings of what gin knows by a name, also with scopes: a dict; references stay as they are."""
    return gin.get_bindings(name, resolve_references=False)


def _read_referred(bindings, name, usual):
    """The bindings of what a parameter refers to, if that is what it usually is, or of the usual one."""
    reference = bindings.get(name)
    is_usual = getattr(reference, "selector", "").rpartition(".")[2] == usual
    return _read(reference.scoped_selector if is_usual else usual)


def _resolve(bindings, name, default):
    """The value of a parameter; gin puts that of a macro in its place when something is copied."""
    return copy.deepcopy(bindings.get(name, default))
