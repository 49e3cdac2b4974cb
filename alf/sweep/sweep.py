# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sweep: which settings are drawn, and by what runs are judged. Without Ray and TensorFlow."""

from typing import Annotated, Literal

from alf.config.kinds import NonNegativeInt, PositiveInt, Text
from alf.config.settings import Role, configurable
from alf.errors import ConfigError
from alf.population.mutation import Range
from alf.population.population import check_settings

SEARCHES = ("random", "optuna")
VALUES = ("last", "best")


@configurable("alf.sweep")
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
        num_samples: Annotated[PositiveInt | None, Role.EXECUTION] = None,
        search: Literal["random", "optuna"] = "random",
        seed: NonNegativeInt = 0,
        objective: Text = "AverageReturn",
        value: Literal["last", "best"] = "last",
    ) -> None:
        if settings is not None:
            check_settings("Sweep", settings)
        if (settings is None) != (num_samples is None):
            lacks, has = ("settings", "num_samples") if settings is None else ("num_samples", "settings")
            raise ConfigError(f"Sweep.{lacks} is None, but Sweep.{has} is set: both, or none of them")
        if search == "optuna" and settings is None:
            raise ConfigError("Sweep.search is 'optuna': set Sweep.settings, the ranges to search")
        self.settings = settings or {}
        self.num_samples = num_samples
        self.search = search
        self.seed = seed
        self.objective = objective
        self.value = value
