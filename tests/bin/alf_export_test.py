# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf export: its flags, its exit status, what it prints."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from alf.bin import export
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.runs.saved_run import load_agent
from alf.training import Experiment
from tests.bin.conftest import write_config
from tests.builders import build_trainer, driver_of

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def root_dir(tmp_path_factory):
    """A run with checkpoints 1 and 2."""
    folder = tmp_path_factory.mktemp("run")
    with own_config():
        parse_config([str(write_config(folder, "cartpole"))], ["Checkpoints.interval = 0.0"])
        build_trainer(str(folder / "run"), driver_of(Experiment())).train()
    return folder / "run"


def act(folder, observation):
    function = tf.saved_model.load(str(folder)).signatures["serving_default"]
    return function(observation=tf.constant(observation))["action"].numpy()


def test_the_newest_policy_is_exported(command, root_dir, tmp_path):
    before = sorted(path.stat().st_mtime_ns for path in root_dir.rglob("*"))
    folder = tmp_path / "newest"
    expected = f"{root_dir}/checkpoints/ckpt-2 is exported to {folder}\n"
    assert command(export, what=str(root_dir), output=str(folder)) == (0, expected, [])
    assert before == sorted(path.stat().st_mtime_ns for path in root_dir.rglob("*"))
    observation = np.random.default_rng(0).normal(size=[50, 4]).astype(np.float32)
    np.testing.assert_array_equal(act(folder, observation), load_agent(root_dir).predict(observation)[0])
    assert not (folder / "policy.tflite").exists()


def test_flags_choose_what_is_exported_and_how(command, root_dir, tmp_path):
    flags = dict(what=str(root_dir), output=str(tmp_path / "first"))
    assert command(export, **flags)[0] == 0
    message = f"error: -o {flags['output']}: this exists; --overwrite replaces an earlier export"
    assert command(export, **flags) == (2, "", [message])
    status, out, errors = command(export, **flags, overwrite=True, checkpoint="1", tflite=True, sample=True)
    assert (status, errors) == (0, [])
    assert out == f"{root_dir}/checkpoints/ckpt-1 is exported to {tmp_path}/first\n"
    assert tf.saved_model.load(flags["output"]).get_train_step() == 1
    assert set(act(flags["output"], np.zeros([300, 4], np.float32))) == {0, 1}  # it samples
    assert (tmp_path / "first" / "policy.tflite").exists()
    assert not (tmp_path / "first" / "policy_specs.pbtxt").exists()
    assert command(export, **flags, overwrite=True, tf_agents=True)[0] == 0
    assert (tmp_path / "first" / "policy_specs.pbtxt").exists()


def test_what_is_wrong_is_one_line(command, root_dir, tmp_path, monkeypatch, subtests):
    for name in (
        "tf2onnx",
        "alf.adapters.tf_agents_policy",
    ):  # as if tf2onnx and TF-Agents were not installed
        monkeypatch.setitem(sys.modules, name, None)
    none, other = str(tmp_path / "none"), str(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    for flags, message in [
        (dict(onnx=True), "error: --onnx needs tf2onnx: pip install 'alf-tf[onnx]'"),
        (dict(tf_agents=True), "error: --tf_agents needs TF-Agents ("),
        (dict(settings=["GRU.units=9"]), "error: nothing reads the gin binding GRU.units"),
        (dict(settings=["ActorCriticNetwork.fc_layer_params=(9,)"]), "does not fit this policy"),
        (dict(checkpoint="best"), "there is no best checkpoint in "),
        (dict(what=str(tmp_path)), "holds no run"),
        (dict(output=None), "error: -o is missing: name the folder to write"),
        (
            dict(output=other, overwrite=True),
            f"error: -o '{other}' has 'notes.txt', which ALF has not written: it is not replaced",
        ),
    ]:
        with subtests.test(str(flags)):
            status, out, errors = command(export, **{"what": str(root_dir), "output": none, **flags})
            assert (status, out, len(errors)) == (2, "", 1) and message in errors[0]
            assert list(tmp_path.iterdir()) == [tmp_path / "other"]
