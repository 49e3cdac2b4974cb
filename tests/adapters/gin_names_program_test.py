# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What gin files call the things of ALF and of TF-Agents, whether TF-Agents is imported before or not."""

import importlib
import sys

import gin
import pytest

from alf.config.parsing import parse_config
from tests.programs import run_program

pytestmark = pytest.mark.programs

PARAMS = [
    "LearnerSettings.max_grad_norm = 3.0",
    "UnrollLearner.optimizer = @Adam()",
    "load.batch_size = 3",
    "alf.environments.load.name = 'CartPole-v1'",
    "Experiment.env = @load",
    "Experiment.policy = @EpsilonGreedyPolicy",
    "alf.EpsilonGreedyPolicy.epsilon = 0.5",
]
METRIC = "Monitoring.metrics = [@py_metrics.AverageReturnMetric()]"


def parse():
    """Reads the bindings that are its arguments, and prints gin's configuration; "tf_agents" imports that."""
    arguments = sys.argv[1:]
    assert "tf_agents" not in sys.modules
    if arguments[0] == "tf_agents":
        importlib.import_module(arguments.pop(0))
    parse_config([], arguments)
    print(gin.config_str(), "tf_agents" in sys.modules)


def run(*arguments):
    done = run_program(f"{__name__}:parse", *arguments)
    assert done.status == 0, done.err
    return done.out


def test_a_name_of_alf_means_the_same_with_tf_agents():
    config, imported, *_ = run(*PARAMS).rpartition("False")
    assert imported and run("tf_agents", *PARAMS) == f"{config}True\n"
    for line in ("LearnerSettings.max_grad_norm = 3.0", "UnrollLearner.optimizer = @Adam()"):
        assert line in config
    for line in ("environments.load.batch_size = 3", "environments.load.name = 'CartPole-v1'"):
        assert line in config


def test_names_of_tf_agents_need_no_import():
    assert run(METRIC) == run("tf_agents", METRIC)
    assert "AverageReturnMetric" in run(METRIC)


def test_a_name_that_neither_has_is_an_error():
    done = run_program(f"{__name__}:parse", "Nothing.x = 3")
    assert done.status == 1 and "No configurable matching 'Nothing'" in done.err


def use_adapter():
    """Uses an adapter after gin was locked, as a run locks it."""
    gin.finalize()
    assert "tf_agents" not in sys.modules
    print(importlib.import_module("alf.adapters").make_saver.__name__, gin.config_is_locked())


def test_tf_agents_can_be_imported_while_gin_is_locked():
    done = run_program(f"{__name__}:use_adapter")
    assert done.status == 0, done.err
    assert done.out == "make_saver True\n"
