# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What is hidden while TensorFlow starts, and when it is shown all the same. Each case is a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

BEGIN = """
import os, signal, sys
from alf.core.startup import hide_stderr
sys.stderr.write("before\\n")
with hide_stderr():
    os.write(2, b"from C++\\n")
    print("from Python", file=sys.stderr)
"""


def run(code, *folders, **kwargs):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)])}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, **kwargs)


def test_what_is_written_is_dropped_and_nothing_is_left_behind():
    rest = """
    os.write(2, 100_000 * b"more than a pipe holds\\n")
    fds = len(os.listdir("/proc/self/fd"))
sys.stderr.write("after\\n")
assert len(os.listdir("/proc/self/fd")) == fds - 2, "the pipe and the copy of stderr"
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""
    result = run(BEGIN + rest)
    assert (result.returncode, result.stdout) == (0, "no child\n"), result.stderr
    assert result.stderr == "before\nafter\n"


def test_an_error_shows_it():
    result = run(BEGIN + "    raise ImportError('no TensorFlow')")
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[:3] == ["before", "from C++", "from Python"]
    assert lines[3].startswith("Traceback") and lines[-1] == "ImportError: no TensorFlow"


@pytest.mark.parametrize("signum", ["SIGABRT", "SIGSEGV", "SIGKILL", "SIGILL"])
def test_a_crash_shows_it(signum):
    result = run(BEGIN + f"    os.kill(os.getpid(), signal.{signum})")
    assert result.returncode == -getattr(signal, signum)
    assert result.stderr == "before\nfrom C++\nfrom Python\n"


def test_ctrl_c_shows_it():
    end = """
    import time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    time.sleep(0.5)  # until the child reads
    os.killpg(0, signal.SIGINT)
    time.sleep(60)
"""
    result = run(BEGIN + end, start_new_session=True)
    assert result.stderr.splitlines()[:3] == ["before", "from C++", "from Python"]
    assert "KeyboardInterrupt" in result.stderr and result.stderr.count("Traceback") == 1


def test_a_process_without_stderr():
    code = 'from alf.core.startup import hide_stderr\nwith hide_stderr(): print("works")'
    command = f"exec {sys.executable} -c '{code}' 2>&-"
    result = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (result.returncode, result.stdout) == (0, "works\n")


FAKE_TENSORFLOW = """
import os
os.write(2, b"needs instructions that this CPU lacks\\n")
{end}
"""


@pytest.mark.parametrize("end, status", [("os.abort()", -signal.SIGABRT), ("raise ImportError('gone')", 1)])
def test_a_command_shows_why_tensorflow_did_not_start(tmp_path, end, status):
    (tmp_path / "tensorflow.py").write_text(FAKE_TENSORFLOW.format(end=end))
    result = run("import alf\nimport alf.bin.command", tmp_path)
    assert result.returncode == status
    assert result.stderr.startswith("needs instructions that this CPU lacks\n")


def test_a_command_hides_what_tensorflow_says_when_it_starts(tmp_path):
    finds_devices = 'class config:\n    list_physical_devices = lambda: os.write(2, b"no GPU")'
    (tmp_path / "tensorflow.py").write_text(FAKE_TENSORFLOW.format(end=finds_devices))
    result = run("import alf\nimport alf.bin.command", tmp_path)
    assert result.returncode == 1, "the rest of ALF needs more of TensorFlow"
    assert result.stderr.startswith("Traceback")
    assert "lacks" not in result.stderr and "no GPU" not in result.stderr


def test_a_command_shows_what_tensorflow_says_if_the_user_asks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    finds_devices = 'class config:\n    list_physical_devices = lambda: os.write(2, b"no GPU")'
    (tmp_path / "tensorflow.py").write_text(FAKE_TENSORFLOW.format(end=finds_devices))
    result = run("import alf\nimport alf.bin.command", tmp_path)
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
