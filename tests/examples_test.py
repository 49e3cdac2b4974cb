# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gin files in examples/ train for a few iterations, and continue from the weights that they saved.

Three are here: unrolls, a replay buffer, and minibatches with a recurrent policy in an environment of the
example's own. All others are in examples_more_test.py.
"""

import importlib.util
import sys

import numpy as np
import pytest

from tests.example_runs import EXAMPLES, build

# Those are for other commands, see tests/bin/pbt_test.py and tests/bin/sweep_test.py.
_OTHERS = ("pbt_cartpole", "sweep_cartpole")
# Extras that `make install` leaves out, and their modules.
_EXTRAS = ("minatar", "minigrid")


def is_tested(path):
    """Not tasks that only name another environment than CartPole-v1 does, nor without the package."""
    text = path.read_text()
    lacks = [x for x in _EXTRAS if f"alf-tf[{x}]" in text and importlib.util.find_spec(x) is None]
    has_settings = path.parent.name != "tasks" or path.stem == "CartPole-v1" or text.count(" = ") > 4
    return path.stem not in _OTHERS and has_settings and not lacks


ALL = {path.stem: path for path in sorted(EXAMPLES.glob("**/*.gin")) if is_tested(path)}
QUICK = ("impala_cartpole", "appo_memory", "dqn_cartpole")

# By a word of the gin file: what makes it short.
SHORTER = {
    "Recall-v0": ("Experiment.unroll_length = 8",),
    '"ppo"': ("Experiment.unroll_length = 32",),
    '"r2d2"': (
        "Experiment.unroll_length = 20",
        "ReplayLearner.mini_batch_length = 20",
        "ReplayLearner.initial_collect_steps = 1",
    ),
    "Pong-v5": ("Experiment.num_envs = 16", "Experiment.unroll_length = 8"),
    "ReplayLearner.initial_collect_steps": ("ReplayLearner.initial_collect_steps = 1",),
    # Each policy has a batch in every iteration.
    "PolicyPopulation.num_sequences": ("PolicyPopulation.num_sequences = 4",),
    "League.num_sequences": ("League.num_sequences = 4",),
}


def test_there_are_examples():
    assert set(QUICK) < set(ALL)


def check_trains_and_continues(path, root_dir, monkeypatch, caplog, goes_on=True):
    """Without `goes_on`, the run that continues has the weights, but does not train."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it
    changes = [change for word, shorter in SHORTER.items() if word in path.read_text() for change in shorter]
    trainer = build(path, root_dir, [*changes, "StopCriteria.num_iterations = 2"])
    assert "nothing reads" not in caplog.text
    assert trainer.counters["iterations"] == 0
    assert trainer.train() == (True, "num_iterations=2 reached")
    assert trainer.counters["iterations"] == 2
    assert trainer.counters["env_steps"] > 0
    assert trainer.learner.train_step_counter > 0
    again = build(path, root_dir, [*changes, "StopCriteria.num_iterations = 3"])
    assert again.counters == trainer.counters
    for restored, saved in zip(again.learner.variables, trainer.learner.variables, strict=True):
        np.testing.assert_array_equal(restored, saved)
    if not goes_on:
        again.close()
        return
    assert again.train() == (True, "num_iterations=3 reached")
    assert again.counters["iterations"] == 3
    assert again.counters["env_steps"] > trainer.counters["env_steps"]
    assert again.learner.train_step_counter > trainer.learner.train_step_counter


@pytest.mark.parametrize("name", QUICK)
def test_example_trains_and_continues(name, tmp_path, monkeypatch, caplog):
    check_trains_and_continues(ALL[name], tmp_path, monkeypatch, caplog, goes_on=name == "impala_cartpole")
