# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The torso: encoder, hidden layers, recurrent layer, in this order."""

import numpy as np
import tensorflow as tf

from alf.networks import GRU
from alf.networks.torso import Torso

VECTOR = tf.TensorSpec((4,), tf.float32)
T, B = 3, 2
X = np.random.default_rng(0).normal(size=(T * B, 4)).astype(np.float32)
IS_FIRST = np.zeros((T, B), bool)


def make_torso(encoder, rnn=None):
    return Torso("Network", VECTOR, encoder, rnn, "float32", 0, (8, 3), "tanh")


def make_double(calls):
    class Double(tf.Module):
        size = 4

        def __call__(self, observation, training):
            calls.append(training)
            return 2 * observation

    return lambda observation_spec, seed: Double()


def test_layers_follow_the_encoder():
    calls = []
    torso = make_torso(make_double(calls))
    assert torso.size == 3 and torso.state_spec == ()
    calls.clear()
    expected = torso._layers(2 * X)
    for training in (True, False):
        features, state = torso.unroll(X, (), None, training)
        np.testing.assert_array_equal(features, expected)
        assert state == ()
    features, state = torso.step(X, ())
    np.testing.assert_array_equal(features, expected)
    assert state == () and calls == [True, False, False]


def test_a_recurrent_layer_follows_the_layers():
    calls = []
    torso = make_torso(make_double(calls), lambda size, seed: GRU(size, units=5, seed=seed))
    assert torso.size == 5 and torso.state_spec == tf.TensorSpec((5,))
    calls.clear()
    state = tf.ones((B, 5))
    x = torso._layers(2 * X)
    expected = torso._rnn.unroll(x, state, tf.constant(IS_FIRST))
    for a, b in zip(torso.unroll(X, state, tf.constant(IS_FIRST), False), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    for a, b in zip(torso.step(X[:B], state), torso._rnn.step(x[:B], state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert calls == [False, False]
