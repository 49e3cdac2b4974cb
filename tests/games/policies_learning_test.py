# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Several policies of one run learn: in games, side by side, and against past versions of themselves."""

import functools

import pytest

from alf.drivers import AsyncOffPolicyDriver
from alf.learner import optimizers
from alf.training import League
from tests.builders import build_learner
from tests.games.league_test import Duel
from tests.games.policies_test import (
    EPISODE_LENGTH,
    check_counts,
    make_chase,
    make_two_algorithms,
    map_in_turn,
    train,
)
from tests.training import small_runs

pytestmark = pytest.mark.programs


def result(trainer, name):
    return trainer.metrics[f"policies/{name}/AverageReturn"].result()


def test_policies_of_agents_with_different_spaces_learn(tmp_path):
    """The reward of each agent is its action: the cat's at most 2, the mouse's begins near 0."""
    trainer = train(tmp_path, make_chase(), 400)
    assert result(trainer, "hunter") > 1.6
    assert result(trainer, "prey") > 1.0


@pytest.mark.parametrize("mapping", [None, map_in_turn])
def test_policies_of_two_algorithms_learn_side_by_side(tmp_path, mapping):
    trainer = train(tmp_path, make_two_algorithms(mapping), 700)
    chance = EPISODE_LENGTH / 3
    assert result(trainer, "a") > 1.8 * chance
    assert result(trainer, "b") > 1.8 * chance
    check_counts(trainer, 100)


def test_the_rating_of_a_policy_that_learns_rises(tmp_path):
    optimizer = optimizers.Adam(0.03)
    experiment = {
        "env": Duel,
        "num_groups": 2,
        "learner": functools.partial(build_learner, optimizer=optimizer),
        "driver": AsyncOffPolicyDriver,
        "policies": League(num_opponents=2, snapshot_interval=10, draw_interval=5),
    }
    trainer = small_runs.make_trainer(tmp_path, {"num_iterations": 300}, experiment)
    trainer.train()
    metrics = trainer.metrics
    # The first version has every result with the probability 1/3; the best action never loses.
    assert metrics["league/Elo"].result() > 1200.0
    assert 0.5 <= metrics["league/Score"].result() <= 1.0
