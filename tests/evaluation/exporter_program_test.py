# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""export: in an interpreter without ALF its files act as the agent does."""

import functools
import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.evaluation.exporter import export, onnx_command
from alf.networks import LSTM
from alf.policies import Agent
from alf.policies.data_transformers import ObservationNormalizer
from tests.docs.blocks import ROOT, read_blocks
from tests.evaluation.export_cases import CASES, actor_critic, make_case, write_case
from tests.evaluation.exporter_test import FILES, EchoPolicy

pytestmark = pytest.mark.programs

PROGRAM = str(Path(__file__).with_name("run_exported.py"))
# One process for all: TensorFlow takes seconds to import.
CONVERT_ALL = """
import json, sys
from tf2onnx import convert
for command in json.loads(sys.argv[1]):
    sys.argv = command[2:]
    convert.main()
"""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """A folder with the record and the export of each case, and the actions of the agents, by case."""
    folder, write = tmp_path_factory.mktemp("cases"), functools.partial(export, tflite=True)
    expected = {name: write_case(folder / name, case, write) for name, case in CASES.items()}
    for actions in expected.values():
        assert all(len(np.unique(leaf)) > 1 for leaf in zip(*actions))  # they do depend on something
    return folder, expected


def run_without_alf(python, *args):
    env = {k: v for k, v in os.environ.items() if k not in ("TF_USE_LEGACY_KERAS", "PYTHONPATH")}
    env["TF_CPP_MIN_LOG_LEVEL"] = "2"
    done = subprocess.run([python, *map(str, args)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def assert_same_actions(folder, kinds, expected):
    """Compares what `run_exported.py` has written for each case with the actions of the agent."""
    assert len(expected) == len(CASES)
    for case, actions in expected.items():
        for kind in kinds:
            found = pickle.loads((folder / case / f"{kind}.pickle").read_bytes())
            for leaf, (xs, ys) in enumerate(zip(zip(*found), zip(*actions), strict=True)):
                assert xs[0].dtype == ys[0].dtype, (case, kind)
                text = f"{case} {kind} {leaf}"
                np.testing.assert_allclose(np.stack(xs), np.stack(ys), rtol=1e-4, atol=1e-5, err_msg=text)


def test_an_interpreter_without_alf_acts_as_the_agent(cases):
    """Over whole episodes: recurrent states, transformers, parts of observations and actions."""
    kinds = ("saved_model", "signatures", "serving_default", "tflite")
    folder, expected = cases
    run_without_alf(sys.executable, PROGRAM, folder, *kinds)
    assert_same_actions(folder, kinds, expected)


def find_onnx_python():
    """An interpreter that has tf2onnx and onnxruntime: this one, or that of ALF_ONNX_PYTHON; None without."""
    if all(importlib.util.find_spec(name) for name in ("tf2onnx", "onnxruntime")):
        return sys.executable
    return os.environ.get("ALF_ONNX_PYTHON")


@pytest.mark.skipif(find_onnx_python() is None, reason="there is no tf2onnx here, nor ALF_ONNX_PYTHON")
def test_onnx_acts_as_the_agent(cases):
    folder, expected = cases
    python = find_onnx_python()
    commands = [onnx_command(str(folder / name / "export")) for name in CASES]
    run_without_alf(python, "-c", CONVERT_ALL, json.dumps(commands))
    run_without_alf(python, PROGRAM, folder, "onnx")
    assert_same_actions(folder, ["onnx"], expected)


@pytest.mark.skipif(importlib.util.find_spec("tf2onnx") is None, reason="there is no tf2onnx here")
def test_writes_onnx(tmp_path):
    export(EchoPolicy(), str(tmp_path / "policy"), onnx=True)
    assert {path.name for path in (tmp_path / "policy").iterdir()} - {"assets"} == FILES | {"policy.onnx"}
    graph = importlib.import_module("onnx").load(tmp_path / "policy" / "policy.onnx").graph
    dims = {x.name: x.type.tensor_type.shape.dim[0].dim_param for x in (*graph.input, *graph.output)}
    assert dims == {"observation": "batch", "action": "batch"}
    sampled = EchoPolicy(lambda x: x + tf.random.gamma((), tf.ones_like(x)))
    with pytest.raises(ConfigError, match=r"onnx: tf2onnx does not know the operations .*RandomGamma"):
        export(sampled, str(tmp_path / "sampled"), onnx=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
def test_the_program_in_cpp_acts_as_the_agent(tmp_path):
    env, policy = make_case(
        "Pendulum-v1", (ObservationNormalizer,), actor_critic(functools.partial(LSTM, units=8))
    )
    env.close()
    export(policy, str(tmp_path / "exported"))
    blocks = read_blocks(ROOT / "docs" / "export.md")
    (program,) = [x for x in blocks if x.title]
    (tmp_path / program.title).write_text(program.text)
    commands = next(x.text for x in blocks if "g++" in x.text)
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", commands], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    agent, state, expected = Agent(policy), None, []
    for _ in range(3):
        action, state = agent.predict(np.zeros(3, np.float32), state)
        expected.append(float(action[0]))
    found = [float(line.strip("[]")) for line in done.stdout.splitlines()]
    assert len(set(expected)) == 3 and found == pytest.approx(expected, rel=1e-4)
