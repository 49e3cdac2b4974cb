# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf-evaluate and alf-play: what is wrong with the flags that they share."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alf.bin import evaluate, play

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = [evaluate, play]


def test_evaluates_atari(root_of, command):
    """For other kinds see stories_test.py."""
    for sample in (False, True):
        status, out, errors = command(
            evaluate, root_dir=root_of("atari"), num_episodes=3, parallel_envs=2, json=True, sample=sample
        )
        assert (status, errors) == (0, [])
        found = json.loads(out)
        assert found["num_episodes"] == 3 and found["checkpoint"].endswith("ckpt-2")
        assert all(math.isfinite(x) for name in ("return", "length") for x in found[name].values())


@pytest.mark.parametrize("name", ["evaluate", "play"])
def test_help_names_the_flags_of_a_console_script(name):
    program = (
        f"import sys; from alf.bin.{name} import console_main; sys.argv[1:] = ['--help']; console_main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    own = {"evaluate": "--parallel_envs", "play": "--video"}
    for text in (f"alf-{name} --root_dir=DIR", "--root_dir=", "--sample\n", "--gin_param=", own[name]):
        assert text in done.stdout
    assert "--gin_file" not in done.stdout


@pytest.mark.parametrize("module", COMMANDS)
@pytest.mark.parametrize(
    "values, message",
    [
        ({"root_dir": None}, "--root_dir is missing"),
        ({"root_dir": "/no/such/folder"}, "root_dir '/no/such/folder' holds no run"),
        ({"checkpoint": "17"}, "there is no checkpoint '17'; "),
        ({"checkpoint": "best"}, "there is no best checkpoint"),
        ({"gin_param": ["CriticsNetwork.fc_layer_params = (3,)"]}, "nothing reads the gin binding "),
        ({"gin_param": ["Nothing.x = 1"]}, "--gin_param: No configurable matching 'Nothing'"),
        (
            {"gin_param": ["alf.environments.load.name = 'Pendulum-v1'"]},
            "the environment is not one that the agent was trained for: observation",
        ),
        ({"gin_param": ["alf.environments.load.name = 'Pendulum'"]}, "load.name: no Gymnasium environment"),
        ({"gin_param": ["ActorCriticNetwork.fc_layer_params = (9,)"]}, "does not fit this policy"),
    ],
)
def test_what_is_wrong_is_one_line(module, values, message, root_of, command, tmp_path):
    if module is play:
        values = {"video": str(tmp_path / "a.gif"), **values}
    status, out, errors = command(module, **{"root_dir": root_of("cartpole"), **values})
    assert status == 2
    assert len(errors) == 1 and message in errors[0]
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("module", COMMANDS)
def test_ctrl_c_before_anything_acts(module, root_of, command, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("alf.bin.acting.make_env", interrupt)
    status, _, errors = command(module, root_dir=root_of("cartpole"))
    assert status == 130 and errors == ["error: stopped by SIGINT"]
