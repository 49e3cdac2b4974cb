# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population: the settings of a study. Without Ray and TensorFlow."""

from collections.abc import Callable

import gin

from alf.configurable import complete
from alf.errors import ConfigError, check_int, check_number
from alf.population.mutation import Mutation, Range, Replacement


@gin.configurable(module="alf.population")
class Population:
    """What a study tunes, by what it judges, and what its members occupy. A wrong setting raises ConfigError.

    Args:
        settings: dict from the name of a gin binding, such as "Adam.learning_rate" or
            "actor/Adam.learning_rate", to the `Range` of its values.
        interval: environment steps of a member between two looks at its objective.
        objective: what a member is judged by; more is better. The name of a metric, such as "AverageReturn"
            or "info/KEY", see docs/metrics.md; or "eval", the mean return of its last evaluation.
        seed: int, of the first values, the mutations and each member's `Experiment.seed`. None draws one.
        max_failures: how often a member may crash, and how often in a row it may diverge; one more ends it.
        num_cpus, num_gpus: what each member occupies in the cluster. None: an equal share of all CPUs, so
            that all members train at the same time.
        resources: dict of the cluster's own resources that each member occupies, numbers by name; or None.
        mutation_ctor, replacement_ctor: callables () -> `Mutation`, `Replacement`.
    """

    def __init__(
        self,
        settings: dict[str, Range],
        interval: int,
        objective: str = "AverageReturn",
        seed: int | None = None,
        max_failures: int = 3,
        num_cpus: float | None = None,
        num_gpus: float = 0,
        resources: dict[str, float] | None = None,
        mutation_ctor: Callable[[], Mutation] = Mutation,
        replacement_ctor: Callable[[], Replacement] = Replacement,
    ) -> None:
        check_settings("Population", settings)
        if not isinstance(objective, str) or not objective:
            raise ConfigError(
                f"Population.objective is {objective!r}: it must be the name of a metric, or 'eval'"
            )
        if resources is not None and not isinstance(resources, dict):
            raise ConfigError(
                f"Population.resources is {resources!r}: it must be a dict of numbers by name, or None"
            )
        self.settings = settings
        self.interval = check_int("Population.interval", interval)
        self.objective = objective
        self.seed = check_int("Population.seed", seed, at_least=0, optional=True)
        self.max_failures = check_int("Population.max_failures", max_failures, at_least=0)
        self.num_cpus = check_number("Population.num_cpus", num_cpus, above=0, optional=True)
        self.num_gpus = check_number("Population.num_gpus", num_gpus, at_least=0)
        self.resources = resources or {}
        self.mutation = mutation_ctor()
        self.replacement = replacement_ctor()


def check_settings(owner, settings):
    """Raises ConfigError unless `settings` are a dict from names of gin bindings to `Range`, each one once.

    `owner` is the name of the class whose setting it is.
    """
    if not isinstance(settings, dict) or not settings:
        raise ConfigError(
            f"{owner}.settings is {settings!r}: it must be a dict from names of gin bindings to ranges"
        )
    for name, values in settings.items():
        _check_setting(owner, name, values)
    check_names(f"{owner}.settings", settings)


def check_names(where, names):
    """Raises ConfigError if two names are those of the same gin binding; `where` says where they are."""
    known = {}
    for name in names:
        full = complete(name)
        if full in known:
            same = f"{known[full]} and {name}, which are the same" if known[full] != name else f"{name} twice"
            raise ConfigError(f"{where} has {same}: name it once")
        known[full] = name


def _check_setting(owner, name, values):
    if not isinstance(name, str) or "." not in name.rpartition("/")[2]:
        raise ConfigError(
            f"{owner}.settings has {name!r}: it must be the name of a gin binding, such as "
            "'Adam.learning_rate'"
        )
    if not isinstance(values, Range):
        raise ConfigError(
            f"{owner}.settings[{name!r}] is {values!r}: it must be a range; in gin, "
            "@learning_rate/LogUniform() with parentheses"
        )
