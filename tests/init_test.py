# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What `import alf` does to a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parent.parent


def run_python(code, *folders, arguments=(), **variables):
    env = dict(os.environ)
    env.update(variables, PYTHONPATH=os.pathsep.join([*map(str, folders), str(ROOT)]))
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_import_alf_is_light():
    heavy = ("tensorflow", "tf_agents", "numpy", "gin", "gymnasium")
    result = run_python(
        f"import sys, alf; dir(alf); print([name for name in {heavy} if name in sys.modules])"
    )
    assert result.stdout == "[]\n", result.stderr


QUIET = """
import os, sys, alf
print(alf.{name}.__name__)
assert "TF_CPP_MIN_LOG_LEVEL" not in os.environ and None not in sys.modules.values()
"""


def test_what_does_all_the_work_starts_tensorflow_without_a_word():
    names = "benchmark", "check", "evaluate", "export", "load_agent", "pbt", "play", "plot", "replicate"
    for name in (*names, "settings", "sweep", "train"):
        result = run_python(QUIET.format(name=name))
        assert (result.returncode, result.stdout, result.stderr) == (0, f"{name}\n", "")


def test_otherwise_tensorflow_starts_as_it_does():
    for code in ("alf.data_structures", "alf.runs.saved_run"):
        result = run_python(f"import {code}, sys; print('scipy' in sys.modules)")
        assert "All log messages before absl::InitializeLog" in result.stderr
        assert result.stdout == "True\n"


# What a user does where neither TF-Agents nor what it needs can be imported.
WITHOUT_TF_AGENTS = """
import collections, importlib.abc, sys

MISSING = {"tf_agents", "tensorflow_probability", "gym", "gym_notices", "tree", "decorator"}


class Forbid(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Forbid())
folder = sys.argv[1]
import alf
agent, run = alf.train("CartPole-v1", steps=2000, root_dir=f"{folder}/run")
agent = alf.load_agent(f"{folder}/run")
observations = [[0.1, 0.2, 0.3, 0.4], [-0.1, -0.2, -0.3, -0.4]]
action, state = agent.predict(observations)

from alf.bin import command, export
arguments = ["alf", f"{folder}/run", "-o", f"{folder}/exported", "--tflite"]
assert command.run(export, command.parse(export, arguments)) == 0
import tensorflow as tf
model = tf.saved_model.load(f"{folder}/exported")
TimeStep = collections.namedtuple("TimeStep", "step_type reward discount observation")
step = TimeStep(tf.zeros([2], tf.int32), tf.zeros([2]), tf.ones([2]), tf.constant(observations))
assert model.action(step, model.get_initial_state(2)).action.numpy().tolist() == action.tolist()
found = model.signatures["serving_default"](observation=tf.constant(observations))["action"]
assert found.numpy().tolist() == action.tolist()

import alf.adapters
from alf.evaluation import exporter
uses = [
    lambda: alf.adapters.TFAgentsPolicy,
    lambda: exporter.export(agent.policy, f"{folder}/saver", tf_agents=True),
    lambda: alf.parse_config([], ["Monitoring.metrics = [@py_metrics.AverageReturnMetric()]"]),
    lambda: alf.parse_config([], ["import tf_agents.metrics.py_metrics"]),
]
for use in uses:
    try:
        use()
    except alf.ConfigError as error:
        print("error:", error)
assert not MISSING & {name.partition(".")[0] for name in sys.modules}
"""


def test_all_but_the_adapters_works_without_tf_agents(tmp_path):
    result = run_python(WITHOUT_TF_AGENTS, arguments=(str(tmp_path),))
    assert result.returncode == 0, result.stderr
    errors = [line for line in result.stdout.splitlines() if line.startswith("error: ")]
    end = f"pip install --no-deps -r {ROOT / 'alf' / 'tf_agents.txt'}"
    missing = "needs TF-Agents (No module named 'tf_agents'):"
    assert len(errors) == 4 and all(line.endswith(end) for line in errors)
    assert errors[0] == f"error: TFAgentsPolicy {missing} {end}"
    assert errors[1] == f"error: tf_agents {missing} {end}"
    assert "py_metrics.AverageReturnMetric" in errors[2] and "; TF-Agents is missing: " in errors[2]
    assert "No module named 'tf_agents'" in errors[3]
    assert not (tmp_path / "saver").exists()
