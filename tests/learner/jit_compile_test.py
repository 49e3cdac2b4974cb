# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""jit_compile: XLA computes the same losses and gradients, of every algorithm, and makes the same updates."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.learner import UnrollLearner, optimizers
from alf.learner.minibatches import merge_unrolls
from alf.networks import GRU
from tests.learner import learner_test
from tests.learner.small_learners import T, collect, make_env, make_learner

IMPACT = functools.partial(PPOAlgorithm, target_update_period=1)
SMALL_GRU = functools.partial(GRU, units=4)


@pytest.mark.parametrize(
    "algorithm, continuous, rnn",
    [
        (ImpalaAlgorithm, False, None),
        (IMPACT, True, None),
        (DqnAlgorithm, False, SMALL_GRU),
        (SacAlgorithm, True, SMALL_GRU),
        (SacAlgorithm, False, None),
    ],
)
def test_losses_and_gradients_are_the_same(algorithm, continuous, rnn):
    env = make_env(continuous)
    learner = make_learner(algorithm, env, rnn, jit_compile=True)
    # Loops over time are unrolled, which takes most of the time where layers are recurrent.
    batch, _ = learner._update.prepare(merge_unrolls(collect(env, learner, 2 if rnn else T)))
    assert learner._update._compute._jit_compile
    _, loss, gradients = learner._update.loss_and_gradients(batch)
    _, compiled_loss, compiled = learner._update._compute(batch)
    assert float(loss.loss) != 0 and loss.extra.keys() == compiled_loss.extra.keys()
    for ours, theirs in zip(tf.nest.flatten(compiled_loss), tf.nest.flatten(loss), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    assert gradients.keys() == compiled.keys()
    for ours, theirs in zip(tf.nest.flatten(compiled), tf.nest.flatten(gradients), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_updates_are_the_same():
    learners = [
        learner_test.make_learner(
            optimizer=optimizers.SGD(0.1),
            make=functools.partial(UnrollLearner, num_epochs=2),
            jit_compile=jit_compile,
        )
        for jit_compile in (False, True)
    ]
    has_graph = [hasattr(learner._update._compute, "get_concrete_function") for learner in learners]
    assert has_graph == [False, True]
    for _ in range(2):
        shown, compiled_shown = (learner_test.train(learner, reward=0.5) for learner in learners)
        assert compiled_shown == pytest.approx(shown, rel=1e-6)
    for ours, theirs in zip(*(learner.variables for learner in learners), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert [int(learner.train_step_counter) for learner in learners] == [4, 4]
