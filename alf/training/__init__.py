# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A training run: its parts, its loop, its directory, its checkpoints and what it shows."""

from alf.training.callback import Callback
from alf.training.evaluator import Evaluator
from alf.training.experiment import Experiment
from alf.training.league import League
from alf.training.saved_run import load_behavior
from alf.training.trainer import Trainer

__all__ = ["Callback", "Evaluator", "Experiment", "League", "Trainer", "load_behavior"]
