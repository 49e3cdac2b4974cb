# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policies: what acts, from the environment's time step to an action."""

from alf.policies.actor_critic_policy import ActorCriticPolicy
from alf.policies.agent import Agent
from alf.policies.history import EpisodeStep, PreviousAction, PreviousReward
from alf.policies.off_policy import EpsilonGreedyPolicy, SacPolicy
from alf.policies.policy import Policy

__all__ = [
    "ActorCriticPolicy",
    "Agent",
    "EpisodeStep",
    "EpsilonGreedyPolicy",
    "Policy",
    "PreviousAction",
    "PreviousReward",
    "SacPolicy",
]
