# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sweep and Population: what a study tries, and the figure that ranks runs. Without Ray and TensorFlow."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal

from alf.config.kinds import NonNegativeInt, PositiveInt, Text
from alf.config.settings import Role, Seed, configurable
from alf.config.short_names import find_full_name
from alf.config.values import read_value
from alf.errors import ConfigError, argument
from alf.studies.evolution import Mutation, Replacement
from alf.studies.ranges import Range, check_names, check_settings


@configurable("alf.sweep")
@dataclasses.dataclass
class Sweep:
    """The settings of `alf sweep`. A wrong setting raises ConfigError.

    Args:
        settings: dict from the name of a gin binding, such as "Adam.learning_rate" or
            "actor/Adam.learning_rate", to the `Range` of its values; None: nothing is drawn.
        num_samples: how often all settings are drawn.
        search: "random" draws each sample by itself; "optuna" lets Optuna's TPE sampler choose each sample by
            the objectives of the earlier ones.
        seed: int, the seed of the samples.
        objective: the figure that ranks runs; more is better. A column of `progress.csv`, with or without
            "metrics/", such as "BalancedReturn", or "eval/return_mean" with an `Evaluator`.
        value: which value of the column counts for a run, "last" or "best".
        pruner: name of a class of `optuna.pruners` that ends bad trials early, such as "MedianPruner". None:
            no trial is ended early.
        pruner_interval: environment steps of a run between two decisions of the pruner.
        pruner_arguments: dict of arguments of Optuna's class, such as {"n_startup_trials": 3}; None: its
            defaults.
    """

    settings: dict[str, Range] | None = None
    num_samples: Annotated[PositiveInt | None, Role.EXECUTION] = None
    search: Literal["random", "optuna"] = "random"
    seed: NonNegativeInt = 0
    objective: Text = "BalancedReturn"
    value: Literal["last", "best"] = "last"
    pruner: Annotated[Text | None, Role.EXECUTION] = None
    pruner_interval: Annotated[PositiveInt | None, Role.EXECUTION] = None
    pruner_arguments: Annotated[dict[str, Any] | None, Role.EXECUTION] = None

    def __post_init__(self):
        if self.settings is not None:
            check_settings("Sweep", self.settings)
        for pair in (("settings", "num_samples"), ("pruner", "pruner_interval")):
            lacks, has = sorted(pair, key=lambda name: getattr(self, name) is not None)
            if getattr(self, lacks) is None and getattr(self, has) is not None:
                raise ConfigError(f"Sweep.{lacks} is None, but Sweep.{has} is set: both, or none of them")
        if self.search == "optuna" and self.settings is None:
            raise ConfigError("Sweep.search is 'optuna': set Sweep.settings, the ranges to search")
        self.settings = self.settings or {}
        self.pruner_arguments = self.pruner_arguments or {}


@configurable("alf.population")
@dataclasses.dataclass
class Population:
    """The settings of `alf pbt`. A wrong setting raises ConfigError.

    Args:
        settings: dict from the name of a gin binding, such as "Adam.learning_rate" or
            "actor/Adam.learning_rate", to the `Range` of its values.
        interval: environment steps of a member between two looks at its objective.
        objective: the figure that ranks members; more is better. The name of a metric, such as
            "BalancedReturn" or "info/KEY" (docs/metrics.md); or "eval", the mean return of the last
            evaluation.
        seed: int, from which the first values, the mutations and each member's `Experiment.seed` follow. None
            draws one.
        max_failures: how often a member may crash, and how often in a row it may diverge. Once more ends it.
        mutation, replacement: callables () -> `Mutation`, `Replacement`.
    """

    settings: dict[str, Range]
    interval: PositiveInt
    objective: Text = "BalancedReturn"
    seed: Seed = None
    max_failures: Annotated[NonNegativeInt, Role.EXECUTION] = 3
    mutation: Callable[[], Mutation] = Mutation
    replacement: Callable[[], Replacement] = Replacement

    def __post_init__(self):
        check_settings("Population", self.settings)
        self.rules = self.mutation(), self.replacement()


def parse_grid(texts):
    """Reads texts NAME=[VALUE, ...], with values as in --NAME=VALUE; returns a dict from name to list.

    Raises:
        ConfigError: if a text is not such a list, or a name appears twice.
    """
    grid = {}
    for text in texts:
        name, _, values = (part.strip() for part in text.partition("="))
        if not name or not values:
            raise ConfigError(f"{argument('grid', text)}: it must be NAME=[VALUE, ...]")
        if name in grid:
            raise ConfigError(f"{argument('grid')} has {name} twice: name it once")
        try:
            grid[name] = read_value(values)
        except ConfigError as error:
            raise ConfigError(f"{argument('grid', text)}: {error}") from None
        if not isinstance(grid[name], (list, tuple)):
            raise ConfigError(
                f"{argument('grid', text)}: it must be a list of one or more values, [VALUE, ...]"
            )
    return grid


def name_grid(grid, used=()):
    """Returns a dict from full names of settings to lists of texts of their values, as gin files write them.

    Args:
        grid: dict from names, such as "learning_rate", to lists of values.
        used: passed to `find_full_name`.

    Raises:
        ConfigError: if a name is unknown, a list is empty, or a name or a value appears twice.
    """
    named, names = {}, []
    for name, values in grid.items():
        flag = f"{argument('grid')} {name}={list(values)}"
        try:
            full_name = find_full_name(name, used)
        except ConfigError as error:
            raise ConfigError(f"{flag}: {error}") from None
        if not values:
            raise ConfigError(f"{flag}: it must be a list of one or more values, [VALUE, ...]")
        names.append(full_name)
        check_names(argument("grid"), names)
        # Gin's texts of the values, which are the same for 0.1 and 1e-1.
        named[full_name] = list(map(repr, values))
        check_once(flag, named[full_name])
    return named


def check_once(flag, values):
    """Raises ConfigError if a value is twice in a list; `flag` is the text of the flag with the list."""
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ConfigError(f"{flag}: {twice[0]} is there twice")
