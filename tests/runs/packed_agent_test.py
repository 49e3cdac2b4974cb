# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""pack_agent, "alf:TASK" as a run: the agent that ALF brings for a task, without what only training needs."""

import json
import os
import shutil

import numpy as np
import pytest

from alf.config import gin_files
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.errors import ConfigError
from alf.runs.packed_agent import pack_agent
from alf.runs.saved_run import load_agent
from alf.runs.warm_start import warm_start
from alf.training import Experiment
from tests.builders import build_trainer, driver_of

CONFIG = [
    "Experiment.num_groups = 1",
    "Experiment.unroll_length = 4",
    "Experiment.data_transformers = (@ObservationNormalizer,)",
    "alf.environments.load.name = 'CartPole-v1'",
    "Experiment.num_envs = 2",
    "ActorCriticNetwork.fc_layer_params = (8,)",
    "UnrollLearner.optimizer = @Adam()",
    "StopCriteria.num_iterations = 2",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with own_config():
        parse_config([], CONFIG)
        build_trainer(str(folder / "run"), driver_of(Experiment())).train()
    return folder / "run"


def size_of(folder):
    return sum(path.stat().st_size for path in (folder / "checkpoints").glob("ckpt-2/weights.*"))


def test_a_packed_agent_acts_like_the_run(run, tmp_path, monkeypatch):
    pack_agent(run, tmp_path / "CartPole-v1")
    monkeypatch.setenv(gin_files.AGENTS, str(tmp_path))
    agent, packed = load_agent(run), load_agent("alf:CartPole-v1")
    assert [v.shape for v in packed.policy.variables] == [v.shape for v in agent.policy.variables]
    for ours, theirs in zip(packed.policy.variables, agent.policy.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert size_of(tmp_path / "CartPole-v1") < 0.7 * size_of(run)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    weights = {f"checkpoints/ckpt-2/weights.{x}" for x in ("data-00000-of-00001", "index")}
    files = weights | {"operative_config.gin", "run.json"}
    assert names == {os.path.join("CartPole-v1", name) for name in files}


def test_nothing_of_this_machine_is_packed(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    written = json.loads((copy / "run.json").read_text())
    written |= {"import_paths": ["/mine"], "git": {"root": "/mine", "commit": "c", "dirty": False}}
    (copy / "run.json").write_text(json.dumps(written))
    pack_agent(copy, tmp_path / "packed")
    packed = json.loads((tmp_path / "packed" / "run.json").read_text())
    assert packed == written | {"import_paths": [], "git": None}


def test_a_packed_agent_gives_parts_of_its_policy_to_a_new_run(run, tmp_path):
    pack_agent(run, tmp_path / "a")
    with own_config():
        parse_config([], CONFIG)
        driver = driver_of(Experiment())
    try:
        with pytest.raises(ConfigError, match="ckpt-2 has only a policy, .*: name a part of it, PART@PATH$"):
            warm_start(driver.learner, str(tmp_path / "a"))
        warm_start(driver.learner, f"network@{tmp_path / 'a'}")
    finally:
        driver.stop()
    theirs = load_agent(run).policy.trainable_variables
    for ours, variable in zip(driver.learner.policy.trainable_variables, theirs, strict=True):
        np.testing.assert_array_equal(ours, variable)


def test_packing_again_replaces_the_agent(run, tmp_path):
    (tmp_path / "a" / "checkpoints" / "ckpt-9").mkdir(parents=True)
    pack_agent(run, tmp_path / "a")
    assert not list((tmp_path / "a" / "checkpoints").glob("ckpt-9*"))


def test_what_else_is_in_the_folder_stays(run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    copy = shutil.copytree(run, tmp_path / "run")  # has more than a packed agent
    for folder in (tmp_path, copy, tmp_path / "notes.txt"):
        with pytest.raises(ConfigError, match="^folder '.*: it is not replaced$"):
            pack_agent(run, folder)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert {x.name for x in copy.iterdir()} == {x.name for x in run.iterdir()}


def test_where_an_agent_is_found(tmp_path, monkeypatch):
    package = tmp_path / "site" / "alf"
    for task in ("One-v0", "Two-v0", "ALE-Three-v0"):
        (package / "examples" / "tasks").mkdir(parents=True, exist_ok=True)
        (package / "examples" / "tasks" / f"{task}.gin").write_text("")
    (package / "agents" / "One-v0").mkdir(parents=True)
    (package / "agents" / "ALE-Three-v0").mkdir(parents=True)
    (tmp_path / "own" / "One-v0").mkdir(parents=True)
    monkeypatch.setattr(gin_files.alf, "__file__", str(package / "__init__.py"))
    monkeypatch.delenv(gin_files.AGENTS, raising=False)
    assert gin_files.find_agent("runs/mine") == "runs/mine"
    assert gin_files.find_agent("alf:One-v0") == str(package / "agents" / "One-v0")
    assert gin_files.find_agent("alf:ALE/Three-v0") == str(package / "agents" / "ALE-Three-v0")
    monkeypatch.setenv(gin_files.AGENTS, str(tmp_path / "own"))
    assert gin_files.find_agent("alf:One-v0") == str(tmp_path / "own" / "One-v0")
    with pytest.raises(
        ConfigError, match="no trained agent of 'alf:Two-v0': train one, `alf train alf:Two-v0 "
    ):
        gin_files.find_agent("alf:Two-v0")
    with pytest.raises(ConfigError, match="no gin file 'alf:Two-v1'; did you mean alf:Two-v0 ?"):
        gin_files.find_agent("alf:Two-v1")
