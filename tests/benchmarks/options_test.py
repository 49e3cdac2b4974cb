# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.options: the settings of every option are settings, a run, a line of the table."""

import gin
import pytest

from alf.config.parsing import parse_config
from benchmarks.one_run import Run, train
from tests.benchmarks.conftest import import_program

pytestmark = pytest.mark.programs

options = import_program("benchmarks.options")
EXAMPLES, make_config, row = options.EXAMPLES, options.make_config, options.row


@pytest.mark.parametrize("algorithm", EXAMPLES)
def test_every_option_changes_settings_that_exist(algorithm, tmp_path):
    example = EXAMPLES[algorithm]
    for option, settings in example.options.items():
        gin.clear_config()
        path = tmp_path / "config.gin"
        path.write_text(make_config(example, option))
        parse_config([str(path)], [])
        for setting in (*settings, f"StopCriteria.num_env_steps = {example.max_env_steps}"):
            name, value = setting.split(" = ")
            assert gin.config_str().count(f"{name} = {value}\n") == 1


def test_a_run(forks_python):
    config = make_config(EXAMPLES["PPO"], "V-trace") + "StopCriteria.num_iterations = 2\n"
    run = train(config, seed=0, max_seconds=300, target=None)
    assert run.steps_per_second > 0 and run.env_steps is None


def test_a_row_tells_what_was_missed():
    runs = [Run(100.0, 2.0, 1000, 1.0), Run(300.0, None, None, 3.0), Run(200.0, 4.0, 3000, 2.0)]
    line = row("PPO", "KL limit", runs, ("PPOAlgorithm.target_kl = 0.05",))
    assert line == "| PPO, KL limit | `PPOAlgorithm.target_kl = 0.05` | 2 of 3 | 2,000 | 3 |"
    assert row("PPO", "none", runs[1:2], ()) == "| PPO, none |  | 0 of 1 | - | - |"
