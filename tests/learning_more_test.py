# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""IMPALA learns from its own actions, of both kinds, and in CartPole; learning_test.py says more."""

import pytest

from tests.example_runs import EXAMPLES, build
from tests.learning_test import check_matches, check_values, learn, make_impala

pytestmark = pytest.mark.programs


@pytest.mark.parametrize(
    "continuous, iterations", [(False, 200), (True, 250)], ids=["discrete", "continuous"]
)
def test_impala_learns(continuous, iterations):
    learner, reward = learn(make_impala, iterations, continuous)
    assert reward > 0.97, "of 1; at random 1/3, continuous -1/3"
    check_matches(learner.policy, continuous)
    check_values(learner.policy, continuous)


def test_cartpole_gets_better(tmp_path):
    stop = {"target_return": 150.0, "num_env_steps": 2_500_000}
    bindings = [f"StopCriteria.{name} = {value}" for name, value in stop.items()]
    finished, reason = build(EXAMPLES / "impala_cartpole.gin", tmp_path, bindings).train()
    assert finished and reason.startswith("target_return=150.0 reached")
