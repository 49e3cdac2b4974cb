# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf evaluate and alf play: what is wrong with the flags that they share. They read them in one place."""

import json
import math
import shutil

import pytest

from alf.bin import evaluate, play, train

pytestmark = pytest.mark.programs


def test_evaluates_atari(root_of, command):
    """For other kinds see stories_test.py."""
    flags = dict(what=root_of("atari"), num_episodes=3, parallel_envs=2, json=True)
    status, out, errors = command(evaluate, **flags)
    assert (status, errors) == (0, [])
    found = json.loads(out)
    assert found["num_episodes"] == 3 and found["checkpoint"].endswith("ckpt-2")
    assert all(math.isfinite(x) for name in ("return", "length") for x in found[name].values())


LOAD = "alf.environments.load"
WRONG = [
    ({"what": ()}, "error: name the folder of a run, or alf:TASK"),
    ({"what": "/no/such/folder"}, "error: '/no/such/folder' holds no run: there is no run.json"),
    ({"checkpoint": "17"}, "there is no checkpoint '17'; "),
    ({"checkpoint": "best"}, "there is no best checkpoint"),
    ({"settings": ["CriticsNetwork.fc_layer_params = (3,)"]}, "error: nothing reads the gin binding "),
    ({"settings": ["Nothing.x = 1"]}, "error: --Nothing.x: No configurable matching 'Nothing'"),
    (
        {"settings": [f"{LOAD}.name = 'Pendulum-v1'"]},
        "error: the environment does not have the specs that the agent was trained for: observation",
    ),
    ({"settings": [f"{LOAD}.name = 'Pendulum'"]}, "error: load.name: no Gymnasium environment"),
    ({"settings": [f"{LOAD}.siz = 1"]}, "unexpected keyword argument 'siz'"),
    ({"settings": ["ActorCriticNetwork.fc_layer_params = (9,)"]}, "does not fit this policy"),
]


def test_what_is_wrong_is_one_line(root_of, command, subtests):
    for values, message in WRONG:
        with subtests.test(str(values)):
            status, out, errors = command(evaluate, **{"what": root_of("cartpole"), **values})
            assert (status, out, len(errors)) == (2, "", 1)
            assert message in errors[0]


def test_alf_play_leaves_no_video_of_what_is_wrong(root_of, command, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    flags = dict(what=root_of("cartpole"), output=str(tmp_path / "a.gif"), checkpoint="17")
    status, out, errors = command(play, **flags)
    assert (status, out, len(errors)) == (2, "", 1) and "there is no checkpoint '17'; " in errors[0]
    assert not list(tmp_path.iterdir())


def test_the_damaged_description_of_a_run_is_one_line(root_of, command, tmp_path):
    root_dir = shutil.copytree(root_of("cartpole"), tmp_path / "damaged")
    (root_dir / "run.json").write_text('{"observation_spec": {"dtype": ')
    status, _, errors = command(evaluate, what=str(root_dir))
    assert status == 2 and "damaged/run.json cannot be read: JSONDecodeError(" in errors[0]
    flags = dict(output=str(tmp_path / "new"), what=str(root_dir / "operative_config.gin"))
    status, _, errors = command(train, **flags)
    assert status == 2 and "run.json cannot be read: " in errors[0]
    assert not (tmp_path / "new").exists()


def test_ctrl_c_before_anything_acts(root_of, command, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("alf.evaluation.open_run.make_env", interrupt)
    status, _, errors = command(evaluate, what=root_of("cartpole"))
    assert status == 130 and errors == ["error: stopped by SIGINT"]
