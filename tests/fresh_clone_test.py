# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What README.md promises about a fresh clone: two commands, three lines of Python, the first runs."""

import json
import os
import subprocess

import pytest

from tests.docs.blocks import ROOT, read_blocks

NEEDS_GIT = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="this is not a clone of git")
PYTHON = """
import sys

code = sys.stdin.read()
exec(code)
assert action in (0, 1)
print("score", run.metrics["AverageReturn"].result())
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@NEEDS_GIT
def test_the_readme_in_a_fresh_clone(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=300)
    # Nothing of this environment: neither its packages nor its settings of TensorFlow.
    env = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    blocks = read_blocks(ROOT / "README.md")
    python = next(block.text for block in blocks if block.language == "python")
    commands, first_runs = [block.text for block in blocks if block.language == "bash"][:2]
    assert commands.split() == ["make", "install", "make", "train"]

    def run(command, code=None):
        options = {"check": True, "stdout": subprocess.PIPE, "text": True, "timeout": 900}
        return subprocess.run(command, cwd=clone, env=env, input=code, **options).stdout

    for command in [*commands.splitlines(), *first_runs.splitlines()]:
        run(["bash", "-c", command])
    for name in ("impala_cartpole", "mine"):
        assert json.loads((clone / "runs" / name / "done.json").read_text())["status"] == "SUCCESS"
    last = run([".venv/bin/python", "-c", PYTHON], python).splitlines()[-1].split()
    assert last[0] == "score" and float(last[1]) > 450
