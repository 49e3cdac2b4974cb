# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf train and alf evaluate with a user's `TFEnvironment` of TF-Agents."""

import csv
import re
import textwrap

import pytest

from tests.programs import ALF, run_program

pytestmark = pytest.mark.programs

MODULE = """
    import gin

    from tests.adapters.graph_environments import CountingTFEnvironment


    @gin.configurable
    def make_counting(seed, batch_size=4):
        return CountingTFEnvironment(batch_size)


    @gin.configurable
    class Broken(CountingTFEnvironment):
        def __init__(self, seed):
            super().__init__()

        def _current_time_step(self):
            step = super()._current_time_step()
            return step._replace(discount=2 * step.discount)
"""
SETTINGS = """
    import my_tf_environment

    Experiment.env = @make_counting
    Experiment.num_groups = 2
    Experiment.unroll_length = 5
    UnrollLearner.optimizer = @Adam()
    Adam.learning_rate = 1e-3
    Trainer.evaluator = @Evaluator
    Evaluator.interval_steps = 1
    Evaluator.num_episodes = 4
    StopCriteria.num_iterations = 20
"""


def test_a_run_trains_goes_on_and_is_evaluated(tmp_path):
    (tmp_path / "my_tf_environment.py").write_text(textwrap.dedent(MODULE))
    (tmp_path / "mine.gin").write_text(textwrap.dedent(SETTINGS))
    root_dir = tmp_path / "run"

    def train(*params, root_dir=root_dir):
        arguments = ["train", tmp_path / "mine.gin", f"--output={root_dir}"]
        return run_program(ALF, *arguments, *(f"--{x}" for x in params))

    done = train()
    assert (done.status, done.out) == (0, "num_iterations=20 reached\n"), done.err
    done = train("StopCriteria.num_iterations = 25")
    assert (done.status, done.out) == (0, "num_iterations=25 reached\n"), done.err
    assert "continues from " in done.err
    with open(root_dir / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    assert any(row.get("eval/return_mean") for row in rows), rows
    done = run_program(ALF, "evaluate", root_dir, "--num_episodes=3")
    assert done.status == 0, done.err
    done = train("Experiment.env = @Broken", root_dir=tmp_path / "other")
    last = done.err.splitlines()[-1]
    assert done.status == 1 and re.match(
        r"error: envs\[[01]\] \(Broken\) returned 2 in discount of sub-environment 0, in row 0 of", last
    ), done.err
