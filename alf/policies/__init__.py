# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policies act: data transformers, networks and action distributions make an action of a time step."""

from alf.policies.action_distributions import ActionDistribution
from alf.policies.actor_critic_policy import ActorCriticPolicy
from alf.policies.agent import Agent
from alf.policies.data_transformers import EpisodeStep, PreviousAction, PreviousReward
from alf.policies.off_policy import EpsilonGreedyPolicy, SacPolicy
from alf.policies.policy import Policy

__all__ = [
    "ActionDistribution",
    "ActorCriticPolicy",
    "Agent",
    "EpisodeStep",
    "EpsilonGreedyPolicy",
    "Policy",
    "PreviousAction",
    "PreviousReward",
    "SacPolicy",
]
