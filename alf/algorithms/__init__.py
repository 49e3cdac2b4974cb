# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithms: policies and how they learn."""

from alf import schedules
from alf.algorithms.algorithm import Algorithm
from alf.algorithms.dqn import DqnAlgorithm
from alf.algorithms.impala import ImpalaAlgorithm
from alf.algorithms.ppo import PPOAlgorithm
from alf.algorithms.sac import SacAlgorithm
from alf.learner import optimizers
from alf.ops import losses, returns, td_losses
from alf.policies.actor_critic_policy import ActorCriticPolicy

__all__ = [
    "ActorCriticPolicy",
    "Algorithm",
    "DqnAlgorithm",
    "ImpalaAlgorithm",
    "PPOAlgorithm",
    "SacAlgorithm",
    "losses",
    "optimizers",
    "returns",
    "schedules",
    "td_losses",
]
