# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.agents: each task is trained, and its agent is where the wheel takes it from."""

import pathlib
import subprocess

import pytest

from alf.errors import ConfigError
from benchmarks import agents

pytestmark = pytest.mark.programs


def test_each_task_is_trained_and_packed(tmp_path, monkeypatch, capsys):
    done = []

    def pack(run, folder):
        done.append((str(run), str(folder)))
        pathlib.Path(folder).mkdir(parents=True)
        (pathlib.Path(folder) / "run.json").write_bytes(bytes(2048))

    monkeypatch.setattr(subprocess, "run", lambda command, **_: done.append(command[-3:]))
    monkeypatch.setattr(agents, "pack_agent", pack)
    agents.main(["agents"], tmp_path / "runs", tmp_path / "agents")
    run, folder = f"{tmp_path}/runs/CartPole-v1", f"{tmp_path}/agents/CartPole-v1"
    assert done[:2] == [["alf:CartPole-v1", "--seed=0", f"--output={run}"], (run, folder)]
    assert {path.name for path in (tmp_path / "agents").iterdir()} >= {"Pendulum-v1", "Acrobot-v1"}
    assert f"{folder}: 2 KiB\n" in capsys.readouterr().out
    done.clear()
    with pytest.raises(ConfigError, match="did you mean alf:CartPole-v1"):
        agents.main(["agents", "Pendulum-v1", "CartPole-v0"], tmp_path / "runs", tmp_path / "agents")
    assert not done
