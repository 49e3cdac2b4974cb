# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ALF, the Agent Learning Framework: asynchronous off-policy reinforcement learning on TensorFlow."""

import importlib
from typing import TYPE_CHECKING

from alf.core.startup import import_tensorflow
from alf.errors import ConfigError
from alf.version import __version__

if TYPE_CHECKING:  # the names of `_MODULES`, for type checkers and editors
    from alf import algorithms, drivers, environments, learner, networks, policies, replay, testing, training
    from alf.algorithms import Algorithm, DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
    from alf.config.parsing import parse_config
    from alf.data_structures import Experience, LossInfo, PolicyStep, TimeStep
    from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver, rollout, rollout_episodes
    from alf.evaluation.episodes import evaluate
    from alf.evaluation.exporter import export
    from alf.games.policies import Policies
    from alf.learner import Learner, LearnerSettings, ReplayLearner, UnrollLearner
    from alf.plots.plot import plot
    from alf.policies import ActorCriticPolicy, Agent, EpsilonGreedyPolicy, Policy, SacPolicy
    from alf.runs.saved_run import load_agent
    from alf.training import Callback, Evaluator, Experiment, League, Trainer
    from alf.training.replication import replicate
    from alf.training.stop_criteria import StopCriteria
    from alf.training.train import train

_PACKAGES = (
    "algorithms",
    "drivers",
    "environments",
    "learner",
    "networks",
    "policies",
    "replay",
    "testing",
    "training",
)
_MODULES = {
    "alf.algorithms": ("Algorithm", "DqnAlgorithm", "ImpalaAlgorithm", "PPOAlgorithm", "SacAlgorithm"),
    "alf.data_structures": ("Experience", "LossInfo", "PolicyStep", "TimeStep"),
    "alf.drivers": (
        "AsyncOffPolicyDriver",
        "EnvSpecs",
        "SyncOffPolicyDriver",
        "rollout",
        "rollout_episodes",
    ),
    "alf.learner": ("Learner", "LearnerSettings", "ReplayLearner", "UnrollLearner"),
    "alf.policies": ("ActorCriticPolicy", "Agent", "EpsilonGreedyPolicy", "Policy", "SacPolicy"),
    "alf.training": ("Callback", "Evaluator", "Experiment", "League", "Trainer"),
    "alf.config.parsing": ("parse_config",),
    "alf.evaluation.episodes": ("evaluate",),
    "alf.evaluation.exporter": ("export",),
    "alf.games.policies": ("Policies",),
    "alf.plots.plot": ("plot",),
    "alf.runs.saved_run": ("load_agent",),
    "alf.training.stop_criteria": ("StopCriteria",),
    "alf.training.replication": ("replicate",),
    "alf.training.train": ("train",),
}
# What a program calls that knows nothing of TensorFlow, which then starts as in ALF's commands.
_QUIET = "evaluate", "export", "load_agent", "plot", "replicate", "train"
_MODULE_OF_NAME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "ActorCriticPolicy",
    "Agent",
    "Algorithm",
    "AsyncOffPolicyDriver",
    "Callback",
    "ConfigError",
    "DqnAlgorithm",
    "EnvSpecs",
    "EpsilonGreedyPolicy",
    "Evaluator",
    "Experience",
    "Experiment",
    "ImpalaAlgorithm",
    "League",
    "Learner",
    "LearnerSettings",
    "LossInfo",
    "PPOAlgorithm",
    "Policies",
    "Policy",
    "PolicyStep",
    "ReplayLearner",
    "SacAlgorithm",
    "SacPolicy",
    "StopCriteria",
    "SyncOffPolicyDriver",
    "TimeStep",
    "Trainer",
    "UnrollLearner",
    "__version__",
    "algorithms",
    "drivers",
    "environments",
    "evaluate",
    "export",
    "learner",
    "load_agent",
    "networks",
    "parse_config",
    "plot",
    "policies",
    "replay",
    "replicate",
    "rollout",
    "rollout_episodes",
    "testing",
    "train",
    "training",
]

if not TYPE_CHECKING:  # a checker would take every name for one that is there

    def __getattr__(name):
        """Imports what is asked for, and with it TensorFlow: `import alf` alone imports nothing of it."""
        if name not in _PACKAGES and name not in _MODULE_OF_NAME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _PACKAGES:
            return importlib.import_module(f"alf.{name}")
        if name in _QUIET:
            import_tensorflow()
        value = getattr(importlib.import_module(_MODULE_OF_NAME[name]), name)
        globals()[name] = value  # the next time nobody asks here
        return value


def __dir__():
    return sorted({*globals(), *__all__})
