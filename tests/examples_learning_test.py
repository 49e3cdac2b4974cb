# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The quick examples reach their targets, in at most about 2.5 times the steps of docs/learning_curves.md.

A seed alone moves the steps by a half, another CPU's rounding is another seed.
"""

import sys
from pathlib import Path

import gin
import pytest

from alf.bin import train

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

MAX_ENV_STEPS = {
    "appo_acrobot": 120_000,
    "appo_cartpole": 250_000,
    "appo_frozenlake": 600_000,
    "appo_memory": 1_600_000,
    "appo_pendulum": 330_000,
    "appo_vtrace_cartpole": 250_000,
    "dqn_cartpole": 290_000,
    "impala_acrobot": 330_000,
    "impala_cartpole": 2_000_000,
    "impala_memory": 1_500_000,
    "impala_pendulum": 1_000_000,
    "sac_pendulum": 70_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name, max_env_steps", MAX_ENV_STEPS.items(), ids=MAX_ENV_STEPS)
def test_example_reaches_its_target(name, max_env_steps, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it
    gin.clear_config()
    changes = [f"StopCriteria.num_env_steps = {max_env_steps}", "StopCriteria.max_seconds = 1200"]
    train.parse_config([str(EXAMPLES / f"{name}.gin")], changes)
    finished, reason = train.build(str(tmp_path)).train()
    assert finished and reason.startswith("target_return="), reason
