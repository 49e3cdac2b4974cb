# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A name that is no environment, or files that are too many for them, are one line with what to write."""

import errno

import gymnasium
import pytest

from alf.config.parsing import bind, wrong_calls_are_config_errors
from alf.config.registry import import_settings, own_config
from alf.environments import load
from alf.environments.names import find_newer, list_arguments
from alf.errors import ConfigError
from alf.runs.presets import find_bindings

import_settings()

WRONG_NAMES = {
    "no_such_module:Nothing": "there is no module 'no_such_module': name a module .* or FILE.py:Class$",
    "tests.workers.nowhere:Nothing": "there is no module 'tests.workers.nowhere'",
    "tests.workers.envs:Nothing": "tests.workers.envs has no 'Nothing', and registers no such id$",
    "tests.workers.envs:CountEnf": "no such id; did you mean tests.workers.envs:CountEnv",
    "Zzzzzzzz-v0": "an id of your own needs its module in front, MODULE:ID; a class is FILE.py:CLASS$",
    "BreakoutNoFrameskip-v4": ": write ALE/Breakout-v5$",
    "CartPol-v1": "; did you mean CartPole-v1 ",
    "HalfCheetah-v2": "Write HalfCheetah-v5$",
}


@pytest.mark.parametrize("name", WRONG_NAMES)
def test_a_wrong_name_is_one_line_without_the_calls_of_gin(name, monkeypatch):
    if name.startswith("Breakout"):  # an import of ale-py registers it
        monkeypatch.delitem(gymnasium.registry, name, raising=False)
    with pytest.raises(ConfigError, match=WRONG_NAMES[name]) as caught, wrong_calls_are_config_errors():
        load(name, num_workers=0)
    text = str(caught.value)
    assert text.startswith("load.name") and repr(name) in text and "\n" not in text


def test_a_module_that_another_module_lacks_is_not_the_users_name(tmp_path, monkeypatch):
    (tmp_path / "needy_env.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"):
        load("needy_env:Nothing")


def test_the_newest_version():
    assert find_newer(gymnasium.spec("HalfCheetah-v2")) == "HalfCheetah-v5"
    assert find_newer(gymnasium.spec("HalfCheetah-v5")) is None


def test_an_argument_of_the_environment_is_answered():
    assert "length" in list_arguments("tests.workers.envs:CountEnv")
    assert "sutton_barto_reward" in list_arguments("CartPole-v1")
    assert list_arguments("no_such_module:Nothing") == []
    for env, bound in (("tests.workers.envs:CountEnv", {}), (None, "tests.workers.envs:CountEnv")):
        with own_config():
            if bound:
                bind({"alf.environments.load.name": bound})
            message = "^length is an argument of the environment: write load.length=8; lenth: there is no"
            with pytest.raises(ConfigError, match=message):
                find_bindings(env, None, None, {"length": 8, "lenth": 8})


def test_too_many_open_files_are_one_line():
    with pytest.raises(ConfigError, match="^too many open files: .* `ulimit -n [0-9]+`, or make fewer"):
        with wrong_calls_are_config_errors():
            raise OSError(errno.EMFILE, "Too many open files")
    with pytest.raises(OSError, match="No such file"), wrong_calls_are_config_errors():
        raise OSError(errno.ENOENT, "No such file")
