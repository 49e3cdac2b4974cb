# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`alf:NAME.gin`: ALF's own gin files by name, from any folder; also for what a run has saved."""

import importlib
import sys
from pathlib import Path

import gin
import pytest

from alf.config import gin_files
from alf.config.imports import list_own_paths
from alf.config.parsing import operative_config, parse_config
from alf.config.registry import own_config
from alf.errors import ConfigError
from tests import example_runs


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The current directory is an empty one."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def test_the_examples_are_those_of_the_repository():
    assert gin_files.find_examples() == str(example_runs.EXAMPLES)
    names = gin_files.list_examples()
    assert names == sorted(path.name for path in example_runs.EXAMPLES.glob("*.gin")) and len(names) > 20


def test_the_folder_of_the_repository_leads_there(monkeypatch):
    monkeypatch.chdir(example_runs.EXAMPLES.parent.parent)
    assert gin_files.list_examples() == sorted(x.name for x in Path("examples").glob("*.gin"))
    paths = list_own_paths()
    parse_config(["examples/own_env.gin"])
    assert "examples.own_env" not in sys.modules and "own_env" not in sys.modules
    assert list_own_paths() == paths  # every process finds the module by its one name


def test_a_package_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr(gin_files.alf, "__file__", str(tmp_path / "alf" / "__init__.py"))
    with pytest.raises(ConfigError, match=r"^ALF has no gin file 'alf:appo_cartpole.gin'; it has none$"):
        parse_config(["alf:appo_cartpole.gin"])


def test_it_is_read_with_what_lies_beside_it():
    parse_config(["alf:own_env.gin"], ["Experiment.seed = 7"])
    assert gin.query_parameter("alf.environments.load.name") == "Corridor-v0"
    assert gin.query_parameter("Experiment.seed") == 7
    assert "alf.examples.own_env" in sys.modules and "own_env" not in sys.modules
    assert str(example_runs.EXAMPLES) not in sys.path


def test_a_users_file_includes_it(elsewhere):
    path = elsewhere / "mine.gin"
    path.write_text("include 'alf:own_env.gin'\nExperiment.unroll_length = 5\n")
    parse_config([str(path)])
    assert gin.query_parameter("Experiment.unroll_length") == 5
    assert gin.query_parameter("alf.environments.load.name") == "Corridor-v0"


def test_modules_beside_an_included_file(elsewhere):
    (elsewhere / "parts").mkdir()
    (elsewhere / "parts" / "beside_included.py").write_text("")
    (elsewhere / "parts" / "part.gin").write_text("import beside_included\n")
    (elsewhere / "mine.gin").write_text("include 'parts/part.gin'\n")
    parse_config([str(elsewhere / "mine.gin")])
    assert "beside_included" in sys.modules


def test_a_name_that_is_not_there(elsewhere):
    path = elsewhere / "mine.gin"
    path.write_text("include 'alf:nothing.gin'\n")
    for gin_file in ("alf:nothing.gin", "alf:", str(path)):
        with pytest.raises(
            ConfigError, match="ALF has no gin file 'alf:.*'; it has appo_acrobot.gin, .*spaces"
        ) as e:
            parse_config([gin_file])
        assert "\n" not in str(e.value)


def test_a_name_that_is_nearly_there(elsewhere):
    for name in ("impala_cartpole", "impala_cartpol.gin"):
        with pytest.raises(ConfigError) as caught:
            parse_config([f"alf:{name}"])
        assert "; did you mean alf:impala_cartpole.gin" in str(caught.value)


def test_a_task_is_a_file_by_the_name_of_its_environment(elsewhere):
    assert "CartPole-v1" in gin_files.list_tasks()
    parse_config(["alf:CartPole-v1"])
    assert gin.query_parameter("Experiment.algorithm") == "ppo"
    with pytest.raises(ConfigError, match="did you mean alf:CartPole-v1"):
        parse_config(["alf:CartPole-v0"])


def test_a_run_imports_the_examples_that_only_code_has_imported(monkeypatch):
    importlib.import_module("alf.examples.own_callback")
    with own_config():
        parse_config([], ["StopWhenStuck.patience = 3"])
        gin.get_configurable("StopWhenStuck")()
        assert "import alf.examples.own_callback\n" in operative_config()
