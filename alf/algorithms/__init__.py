# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithms compute the loss from experience. Wrong settings raise `ConfigError`."""

from typing import Any

from alf.algorithms.algorithm import Algorithm
from alf.algorithms.dqn import DqnAlgorithm
from alf.algorithms.impala import ImpalaAlgorithm
from alf.algorithms.ppo import PPOAlgorithm
from alf.algorithms.sac import SacAlgorithm
from alf.errors import ConfigError

__all__ = ["Algorithm", "DqnAlgorithm", "ImpalaAlgorithm", "PPOAlgorithm", "SacAlgorithm", "find_algorithm"]

_BY_NAME: dict[str, Any] = {
    "ppo": PPOAlgorithm,
    "impala": ImpalaAlgorithm,
    "sac": SacAlgorithm,
    "dqn": DqnAlgorithm,
}


def find_algorithm(name: str) -> Any:
    """Returns the algorithm with a short name, in upper or lower case, such as "ppo".

    Raises:
        ConfigError: if there is none.
    """
    if (found := _BY_NAME.get(name.lower())) is None:
        names = ", ".join(map(repr, _BY_NAME))
        raise ConfigError(f"Experiment.algorithm is {name!r}: it must be one of {names}, or @CLASS")
    return found
