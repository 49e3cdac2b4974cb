# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What `import alf` does to a fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run_python(code, *folders, arguments=(), **variables):
    env = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    env.update(variables, PYTHONPATH=os.pathsep.join([*map(str, folders), str(ROOT)]))
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_tensorflow_first_is_one_clear_error(tmp_path):
    (tmp_path / "tensorflow.py").write_text("")  # the real one takes seconds to import
    result = run_python("import tensorflow\nimport alf", tmp_path)
    assert result.returncode == 1
    last_line = result.stderr.strip().splitlines()[-1]
    assert last_line.startswith("ImportError: TensorFlow was imported before ALF")
    assert "import alf first, or set TF_USE_LEGACY_KERAS=1" in last_line
    assert result.stderr.count("Traceback") == 1


def test_alf_first_makes_keras_2_the_default():
    # Without TensorFlow itself: alf does not need it yet.
    result = run_python("import os, sys, alf; print(os.environ['TF_USE_LEGACY_KERAS'], alf.__version__)")
    assert result.returncode == 0, result.stderr
    switch, version = result.stdout.split()
    assert switch == "1" and version[0].isdigit()
    assert result.stderr == ""


def test_import_alf_is_light():
    heavy = ("tensorflow", "tf_agents", "numpy", "gin", "gymnasium")
    result = run_python(
        f"import sys, alf; dir(alf); print([name for name in {heavy} if name in sys.modules])"
    )
    assert result.stdout == "[]\n", result.stderr


def test_tensorflow_first_is_fine_with_the_switch():
    code = "import sys, types; sys.modules['tensorflow'] = types.ModuleType('x'); import alf"
    for value in ("1", "true", "True"):
        assert run_python(code, TF_USE_LEGACY_KERAS=value).returncode == 0
    assert run_python(code, TF_USE_LEGACY_KERAS="0").returncode == 1


@pytest.mark.parametrize("names", ["alf", "alf.runs.saved_run"])
def test_load_agent_starts_tensorflow_without_a_word(names):
    result = run_python(f"import {names} as x; print(x.load_agent.__name__)")
    assert (result.returncode, result.stdout, result.stderr) == (0, "load_agent\n", "")


WITHOUT_TF_AGENTS = """
import sys
sys.modules["tf_agents"] = None  # as where it is not installed
import alf
alf.parse_config(["alf:impala_cartpole.gin"], ["StopCriteria.num_iterations = 1"])
alf.Trainer(sys.argv[1], alf.Experiment().make_driver()).train()
import alf.adapters
try:
    alf.adapters.TFAgentsPolicy
except ImportError as error:
    print(error)
"""


def test_alf_trains_without_tf_agents(tmp_path):
    result = run_python(WITHOUT_TF_AGENTS, arguments=(str(tmp_path / "run"),))
    assert result.returncode == 0, result.stderr
    assert result.stdout == (
        "TFAgentsPolicy needs TF-Agents, which is installed without its dependencies: pip install --no-deps "
        "tf-agents==0.19.0\n"
    )
