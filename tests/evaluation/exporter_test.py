# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""export: what is written, and that files are there as a whole or not at all.

That they act as the agent does is in export_program_test.py.
"""

import collections
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import PolicyStep
from alf.errors import ConfigError
from alf.evaluation import exporter as export_module
from alf.evaluation.exporter import export
from alf.policies import ActorCriticPolicy, Agent, Policy
from tests.evaluation.export_cases import CASES, actor_critic, make_case

VECTOR = tf.TensorSpec((2,), tf.float32)
FILES = {"fingerprint.pb", "saved_model.pb", "signature.json", "variables"}


class EchoPolicy(Policy):
    """Its action is the observation. `change`: what is done with it in the graph."""

    def __init__(self, change=tf.identity):
        super().__init__(VECTOR, VECTOR)
        self._change = change

    def rollout_step(self, time_step, state):
        return PolicyStep(self._change(time_step.observation), state)


def read_signature(path):
    signature = json.loads((path / "signature.json").read_text())
    names = ({spec["name"]: spec for spec in signature[key]} for key in ("inputs", "outputs"))
    return *names, signature


def test_files_and_signature(tmp_path):
    env, policy = make_case(*CASES["lstm_stacked"])
    policy.progress.updates.assign(17)
    assert export(policy, str(tmp_path / "new" / "policy")) == []
    folder = tmp_path / "new" / "policy"
    assert {path.name for path in folder.iterdir()} - {"assets"} == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["policy"]
    inputs, outputs, signature = read_signature(folder)
    assert list(inputs) == ["step_type", "observation", "state_0", "state_1", "state_2"]
    assert list(outputs) == ["action", "next_state_0", "next_state_1", "next_state_2"]
    assert inputs["observation"] == {"name": "observation", "dtype": "float32", "shape": [None, 4]}
    assert outputs["action"] == {"name": "action", "dtype": "int64", "shape": [None]}
    assert signature["updates"] == 17 and signature["deterministic"] is True
    model = tf.saved_model.load(str(folder))
    assert model.get_train_step() == 17 and model.train_step.numpy() == 17 and model.get_metadata() == {}
    env.close()


def test_what_exists_is_kept_unless_it_is_an_export(tmp_path):
    path, other = tmp_path / "policy", tmp_path / "other"
    export(EchoPolicy(), str(path))
    before = (path / "saved_model.pb").stat().st_mtime_ns
    with pytest.raises(ConfigError, match=r"output .*policy' exists: choose another one, or overwrite it"):
        export(EchoPolicy(), str(path))
    assert (path / "saved_model.pb").stat().st_mtime_ns == before
    export(EchoPolicy(lambda x: 2 * x), str(path), overwrite=True)
    loaded = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert loaded(observation=tf.ones([3, 2]))["action"].numpy().tolist() == [[2, 2]] * 3
    shutil.copytree(path, other)
    (other / "notes.txt").write_text("mine")
    with pytest.raises(
        ConfigError, match=r"^output '.*other' has 'notes.txt', which ALF has not written: it is"
    ):
        export(EchoPolicy(), str(other), overwrite=True)
    assert (other / "notes.txt").read_text() == "mine" and (other / "saved_model.pb").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "policy"]


def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch):
    policy = EchoPolicy(lambda x: tf.ensure_shape(tf.numpy_function(np.copy, [x], tf.float32), x.shape))
    with pytest.raises(
        ConfigError, match=r"cannot be exported: it calls Python from its graph, in '.*PyFunc"
    ):
        export(policy, str(tmp_path / "policy"))
    monkeypatch.setattr(export_module, "_describe", lambda name, spec: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(EchoPolicy(), str(tmp_path / "policy"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ConfigError, match=r"output '.*/file/policy' cannot be written: (Not a directory|File exists)"
    ):
        export(EchoPolicy(), str(tmp_path / "file" / "policy"))


@pytest.mark.parametrize("file", ["saved_model.pb", "variables", "fingerprint.pb"])
def test_a_full_disk(tmp_path, monkeypatch, file):
    full = tf.errors.ResourceExhaustedError(None, None, f"/path/{file}; No space left on device [Op:Save]\nx")

    def save(module, path, signatures):
        (Path(path) / file).write_text("half")
        raise full

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(ConfigError, match=r"output '.*/policy' cannot be written: No space left on device$"):
        export(EchoPolicy(), str(tmp_path / "policy"))
    assert list(tmp_path.iterdir()) == []


def restart(observation, batch_size):
    """The first step of episodes, in a named tuple that a reader of the model may write."""
    time_step = collections.namedtuple("TimeStep", "step_type reward discount observation")
    return time_step(
        tf.zeros([batch_size], tf.int32), tf.zeros([batch_size]), tf.ones([batch_size]), observation
    )


def test_the_variables_of_a_loaded_policy_can_be_changed(tmp_path):
    """It acts by `model_variables`, which are those of the policy; the exported policy stays as it is."""
    env, policy = make_case(*CASES["sac_normalized"])
    env.close()
    export(policy, str(tmp_path / "policy"))
    model = tf.saved_model.load(str(tmp_path / "policy"))
    assert len(policy.variables) > 5
    for found, variable in zip(model.model_variables, policy.variables, strict=True):
        np.testing.assert_array_equal(found, variable)
    step, state = restart(tf.ones([1, 3]), 1), model.get_initial_state(1)
    before = model.action(step, state).action.numpy()
    assert before == Agent(policy).predict(np.ones([1, 3], np.float32))[0] != 0
    for variable in model.model_variables:
        if variable.dtype.is_floating:
            variable.assign(tf.zeros_like(variable))
    assert model.action(step, state).action.numpy() == 0
    assert before == Agent(policy).predict(np.ones([1, 3], np.float32))[0]


def test_a_sampled_policy(tmp_path):
    env, policy = make_case(*CASES["feed_forward"])
    observation = tf.constant(env.reset().observation)[:1]
    env.close()
    for deterministic, num_different in ((True, 1), (False, 2)):
        path = str(tmp_path / str(deterministic))
        export(policy, path, deterministic)
        model = tf.saved_model.load(path)
        observations = tf.repeat(observation, 200, axis=0)
        actions = model.signatures["serving_default"](observation=observations)["action"]
        assert len(set(actions.numpy())) == num_different
        step = model.action(restart(observations, 200), model.get_initial_state(200))
        assert len(set(step.action.numpy())) == num_different


def test_operations_that_tensorflow_lite_does_not_have(tmp_path):
    policy = EchoPolicy(lambda x: tf.cast(2.5 * tf.cast(x, tf.float64), tf.float32))
    assert export(policy, str(tmp_path / "policy"), tflite=True) == ["Mul"]
    assert read_signature(tmp_path / "policy")[2]["tflite_select_ops"] == ["Mul"]
    policy = EchoPolicy(lambda x: tf.math.betainc(x, x, x))
    with pytest.raises(ConfigError, match=r"tflite: it does not know the operations Betainc$"):
        export(policy, str(tmp_path / "other"), tflite=True)


def test_onnx_without_tf2onnx(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"onnx needs tf2onnx: pip install .*-m tf2onnx\.convert --saved-model"
    ):
        export(EchoPolicy(), str(tmp_path / "policy"), onnx=True)
    assert list(tmp_path.iterdir()) == []


def test_bfloat16(tmp_path, monkeypatch):
    """A SavedModel computes in it, too; tf2onnx does not know it."""
    env, policy = make_case("Pendulum-v1", (), actor_critic(compute_dtype="bfloat16"))
    observation = env.reset().observation
    env.close()
    export(policy, str(tmp_path / "policy"))
    function = tf.saved_model.load(str(tmp_path / "policy")).signatures["serving_default"]
    action = function(observation=tf.constant(observation))["action"]
    np.testing.assert_array_equal(action, Agent(policy).predict(observation)[0])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    with pytest.raises(ConfigError, match=r"onnx: the policy computes in bfloat16.* bind compute_dtype"):
        export(policy, str(tmp_path / "onnx"), onnx=True)


def test_an_export_needs_no_xla(tmp_path):
    image = tf.TensorSpec((1, 36, 36), tf.uint8)
    policy = ActorCriticPolicy(image, BoundedTensorSpec((), tf.int64, 0, 1))
    export(policy, str(tmp_path / "policy"))
    model = saved_model_pb2.SavedModel.FromString((tmp_path / "policy" / "saved_model.pb").read_bytes())
    graph = model.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    assert len(nodes) > 100
    assert [node.name for node in nodes if node.attr["_XlaMustCompile"].b] == []
