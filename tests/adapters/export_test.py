# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""export: what TF-Agents' `PolicySaver` writes for it, and that its own format has the same signatures."""

import functools
import pickle
import sys

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.policies.py_tf_eager_policy import SavedModelPyTFEagerPolicy
from tf_agents.trajectories import time_step as ts

from alf.errors import TF_AGENTS_COMMAND, ConfigError
from alf.evaluation.exporter import export
from tests.evaluation.export_cases import CASES, make_case, write_case
from tests.evaluation.exporter_test import FILES, EchoPolicy


def describe(model):
    """The names, dtypes and shapes of the inputs and outputs of each signature."""
    sides = {
        name: (signature.structured_input_signature[1], signature.structured_outputs)
        for name, signature in model.signatures.items()
    }
    return {
        name: [{key: (spec.name, spec.dtype, str(spec.shape)) for key, spec in side.items()} for side in both]
        for name, both in sides.items()
    }


@pytest.mark.parametrize("case, deterministic", [("lstm_stacked", False), ("parts_gru_beta", True)])
def test_both_formats_have_the_same_signatures(tmp_path, case, deterministic):
    env, policy = make_case(*CASES[case])
    env.close()
    models = []
    for tf_agents in (False, True):
        path = str(tmp_path / str(tf_agents))
        export(policy, path, deterministic, tf_agents=tf_agents)
        models.append(tf.saved_model.load(path))
    plain, saver = map(describe, models)
    assert plain == saver
    names = {"action", "get_initial_state", "get_metadata", "get_train_step", "serving_default"}
    assert plain.keys() == names and len(plain["action"][0]) > 4
    arguments = [model.action.concrete_functions[0].structured_input_signature[0] for model in models]
    tf.nest.assert_same_structure(arguments[0], arguments[1][:2])  # named tuples by their names, too
    states = [model.get_initial_state(tf.constant(3)) for model in models]
    tf.nest.assert_same_structure(*states)
    assert [x.shape[0] for x in tf.nest.flatten(states)] == [3] * len(tf.nest.flatten(states))
    assert len(models[0].model_variables) == len(models[1].model_variables) > 5


def test_tf_agents_acts_with_its_format(tmp_path):
    """Over whole episodes, with a recurrent state."""
    write = functools.partial(export, tf_agents=True)
    expected = write_case(tmp_path / "case", CASES["lstm_stacked"], write)
    path = str(tmp_path / "case" / "export")
    policy = SavedModelPyTFEagerPolicy(path, load_specs_from_pbtxt=True, batch_time_steps=False)
    assert policy.get_train_step() == 0
    state, found = policy.get_initial_state(2), []
    for step in pickle.loads((tmp_path / "case" / "record.pickle").read_bytes()):
        action = policy.action(ts.TimeStep(*(step[name] for name in ts.TimeStep._fields)), state)
        state = action.state
        found.append(action.action)
    np.testing.assert_array_equal(found, [action for (action,) in expected])
    assert len(np.unique(found)) == 2


def test_the_own_format_takes_time_steps_of_tf_agents(tmp_path):
    export(EchoPolicy(), str(tmp_path / "policy"))
    model = tf.saved_model.load(str(tmp_path / "policy"))
    observation = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    step = model.action(ts.restart(observation, 2), model.get_initial_state(2))
    np.testing.assert_array_equal(step.action, observation)


def test_without_tf_agents_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "alf.adapters.tf_agents_policy", None)  # as where TF-Agents is missing
    with pytest.raises(
        ConfigError, match=r"^tf_agents needs TF-Agents \(.*\): pip install --no-deps -r /"
    ) as info:
        export(EchoPolicy(), str(tmp_path / "policy"), tf_agents=True)
    assert str(info.value).endswith(TF_AGENTS_COMMAND)
    assert list(tmp_path.iterdir()) == []
    export(EchoPolicy(), str(tmp_path / "policy"))
    assert {path.name for path in (tmp_path / "policy").iterdir()} - {"assets"} == FILES
