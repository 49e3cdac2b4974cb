# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every gin file in examples/ trains for a few iterations, and continues."""

import sys
from pathlib import Path

import gin
import pytest

from alf.bin import train

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("**/*.gin"))


# By a word of the gin file: what makes it short.
SHORTER = {
    "Pong-v5": ("alf.environments.load.batch_size = 8", "Experiment.unroll_length = 8"),
    "ReplayTraining.initial_collect_steps": ("ReplayTraining.initial_collect_steps = 1",),
}


def test_there_are_examples():
    assert "impala_cartpole.gin" in [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_trains_and_continues(path, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it
    changes = [change for word, shorter in SHORTER.items() if word in path.read_text() for change in shorter]
    for num_iterations in (2, 3):
        gin.clear_config()
        train.parse_config([str(path)], [*changes, f"StopCriteria.num_iterations = {num_iterations}"])
        trainer = train.build(str(tmp_path))
        assert trainer.counters["iterations"] == (0 if num_iterations == 2 else 2)
        assert trainer.train() == (True, f"num_iterations={num_iterations} reached")
        assert trainer.counters["iterations"] == num_iterations
        assert trainer.counters["env_steps"] > 0
        assert trainer.learner.train_step_counter > 0
