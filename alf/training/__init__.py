# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The loop of a run: `Trainer` collects and trains, and its callbacks save, evaluate and show the run."""

from alf.callback import Callback
from alf.evaluation.evaluator import Evaluator
from alf.games.league import League
from alf.runs.experiment import Experiment
from alf.runs.saved_run import load_behavior
from alf.training.live_curve import LiveCurve
from alf.training.trainer import Trainer

__all__ = ["Callback", "Evaluator", "Experiment", "League", "LiveCurve", "Trainer", "load_behavior"]
