# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The distribution and the replayer in docs/algorithms/own.md, written with public names alone, are right."""

import functools
import types

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.core.nest_utils import BoundedTensorSpec
from alf.learner import optimizers
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.algorithms.learning import find_private_names, train
from tests.builders import build_learner
from tests.docs.blocks import ROOT, read_blocks

BLOCKS = {x.title: x.text for x in read_blocks(ROOT / "docs/algorithms/own.md") if x.title}


@pytest.fixture(scope="module")
def page():
    """What the files of the page define."""
    names = {}
    for title in ("laplace.py", "twice.py"):
        # Without gin, which would know both this class and the one of the page that blocks_test imports.
        exec(BLOCKS[title].replace("@gin.configurable\n", ""), names)
    return types.SimpleNamespace(**names)


def integrate(y, x):
    """The trapezoidal rule, whose name in NumPy depends on the version."""
    return np.sum((y[1:] + y[:-1]) * np.diff(x)) / 2


def test_the_formulas_are_those_of_the_density(page):
    actions = page.LaplaceActions(BoundedTensorSpec((2,), tf.float32, -1.0, 1.0))
    p = actions.params(tf.constant([0.3, -0.5, -0.7, 0.4]))
    q = actions.params(tf.constant([-0.2, 0.1, 0.2, -0.6]))
    x = np.linspace(-60.0, 60.0, 1_200_001, dtype=np.float64)
    entropy = kl = 0.0
    for i in range(2):
        density_p, density_q = (
            np.exp(-np.abs(x - loc[i]) / np.exp(log_scale[i])) / (2 * np.exp(log_scale[i]))
            for loc, log_scale in (np.array(p, np.float64), np.array(q, np.float64))
        )
        entropy -= integrate(density_p * np.log(density_p), x)
        kl += integrate(density_p * np.log(density_p / density_q), x)
        at = np.searchsorted(x, 0.25)
        one = [tf.stack([parameter[i]]) for parameter in p]
        np.testing.assert_allclose(actions.log_prob(one, x[at : at + 1]), np.log(density_p[at]), rtol=1e-4)
    np.testing.assert_allclose(actions.entropy(p), entropy, rtol=1e-4)
    np.testing.assert_allclose(actions.kl(p, q), kl, rtol=1e-4)
    np.testing.assert_allclose(actions.kl(p, p), 0.0, atol=1e-6)
    many = [tf.repeat(parameter[tf.newaxis], 100_000, axis=0) for parameter in p]
    drawn = actions.sample(many).numpy()
    np.testing.assert_allclose(np.median(drawn, axis=0), p[0], atol=0.02)
    np.testing.assert_allclose(np.mean(np.abs(drawn - p[0]), axis=0), np.exp(p[1]), rtol=0.02)


def test_impala_learns_with_both(page):
    handed_out = []

    class Counting(page.TwiceReplayer):
        def replay_all(self):
            experience, num_fresh = super().replay_all()
            handed_out.append((len(experience.step_type), num_fresh))
            return experience, num_fresh

    def make_learner(specs):
        network = functools.partial(ActorCriticNetwork, fc_layer_params=(32,))
        policy = ActorCriticPolicy(specs.observation, specs.action, network, page.LaplaceActions)
        algorithm = ImpalaAlgorithm(policy, discount=0.5, entropy_weight=0.0)
        return build_learner(algorithm, optimizers.Adam(3e-3), replayer=Counting(), max_grad_norm=1.0)

    env = MatchObservationEnvironment(16, episode_length=4, continuous=True)
    learner, average_return = train(env, make_learner, 8, 600)
    assert average_return > 3.5, "of 4, less the noise; at random below 0"
    assert handed_out[:3] == [(1, 1), (2, 1), (2, 1)]
    assert int(learner.progress.env_steps) >= 600 * 16 * 6, "old unrolls are not counted again"


@pytest.mark.parametrize("title", ["laplace.py", "twice.py"])
def test_they_use_no_private_name_of_alf(title):
    assert find_private_names(BLOCKS[title]) <= {"__init__"}
