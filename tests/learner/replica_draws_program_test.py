# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws in replicas of a strategy: each has its own, which follow from the seed and the updates."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parent.parent.parent


def test_replicas_have_streams_of_their_own(tmp_path):
    # A process of its own: logical devices must be there before TensorFlow starts.
    command = [sys.executable, "-m", "tests.learner.replica_draws_program", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    first, again, other = result["draws"]
    assert first == again
    assert len({x for learner in (first, other) for replica in learner for x in replica}) == 8
    whole, parts = result["digests"]
    assert whole == parts and len({*whole}) == len(whole) == 9
