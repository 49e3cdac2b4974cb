# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What is hidden and what is not imported while TensorFlow starts. Each case is a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parent.parent.parent

NOTICES = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795639540.642997    7282 port.cc:153] oneDNN custom operations are on.",
    "E0000 00:00:1795639546.584773   17614 cuda_platform.cc:52] failed call to cuInit: INTERNAL",
    "2026-11-25 20:45:40.642997: W tensorflow/core/x.cc:1] could not find something",
)
BEGIN = f"""
import os, sys
from alf.core.startup import hide_notices
sys.stderr.write("before\\n")
with hide_notices():
    os.write(2, b"from C++\\n")
    for notice in {NOTICES}:
        os.write(2, notice.encode() + b"\\n")
    print("from Python", file=sys.stderr)
"""


def run(code, *folders, **options):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)])}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, **options)


CHILD = """
import subprocess
from alf.core.startup import hide_notices
with hide_notices():
    command = ["sh", "-c", "read line; echo I0000 00:00:1.5 1 child 1>&2"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
child.communicate(b"go", timeout=60)
"""
WITHOUT_END = """
import os
from alf.core.startup import hide_notices
with hide_notices():
    os.write(2, b"x")
"""
SHOWN = {
    "all but notices": (BEGIN + 'sys.stderr.write("after\\n")', "before\nfrom C++\nfrom Python\nafter\n"),
    "a program that was started meanwhile": (CHILD, "I0000 00:00:1.5 1 child\n"),
    "a line without an end": (WITHOUT_END, "x\n"),
}


@pytest.mark.parametrize("code, expected", SHOWN.values(), ids=SHOWN)
def test_what_is_shown(code, expected):
    result = run(code)
    assert (result.returncode, result.stderr) == (0, expected)


def test_an_error_shows_everything():
    result = run(BEGIN + "    raise ImportError('no TensorFlow')")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[:7] == ["before", "from C++", *NOTICES, "from Python"]
    assert lines[7].startswith("Traceback") and lines[-1] == "ImportError: no TensorFlow"


def test_so_does_ctrl_c():
    result = run(BEGIN + "    raise KeyboardInterrupt")
    assert result.returncode == -signal.SIGINT
    assert result.stderr.splitlines()[:7] == ["before", "from C++", *NOTICES, "from Python"]


@pytest.mark.parametrize("end, status", [("os.abort()", -signal.SIGABRT), ("os.kill(os.getpid(), 9)", -9)])
def test_a_process_that_dies_shows_everything(end, status):
    result = run(BEGIN + f"    os.write(2, b'F0000 a fatal error')\n    {end}")
    assert result.returncode == status
    assert result.stderr.splitlines()[:8] == [
        "before",
        "from C++",
        *NOTICES,
        "from Python",
        "F0000 a fatal error",
    ]


def test_why_tensorflow_did_not_start_is_shown(tmp_path):
    code = f"import os; os.write(2, {NOTICES[1].encode()!r}); raise ImportError('gone')"
    (tmp_path / "tensorflow.py").write_text(code)
    result = run("from alf.core.startup import import_tensorflow; import_tensorflow()", tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith(NOTICES[1]) and result.stderr.endswith("ImportError: gone\n")


# TensorFlow logs at its import, when it looks for GPUs, and at the first operation that oneDNN lacks.
START = """
from alf.core.startup import import_tensorflow
import_tensorflow()
import tensorflow as tf
from alf.core.devices import find_gpus, list_devices
find_gpus(), list_devices()
tf.function(tf.transpose)(tf.zeros([1, 2], tf.uint8))
"""
ENCODE = """
from alf.networks import ImpalaResEncoder, NatureEncoder
for make_encoder in (ImpalaResEncoder, NatureEncoder):
    encoder = make_encoder(tf.TensorSpec([42, 42, 4], tf.uint8))
    tf.function(encoder.__call__)(tf.zeros([2, 42, 42, 4], tf.uint8))
"""


FIRST = (
    "from alf.core.startup import import_tensorflow; import_tensorflow(); import tensorflow as tf; tf.ones(1)"
)
LOAD = "import alf; alf.load_agent('alf:CartPole-v1').predict([0.0] * 4)"
TRAIN = "import alf; alf.train('CartPole-v1', steps=10, num_envs=2)"


@pytest.mark.parametrize("code", [START, START + ENCODE, FIRST, LOAD, TRAIN])
def test_tensorflow_starts_without_a_word(code, tmp_path):
    result = run(code, cwd=tmp_path)
    # But for ALF's own two lines about a run.
    words = [x for x in result.stdout.splitlines() if "trains in " not in x and ": ended after " not in x]
    assert (result.returncode, words, result.stderr) == (0, [], "")


def test_its_notices_are_shown_if_the_user_asks_for_them(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert "All log messages before absl::InitializeLog" in run(START).stderr


def test_a_process_without_stderr_starts_tensorflow():
    code = "from alf.core.startup import hide_notices\nwith hide_notices(): print('started')"
    assert run(code, preexec_fn=lambda: os.close(2)).stdout == "started\n"


def test_afterwards_it_logs_errors_only():
    code = START + "import sys; from absl import logging; print(os.environ.get('TF_CPP_MIN_LOG_LEVEL'))"
    # Two values of one key, about which TensorFlow warns.
    warns = "tf.debugging.set_log_device_placement(True); tf.function(tf.tanh)(1.0)"
    result = run(f"import os\n{code}\n{warns}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "None\n", "")


# What TensorFlow would import, where it is installed. ALF needs none of it.
UNUSED = ("h5py", "keras", "requests", "scipy", "tf_keras")
USES = {
    "h5py": """
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.build((None, 1))
model.save_weights("model.weights.h5")
model.load_weights("model.weights.h5")
from tensorflow.python.keras.saving import hdf5_format
assert hdf5_format.h5py.File is __import__("h5py").File
""",
    "keras": """
from tensorflow.keras import layers
import keras
assert layers.Dense is keras.layers.Dense is tf.keras.layers.Dense
assert tf.optimizers.Adam is keras.optimizers.Adam
""",
    "scipy": """
import numpy as np, scipy.sparse
from tensorflow.python.keras.engine import training_arrays_v1
assert training_arrays_v1.issparse(scipy.sparse.eye(3)) and not training_arrays_v1.issparse(np.eye(3))
""",
}
IMPORT = "from alf.core.startup import import_tensorflow; import_tensorflow(); import tensorflow as tf\n"


def test_a_run_imports_nothing_that_it_does_not_use(tmp_path):
    unused = (
        *UNUSED,
        "gym",
        "keras",
        "matplotlib",
        "optuna",
        "pandas",
        "ray",
        "tensorflow_probability",
        "tf_agents",
    )
    code = f"""
import sys, alf
alf.train("CartPole-v1", steps=2000, root_dir="run")
print([name for name in {unused} if name in sys.modules])
"""
    assert run(code, cwd=tmp_path).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", USES)
def test_what_is_not_imported_can_be_used_all_the_same(name, tmp_path):
    pytest.importorskip(name)
    result = run(IMPORT + USES[name], cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_what_was_imported_before_stays():
    pytest.importorskip("scipy")
    code = f"import sys, keras, scipy\n{IMPORT}"
    result = run(f"{code}print(sys.modules['scipy'] is scipy, sys.modules['keras'] is keras, scipy.__name__)")
    assert result.stdout == "True True scipy\n", result.stderr


def test_tensorflow_does_without_what_is_missing():
    code = f"""
import sys
for name in ('h5py', 'keras', 'scipy'):
    sys.modules[name] = None  # as where it is not installed
{IMPORT}
from tensorflow.python.keras.engine import training_arrays_v1
print(training_arrays_v1.issparse, tf.reduce_sum(tf.ones(3)).numpy())
"""
    result = run(code)
    assert result.stdout == "None 3.0\n", result.stderr


@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_garbage_collection_looks_at_nothing_of_tensorflow(switch):
    code = f"import gc; gc.{switch}()\n{IMPORT}"
    result = run(f"{code}print(gc.isenabled(), gc.get_freeze_count() > 100_000)")
    assert result.stdout == f"{switch == 'enable'} True\n", result.stderr
