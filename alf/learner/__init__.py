# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The learner: from observed experience to updated weights."""

from alf.learner import optimizers  # registers the optimizers with gin
from alf.learner.learner import Learner
from alf.learner.replay_training import ReplayTraining
from alf.learner.unroll_training import UnrollTraining

__all__ = ["Learner", "ReplayTraining", "UnrollTraining", "optimizers"]
