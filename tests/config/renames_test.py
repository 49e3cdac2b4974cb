# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Configurations of older versions get the present names of settings."""

import pytest

from alf.config import registry
from alf.config.comparison import find_differences, parse_settings
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.config.renames import _NAMES, renew, renew_text
from alf.config.settings import find_setting, settings_of
from alf.errors import ConfigError

OLD = """# Parameters for AsyncOffPolicyDriver:
AsyncOffPolicyDriver.learn_queue_cap = 2
alf.drivers.AsyncOffPolicyDriver.max_waiting_batches = 1
eval/SyncOffPolicyDriver.metrics = \\
    (@MyMetric(),
     @Other())
Trainer.max_to_keep = 3
alf.training.Trainer.summary_interval = 2.0
Experiment.unroll_length = 8
alf.environments.PythonEnvironment.max_restarts = 3
eval/PythonEnvironment.step_timeout = 60.0
PythonEnvironment.num_splits = 1
far/RayCollectors.max_restarts = 10
RayCollectors.num_envs = 2
RayEvaluator.max_restarts = 3
Mine.stall_timeout = 5
"""
NEW = """# Parameters for AsyncOffPolicyDriver:
DriverSettings.learn_queue_cap = 2
DriverSettings.max_waiting_batches = 1
eval/Monitoring.metrics = \\
    (@MyMetric(),
     @Other())
Checkpoints.max_to_keep = 3
Summaries.interval = 2.0
Experiment.unroll_length = 8
WorkerSettings.max_restarts = 3
eval/WorkerSettings.step_timeout = 60.0
PythonEnvironment.num_splits = 1
far/CollectorSettings.max_restarts = 10
RayCollectors.num_envs = 2
RayEvaluator.max_restarts = 3
Mine.stall_timeout = 5
"""


def test_a_text_gets_the_present_names():
    assert renew_text(OLD) == NEW
    assert renew_text(NEW) == NEW


def test_a_dict_gets_the_same_names_as_a_text():
    assert parse_settings(OLD) == parse_settings(NEW)
    assert set(parse_settings(NEW)) >= {"eval/Monitoring.metrics", "Checkpoints.max_to_keep"}


@pytest.mark.parametrize(
    "old, new",
    [
        (
            {"AsyncOffPolicyDriver.max_waiting_batches": "0", "AsyncOffPolicyDriver.learn_queue_cap": "2"},
            {"DriverSettings.mode": "'lockstep'"},
        ),
        (
            {"Experiment.unroll_length": "0"},
            {"DriverSettings.mode": "'poll'", "Experiment.unroll_length": "1"},
        ),
        ({"Experiment.unroll_length": "0.5"}, {"Experiment.unroll_length": "0.5"}),
        ({"DriverSettings.one_env_at_a_time": "False"}, {}),
        ({"AsyncOffPolicyDriver.one_env_at_a_time": "True"}, {"DriverSettings.num_env_threads": "1"}),
    ],
    ids=["lockstep", "poll", "fraction", "threads", "one thread"],
)
def test_values_have_become_other_settings(old, new):
    assert renew(old) == new
    text = "".join(f"{name} = {value}\n" for name, value in old.items())
    assert parse_settings(renew_text(text)) == new


def test_a_run_with_old_names_is_no_other_experiment():
    ours = {"DriverSettings.learn_queue_cap": "2", "DriverSettings.mode": "'async'"}
    theirs = {"AsyncOffPolicyDriver.learn_queue_cap": "2", "AsyncOffPolicyDriver.max_waiting_batches": "1"}
    registry.import_settings()
    assert find_differences(ours, theirs, lambda role: True) == []
    theirs["AsyncOffPolicyDriver.learn_queue_cap"] = "4"
    assert find_differences(ours, theirs, lambda role: True) == [
        "DriverSettings.learn_queue_cap is 2 here, 4 there"
    ]


def test_every_present_name_is_a_setting():
    registry.import_settings()
    new = {name for line in NEW.splitlines() for name in [line.partition(" = ")[0]] if "." in name}
    known = [name for name in new if not name.startswith(("#", "Mine", "eval"))]
    assert [name for name in known if find_setting(name) is None] == []


def test_every_new_name_is_a_setting_and_no_old_one():
    registry.import_settings()
    assert [old for old in _NAMES if find_setting(old)] == []
    assert [new for new in _NAMES.values() if not find_setting(new)] == []


def test_no_name_of_a_setting_ends_in_ctor():
    registry.import_settings()
    names = [f"{owner}.{name}" for owner in registry.find_own() for name in settings_of(owner)]
    assert [name for name in names if name.endswith("_ctor")] == []


@pytest.mark.parametrize(
    "old, new",
    [
        ("Experiment.env_ctor", "Experiment.env"),
        ("alf.training.Experiment.policy_ctor", "Experiment.policy"),
        ("main/ActorCriticNetwork.rnn_ctor", "main/ActorCriticNetwork.rnn"),
        ("alf.EpsilonGreedyPolicy.network_ctor", "EpsilonGreedyPolicy.network"),
        ("ActorCriticPolicy.action_ctor", "ActorCriticPolicy.action_distribution"),
        ("AsyncOffPolicyDriver.statistics_ctor", "Monitoring.statistics"),
    ],
)
def test_constructors_are_called_what_they_make(old, new):
    """An older run goes on; a file of the user gets the line to write."""
    registry.import_settings()
    assert renew_text(f"{old} = @Adam\n") == f"{new} = @Adam\n"
    assert renew({old: "@Adam"}) == {new: "@Adam"}
    with own_config(), pytest.raises(ConfigError, match=rf"; did you mean {new} = @Adam \?"):
        parse_config([], [f"{old} = @Adam"])
