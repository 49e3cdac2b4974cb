# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The strategy of a learner: the update of replicas is that of one device, to rounding."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS = ("ppo", "impala", "dqn", "sac")
NUM_REPLICAS = 4  # a replica gets one sequence of an update of PPO or IMPALA, and two of the others


def test_an_update_is_that_of_one_device(subtests):
    # A process of its own: logical devices must be there before TensorFlow starts.
    command = [sys.executable, "-m", "tests.learner.replicas_program", str(NUM_REPLICAS), *KINDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert tuple(results) == KINDS
    for kind, result in results.items():
        with subtests.test(kind):
            # A gradient of norm 1 has a rounding error of 1e-6 at most; 8 steps of 0.1 follow it.
            assert result["weights"] < 2e-5 and result["summary"] < 1e-4, result
            assert result["moved"] > 0.01, result
            assert result["devices"] == [f"device:CPU:{i}" for i in range(NUM_REPLICAS)]
