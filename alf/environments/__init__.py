# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Batched environments for drivers: `load(name, batch_size)`, what it returns, and the base class."""

from alf.core.array_spec import ArraySpec, BoundedArraySpec
from alf.environments.atari import load_atari
from alf.environments.batched_environment import BatchedEnvironment, EnvironmentWrapper
from alf.environments.behavior import BehaviorEnvironment
from alf.environments.envpool import load_envpool
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.environments.load import load, load_pettingzoo
from alf.environments.multi_agent_env import MultiAgentEnvironment
from alf.environments.python_env import PythonEnvironment

__all__ = [
    "ArraySpec",
    "BatchedEnvironment",
    "BehaviorEnvironment",
    "BoundedArraySpec",
    "EnvironmentWrapper",
    "GymnasiumEnvironment",
    "MultiAgentEnvironment",
    "PythonEnvironment",
    "load",
    "load_atari",
    "load_envpool",
    "load_pettingzoo",
]
