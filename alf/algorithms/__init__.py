# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithms compute the loss from experience. Wrong settings raise `ConfigError`."""

from alf.algorithms.algorithm import Algorithm
from alf.algorithms.dqn import DqnAlgorithm
from alf.algorithms.impala import ImpalaAlgorithm
from alf.algorithms.ppo import PPOAlgorithm
from alf.algorithms.sac import SacAlgorithm

__all__ = ["Algorithm", "DqnAlgorithm", "ImpalaAlgorithm", "PPOAlgorithm", "SacAlgorithm"]
