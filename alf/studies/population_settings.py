# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population: the settings of `alf pbt`. Without Ray and TensorFlow."""

import dataclasses
from collections.abc import Callable
from typing import Annotated

from alf.config.kinds import NonNegativeInt, PositiveInt, Text
from alf.config.settings import Role, Seed, configurable
from alf.studies.evolution import Mutation, Replacement
from alf.studies.ranges import Range, check_settings


@configurable("alf.population")
@dataclasses.dataclass
class Population:
    """The settings of `alf pbt`. A wrong setting raises ConfigError.

    Args:
        settings: dict from the name of a gin binding, such as "Adam.learning_rate" or
            "actor/Adam.learning_rate", to the `Range` of its values.
        interval: environment steps of a member between two looks at its objective.
        objective: the figure that ranks members; more is better. The name of a metric, such as
            "AverageReturn" or "info/KEY" (docs/metrics.md); or "eval", the mean return of the last
            evaluation.
        seed: int, from which the first values, the mutations and each member's `Experiment.seed` follow. None
            draws one.
        max_failures: how often a member may crash, and how often in a row it may diverge. Once more ends it.
        mutation, replacement: callables () -> `Mutation`, `Replacement`.
    """

    settings: dict[str, Range]
    interval: PositiveInt
    objective: Text = "AverageReturn"
    seed: Seed = None
    max_failures: Annotated[NonNegativeInt, Role.EXECUTION] = 3
    mutation: Callable[[], Mutation] = Mutation
    replacement: Callable[[], Replacement] = Replacement

    def __post_init__(self):
        check_settings("Population", self.settings)
        self.rules = self.mutation(), self.replacement()
