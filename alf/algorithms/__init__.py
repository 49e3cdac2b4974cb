# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithms: policies and how they learn."""

from alf.algorithms import losses, optimizers, returns, schedules
from alf.algorithms.actor_critic_policy import ActorCriticPolicy
from alf.algorithms.algorithm import Algorithm
from alf.algorithms.impala import ImpalaAlgorithm
from alf.algorithms.ppo import PPOAlgorithm

__all__ = [
    "ActorCriticPolicy",
    "Algorithm",
    "ImpalaAlgorithm",
    "PPOAlgorithm",
    "losses",
    "optimizers",
    "returns",
    "schedules",
]
