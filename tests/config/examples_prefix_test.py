# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`alf:NAME.gin`: ALF's own gin files by name, from any folder; also for what a run has saved."""

import json
import os
import sys

import gin
import pytest

from alf.config import gin_files
from alf.config.gin_files import EXAMPLES
from alf.config.imports import is_installed, list_own_paths, read_import_paths
from alf.config.parsing import parse_config
from alf.errors import ConfigError
from alf.runs.run_description import RunDescription, read_description
from tests import example_runs


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The current directory is an empty one, and no example was imported yet."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it
    for name in ("own_env", "own_callback"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def test_the_examples_are_those_of_the_repository():
    assert gin_files.find_examples() == str(example_runs.EXAMPLES)
    names = gin_files.list_examples()
    assert names == sorted(path.name for path in example_runs.EXAMPLES.glob("*.gin")) and len(names) > 20


def test_an_installed_package_has_them_inside(tmp_path, monkeypatch):
    package = tmp_path / "site" / "alf"
    (package / "examples").mkdir(parents=True)
    (package / "examples" / "one.gin").write_text("")
    (tmp_path / "site" / "examples").mkdir()  # of somebody else
    monkeypatch.setattr(gin_files.alf, "__file__", str(package / "__init__.py"))
    assert gin_files.list_examples() == ["one.gin"]
    assert gin_files.find_gin_file("alf:one.gin") == str(package / "examples" / "one.gin")


def test_a_package_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr(gin_files.alf, "__file__", str(tmp_path / "alf" / "__init__.py"))
    with pytest.raises(ConfigError, match=r"^ALF has no gin file 'alf:appo_cartpole.gin'; it has none$"):
        parse_config(["alf:appo_cartpole.gin"])


def test_it_is_read_with_what_lies_beside_it():
    parse_config(["alf:own_env.gin"], ["Experiment.seed = 7"])
    assert gin.query_parameter("alf.environments.load.name") == "Corridor-v0"
    assert gin.query_parameter("Experiment.seed") == 7
    assert os.path.dirname(sys.modules["own_env"].__file__) == str(example_runs.EXAMPLES)


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


def test_a_run_remembers_the_folder_as_a_name(tmp_path, monkeypatch):
    examples = gin_files.find_examples()
    written = RunDescription((), (), (), ["/mine", examples], {})
    (tmp_path / "run.json").write_text(written.to_json())
    assert json.loads(written.to_json())["import_paths"] == ["/mine", EXAMPLES]
    assert read_description(str(tmp_path)) == written
    assert read_import_paths(str(tmp_path)) == ["/mine", examples]
    # ALF is somewhere else when the run is used.
    package = tmp_path / "site" / "alf"
    (package / "examples").mkdir(parents=True)
    monkeypatch.setattr(gin_files.alf, "__file__", str(package / "__init__.py"))
    assert read_import_paths(str(tmp_path)) == ["/mine", str(package / "examples")]


def test_modules_of_the_examples_are_a_runs_own(tmp_path, monkeypatch):
    package = tmp_path / "prefix" / "alf"
    (package / "examples").mkdir(parents=True)
    monkeypatch.setattr(gin_files.alf, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setattr(sys, "path", [str(package / "examples"), str(package)])
    assert is_installed(package / "errors.py") and not is_installed(package / "examples" / "own_env.py")
    assert list_own_paths() == [str(package / "examples")]
