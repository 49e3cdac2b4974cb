# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithms: policies and how they learn."""

from alf.algorithms import losses, optimizers, returns
from alf.algorithms.algorithm import Algorithm
from alf.algorithms.impala import ImpalaAlgorithm

__all__ = ["Algorithm", "ImpalaAlgorithm", "losses", "optimizers", "returns"]
