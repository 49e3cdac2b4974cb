# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population: the settings of a study. Without Ray and TensorFlow."""

from collections.abc import Callable
from typing import Annotated

from alf.config.kinds import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Text
from alf.config.registry import complete
from alf.config.settings import Role, Seed, configurable
from alf.errors import ConfigError
from alf.population.mutation import Mutation, Range, Replacement


@configurable("alf.population")
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
        interval: PositiveInt,
        objective: Text = "AverageReturn",
        seed: Seed = None,
        max_failures: Annotated[NonNegativeInt, Role.EXECUTION] = 3,
        num_cpus: Annotated[PositiveFloat | None, Role.EXECUTION] = None,
        num_gpus: Annotated[NonNegativeFloat, Role.EXECUTION] = 0,
        resources: Annotated[dict[str, float] | None, Role.EXECUTION] = None,
        mutation_ctor: Callable[[], Mutation] = Mutation,
        replacement_ctor: Callable[[], Replacement] = Replacement,
    ) -> None:
        check_settings("Population", settings)
        self.settings = settings
        self.interval = interval
        self.objective = objective
        self.seed = seed
        self.max_failures = max_failures
        self.num_cpus = num_cpus
        self.num_gpus = num_gpus
        self.resources = resources or {}
        self.mutation = mutation_ctor()
        self.replacement = replacement_ctor()


def check_settings(owner, settings):
    """Raises ConfigError unless `settings` are a dict from names of gin bindings to `Range`, each one once.

    `owner` is the name of the class whose setting it is.
    """
    if not settings:
        raise ConfigError(f"{owner}.settings is empty: it must have names of gin bindings")
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
