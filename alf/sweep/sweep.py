# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sweep: which settings are drawn, and by what runs are judged. Without Ray and TensorFlow."""

import gin

from alf.errors import ConfigError, check_int
from alf.population.mutation import Range
from alf.population.population import check_settings

SEARCHES = ("random", "optuna")
VALUES = ("last", "best")


@gin.configurable(module="alf.sweep")
class Sweep:
    """What `alf-sweep` draws, and by what it judges runs. A wrong setting raises ConfigError.

    Args:
        settings: dict from the name of a gin binding, such as "Adam.learning_rate" or
            "actor/Adam.learning_rate", to the `Range` of its values; None: nothing is drawn.
        num_samples: how often all settings are drawn.
        search: "random" draws each sample by itself; "optuna" lets Optuna's TPE sampler choose it by the
            objectives of the samples before (extra `sweep`).
        seed: int, of what is drawn.
        objective: what a run is judged by; more is better. A column of `progress.csv`, where "metrics/" may
            be left out: "AverageReturn", or "eval/return_mean" of an `Evaluator`.
        value: which value of it counts: the "last" one of a run, or the "best".
    """

    def __init__(
        self,
        settings: dict[str, Range] | None = None,
        num_samples: int | None = None,
        search: str = "random",
        seed: int = 0,
        objective: str = "AverageReturn",
        value: str = "last",
    ) -> None:
        if settings is not None:
            check_settings("Sweep", settings)
        check_int("Sweep.num_samples", num_samples, optional=True)
        if (settings is None) != (num_samples is None):
            lacks, has = ("settings", "num_samples") if settings is None else ("num_samples", "settings")
            raise ConfigError(f"Sweep.{lacks} is None, but Sweep.{has} is set: both, or none of them")
        _check_choice("search", search, SEARCHES)
        _check_choice("value", value, VALUES)
        if search == "optuna" and settings is None:
            raise ConfigError("Sweep.search is 'optuna': set Sweep.settings, the ranges to search")
        if not isinstance(objective, str) or not objective:
            raise ConfigError(f"Sweep.objective is {objective!r}: it must be a column of progress.csv")
        self.settings = settings or {}
        self.num_samples = num_samples
        self.search = search
        self.seed = check_int("Sweep.seed", seed, at_least=0)
        self.objective = objective
        self.value = value


def _check_choice(name, value, choices):
    if value not in choices:
        shown = " or ".join(map(repr, choices))
        raise ConfigError(f"Sweep.{name} is {value!r}: it must be {shown}")
