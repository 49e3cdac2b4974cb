# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How two configurations differ: a setting that one of them lacks has its default."""

import pytest

from alf.config import registry
from alf.config.comparison import check_same, find_default, find_differences, parse_settings
from alf.errors import ConfigError

registry.import_settings()

FIXED = lambda role: not role.may_change  # noqa: E731


def test_a_gin_file_is_read_as_texts():
    text = (
        "import os\n# Experiment.seed = 1\nExperiment.seed = 2\na/f.x = \\\n    (1,\n     2)\nmacro = 'a'\n"
    )
    assert parse_settings(text) == {"Experiment.seed": "2", "a/f.x": "(1, 2)", "macro": "'a'"}


def test_defaults_are_texts_as_gin_writes_them():
    names = {
        "Experiment.unroll_length": "8",
        "Experiment.exp_replayer": "'one_time'",
        "main/Experiment.algorithm": "@ImpalaAlgorithm",
        "alf.training.Experiment.env": "@alf.environments.load",
        "ActorCriticNetwork.fc_layer_params": "(64, 64)",
        "alf.environments.load.name": None,
        "Nothing.x": None,
    }
    assert {name: find_default(name) for name in names} == names


def test_a_setting_that_one_side_lacks_has_its_default():
    theirs = {"Experiment.unroll_length": "8", "Experiment.algorithm": "@ImpalaAlgorithm"}
    assert find_differences({}, theirs, FIXED) == find_differences(theirs, {}, FIXED) == []
    theirs["Experiment.unroll_length"] = "9"
    assert find_differences({}, theirs, FIXED) == ["Experiment.unroll_length is 8 here, 9 there"]
    assert find_differences(theirs, {}, FIXED) == ["Experiment.unroll_length is 9 here, 8 there"]


def test_one_setting_may_have_several_names():
    ours, theirs = {"Experiment.seed": "1"}, {"alf.training.Experiment.seed": "1"}
    assert find_differences(ours, theirs, FIXED) == []
    theirs["alf.training.Experiment.seed"] = "2"
    assert find_differences(ours, theirs, FIXED) == ["Experiment.seed is 1 here, 2 there"]


def test_roles_decide_what_counts():
    ours, theirs = {"Checkpoints.max_to_keep": "1"}, {"Checkpoints.max_to_keep": "2", "Experiment.seed": "3"}
    assert find_differences(ours, theirs, FIXED) == ["Experiment.seed is None here, 3 there"]
    assert find_differences(ours, theirs, lambda role: role.tells_apart) == []


def test_what_is_not_known_differs():
    assert find_differences({"Mine.x": "1"}, {}, FIXED) == ["Mine.x is 1 here, None there"]


def test_the_error_shows_five_differences():
    theirs = {f"Mine.x{i}": "1" for i in range(7)}
    with pytest.raises(ConfigError) as caught:
        check_same("a", "holds a run", {}, theirs, FIXED)
    message = str(caught.value)
    assert message.startswith("root_dir 'a' holds a run of another config (Mine.x0 is None here, 1 there; ")
    assert message.endswith("): choose another root_dir") and message.count("; ") == 4


def test_another_algorithm_is_a_difference_though_all_settings_are_defaults():
    """As where the algorithm is set in Python, without gin."""
    ours, theirs = {"PPOAlgorithm.discount": "0.99"}, {"a/alf.algorithms.DqnAlgorithm.discount": "0.99"}
    assert find_differences(ours, theirs, FIXED) == ["the algorithm is PPOAlgorithm here, DqnAlgorithm there"]
    assert find_differences(ours, {}, FIXED) == []
