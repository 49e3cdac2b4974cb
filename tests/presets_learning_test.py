# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Presets learn, with nothing but an environment, an algorithm and a number of steps.

A target is far above what a random policy gets, and above what broken settings reached: PPO without epochs
and normalization made 99 of 500 in CartPole, and about -1,200 in Pendulum, and so does no learning at all.
"""

import pytest

import alf

# By algorithm and environment: steps, and the average return of the last 100 episodes.
TARGETS = {
    ("ppo", "CartPole-v1"): (60_000, 350.0),
    ("ppo", "Pendulum-v1"): (150_000, -400.0),
    ("ppo", "FrozenLake-v1"): (200_000, 0.5),
    ("ppo", "CliffWalking-v1"): (200_000, -60.0),
    ("impala", "CartPole-v1"): (150_000, 250.0),
    ("dqn", "CartPole-v1"): (50_000, 200.0),
    ("sac", "CartPole-v1"): (15_000, 100.0),  # with actions that are integers
    ("sac", "Pendulum-v1"): (15_000, -500.0),
    ("td3", "Pendulum-v1"): (20_000, -650.0),  # all of its 100 episodes
    ("qr_dqn", "CartPole-v1"): (50_000, 200.0),
    ("apex", "CartPole-v1"): (60_000, 150.0),  # with epsilons up to 0.4
    ("r2d2", "CartPole-v1"): (40_000, 100.0),
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("algorithm", "env"), TARGETS)
def test_a_preset_learns(algorithm, env, tmp_path):
    steps, target = TARGETS[algorithm, env]
    _, run = alf.train(env, algorithm, steps, tmp_path / "run", seed=0)
    assert float(run.metrics["AverageReturn"].result()) > target
