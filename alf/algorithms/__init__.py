# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithms compute the loss from the experience that a learner gives them. Users override their hooks."""

from typing import Annotated, Any

from alf.algorithms.action_values import NStep, Transitions, action_to_index
from alf.algorithms.algorithm import Algorithm, TargetUpdater
from alf.algorithms.dqn import DqnAlgorithm
from alf.algorithms.impala import ImpalaAlgorithm
from alf.algorithms.ppo import PPOAlgorithm
from alf.algorithms.qr_dqn import QrDqnAlgorithm
from alf.algorithms.sac import SacAlgorithm, pass_gradient_to_input_only
from alf.algorithms.td3 import Td3Algorithm, Td3Policy
from alf.config.kinds import Matches
from alf.ops.unit_box import action_from_unit_box, action_to_unit_box, has_unit_box

__all__ = [
    "Algorithm",
    "DqnAlgorithm",
    "ImpalaAlgorithm",
    "NStep",
    "PPOAlgorithm",
    "QrDqnAlgorithm",
    "SacAlgorithm",
    "TargetUpdater",
    "Td3Algorithm",
    "Td3Policy",
    "Transitions",
    "action_from_unit_box",
    "action_to_index",
    "action_to_unit_box",
    "has_unit_box",
    "pass_gradient_to_input_only",
]

_BY_NAME: dict[str, Any] = {
    "ppo": PPOAlgorithm,
    "impala": ImpalaAlgorithm,
    "sac": SacAlgorithm,
    "td3": Td3Algorithm,
    "dqn": DqnAlgorithm,
    "qr_dqn": QrDqnAlgorithm,
    "apex": DqnAlgorithm,  # with replay and exploration of many actors
    "r2d2": DqnAlgorithm,  # recurrent
}
_WORDS = ", ".join(map(repr, _BY_NAME))
AlgorithmName = Annotated[str, Matches(f"(?i){'|'.join(_BY_NAME)}", f"one of {_WORDS}")]


def find_algorithm(name: AlgorithmName) -> Any:
    """Returns the algorithm with a short name, in upper or lower case, such as "ppo"."""
    return _BY_NAME[name.lower()]
