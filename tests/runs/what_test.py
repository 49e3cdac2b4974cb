# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What arguments name: environments, gin files, tasks and runs."""

import sys

import pytest

from alf.config.gin_files import CONFIG_FILE
from alf.errors import ConfigError
from alf.runs.what import What, find_what


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory, with a run, a gin file, and a folder that is named like an environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("runs/mine", "Pole-v1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "runs" / "mine" / CONFIG_FILE).touch()
    (tmp_path / "mine.gin").touch()
    (tmp_path / "envs_of_what_test.py").write_text("class Corridor: pass\n")
    return tmp_path


def make_corridor():
    """An environment, as a callable that another process can import."""


NAME = f"{__name__}:make_corridor"


def test_each_kind(folder, subtests):
    config = f"runs/mine/{CONFIG_FILE}"

    def here():
        """An environment that no other process can import."""

    for names, expected in {
        (): What(None, [], None, ""),
        ("CartPole-v1",): What("CartPole-v1", [], None, "CartPole-v1"),
        ("ALE/Pong-v5",): What("ALE/Pong-v5", [], None, "ALE/Pong-v5"),
        ("Pole-v1",): What("Pole-v1", [], None, "Pole-v1"),
        ("my_env:Corridor",): What("my_env:Corridor", [], None, "my_env:Corridor"),
        ("pettingzoo:a.b:env",): What("pettingzoo:a.b:env", [], None, "pettingzoo:a.b:env"),
        (make_corridor,): What(NAME, [], None, NAME),
        (here,): What(here, [], None, "here"),
        ("mine.gin",): What(None, ["mine.gin"], None, "mine"),
        ("mine.gin", "alf:impala_cartpole.gin"): What(
            None, ["mine.gin", "alf:impala_cartpole.gin"], None, "mine_impala_cartpole"
        ),
        ("mine.gin", "CartPole-v1"): What("CartPole-v1", ["mine.gin"], None, "mine_CartPole-v1"),
        ("alf:CartPole-v1",): What(None, ["alf:CartPole-v1"], None, "CartPole-v1"),
        ("alf:ALE/Pong-v5",): What(None, ["alf:ALE/Pong-v5"], None, "Pong-v5"),
        ("runs/mine",): What(None, [config], "runs/mine", ""),
        ("~/runs/mine",): What(None, [f"{folder}/{config}"], f"{folder}/runs/mine", ""),
        (folder / "runs" / "mine",): What(None, [f"{folder}/{config}"], f"{folder}/runs/mine", ""),
    }.items():
        with subtests.test(str(names)):
            assert find_what(*names) == expected


def test_a_class_of_a_file(folder, monkeypatch):
    for name in ("envs_of_what_test.py:Corridor", f"{folder}/envs_of_what_test.py:Corridor"):
        assert find_what(name).env == "envs_of_what_test:Corridor"
    assert sys.path[0] == str(folder) and sys.path.count(str(folder)) == 1
    __import__("envs_of_what_test")
    assert find_what("envs_of_what_test.py:Corridor").env == "envs_of_what_test:Corridor"
    monkeypatch.delitem(sys.modules, "envs_of_what_test")


WRONG = {
    ("CartPole-v1", "Acrobot-v1"): "unexpected argument 'Acrobot-v1': name one environment",
    ("runs/mine", "runs/mine"): "unexpected argument 'runs/mine': name one run",
    ("runs/mine", "mine.gin"): "unexpected argument 'mine.gin': name one run",
    ("runs",): f"the folder 'runs' has no run: there is no {CONFIG_FILE}",
    ("./nowhere",): "there is no './nowhere': name an environment, FILE.gin, alf:TASK or the folder of a run",
    ("/nowhere/run",): "there is no '/nowhere/run'",
    ("nowhere.gin",): "there is no file 'nowhere.gin'",
    ("nowhere.py:Corridor",): "there is no file 'nowhere.py'",
    ("alf:nothing",): "ALF has no gin file 'alf:nothing'",
    ("time.py:Corridor",): "time.py cannot be imported as 'time', which is None here: rename the file",
    ("pytest.py:Corridor",): "pytest.py cannot be imported as 'pytest', which is .*pytest.__init__.py here",
}


def test_what_is_wrong_is_one_line(folder, subtests):
    for name in ("time.py", "pytest.py"):
        (folder / name).touch()
    for names, message in WRONG.items():
        with subtests.test(str(names)):
            with pytest.raises(ConfigError, match=message) as caught:
                find_what(*names)
            assert "\n" not in str(caught.value)
