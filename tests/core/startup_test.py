# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What is hidden while TensorFlow starts, and when it is shown all the same. Each case is a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

BEGIN = """
import os, sys
from alf.core.startup import hide_stderr
sys.stderr.write("before\\n")
with hide_stderr():
    os.write(2, b"from C++\\n")
    print("from Python", file=sys.stderr)
"""


def run(code, *folders):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)])}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_what_is_written_is_dropped():
    result = run(BEGIN + 'sys.stderr.write("after\\n")')
    assert (result.returncode, result.stderr) == (0, "before\nafter\n")


def test_an_error_shows_it():
    result = run(BEGIN + "    raise ImportError('no TensorFlow')")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[:3] == ["before", "from C++", "from Python"]
    assert lines[3].startswith("Traceback") and lines[-1] == "ImportError: no TensorFlow"


def test_so_does_ctrl_c():
    result = run(BEGIN + "    raise KeyboardInterrupt")
    assert result.returncode == -signal.SIGINT
    assert result.stderr.splitlines()[:3] == ["before", "from C++", "from Python"]


FAKE_TENSORFLOW = """
import os
os.write(2, b"needs instructions that this CPU lacks\\n")
{end}
"""


def start(tmp_path, end):
    """Imports a TensorFlow that writes a line, then does what `end` says."""
    (tmp_path / "tensorflow.py").write_text(FAKE_TENSORFLOW.format(end=end))
    return run("from alf.core.startup import start_tensorflow\nstart_tensorflow()", tmp_path)


def test_why_tensorflow_did_not_start_is_shown(tmp_path):
    result = start(tmp_path, "raise ImportError('gone')")
    assert result.returncode == 1
    assert result.stderr.startswith("needs instructions that this CPU lacks\nTraceback")


FINDS_DEVICES = 'class config:\n    list_physical_devices = lambda: os.write(2, b"no GPU")'


def test_what_tensorflow_says_when_it_starts_is_hidden(tmp_path):
    result = start(tmp_path, FINDS_DEVICES)
    assert (result.returncode, result.stderr) == (0, "")


def test_it_is_shown_if_the_user_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    result = start(tmp_path, FINDS_DEVICES)
    assert "lacks" in result.stderr and "no GPU" in result.stderr


def test_a_module_runs_after_tensorflow_has_started(tmp_path):
    finds_devices = "class config:\n    list_physical_devices = list"
    (tmp_path / "tensorflow.py").write_text(FAKE_TENSORFLOW.format(end=finds_devices))
    (tmp_path / "mine.py").write_text(
        "import sys; print(__name__, sys.argv[1:], 'tensorflow' in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "alf.core.startup", "mine", "a", "-b"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert (result.stdout, result.stderr) == ("__main__ ['a', '-b'] True\n", "")
