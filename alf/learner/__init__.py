# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learners turn experience into updated weights.

`observe` gives experience to a replayer (`alf.replay`); `train` takes batches from it, lets the algorithm
(`alf.algorithms`) compute the loss, and applies the optimizers.
"""

from alf.learner import optimizers  # registers the optimizers with gin
from alf.learner.learner import Learner
from alf.learner.learner_settings import LearnerSettings
from alf.learner.replay_learner import ReplayLearner
from alf.learner.unroll_learner import UnrollLearner

__all__ = ["Learner", "LearnerSettings", "ReplayLearner", "UnrollLearner", "optimizers"]
