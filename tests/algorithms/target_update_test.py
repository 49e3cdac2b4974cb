# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TargetUpdater: what it copies, when, and how far; variables that are not trainable."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms.algorithm import TargetUpdater
from alf.core.nest_utils import zeros_from_spec
from alf.networks import GRU, LSTM, ActorCriticNetwork, KerasEncoder, NatureEncoder, QValueNetwork

KERAS = functools.partial(KerasEncoder, model=lambda spec: tf.keras.layers.Dense(8))


def as_module(*variables):
    module = tf.Module()
    module.items = variables
    return module


def make(tau=1.0, period=1):
    source, target = tf.Variable([1.0, 2.0]), tf.Variable([5.0, 5.0], trainable=False)
    count, target_count = tf.Variable(3), tf.Variable(0, trainable=False)
    updater = TargetUpdater(as_module(source, count), as_module(target, target_count), tau, period)
    return source, target, count, target_count, tf.function(updater.__call__, autograph=False), updater


def test_targets_begin_as_copies():
    _, target, _, target_count, _, _ = make(tau=0.1, period=5)
    np.testing.assert_array_equal(target, [1.0, 2.0])
    assert target_count.numpy() == 3


def test_target_goes_a_part_of_the_way():
    source, target, count, target_count, update, _ = make(tau=0.25)
    source.assign([9.0, -2.0])
    count.assign(4)
    update()
    np.testing.assert_allclose(target, [0.25 * 9 + 0.75 * 1, 0.25 * -2 + 0.75 * 2])
    assert target_count.numpy() == 4, "there is nothing between integers"
    update()
    np.testing.assert_allclose(target, [0.25 * 9 + 0.75 * 3, 0.25 * -2 + 0.75 * 1])
    np.testing.assert_array_equal(source, [9.0, -2.0])


def test_period():
    source, target, _, _, update, _ = make(period=3)
    seen = []
    for i in range(7):
        source.assign([10.0 + i, 0.0])
        update()
        seen.append(float(target[0]))
    assert seen == [1.0, 1.0, 12.0, 12.0, 12.0, 15.0, 15.0]


def test_where_it_is_between_two_moves_is_in_a_checkpoint(tmp_path):
    *_, update, updater = make(period=3)
    update()
    path = tf.train.Checkpoint(updater=updater).write(str(tmp_path / "checkpoint"))
    source, target, _, _, update, updater = make(period=3)
    tf.train.Checkpoint(updater=updater).read(path).assert_consumed()
    source.assign([7.0, 7.0])
    update()
    np.testing.assert_array_equal(target, [1.0, 2.0])
    update()
    np.testing.assert_array_equal(target, [7.0, 7.0])


def test_sources_and_targets_must_be_alike():
    with pytest.raises(ValueError):
        TargetUpdater(as_module(tf.Variable(1.0)), as_module())
    with pytest.raises(ValueError):
        TargetUpdater(as_module(tf.Variable([1.0])), as_module(tf.Variable([1.0, 2.0])))


@pytest.mark.parametrize(
    "make_network",
    [
        lambda: ActorCriticNetwork(tf.TensorSpec((4,)), 2, spectral_norm=True, rnn=LSTM),
        lambda: QValueNetwork(tf.TensorSpec((4,)), 2, layer_norm=True, rnn=GRU),
        lambda: ActorCriticNetwork(tf.TensorSpec((1, 36, 36), tf.uint8), 2, (), encoder=NatureEncoder),
        lambda: ActorCriticNetwork(tf.TensorSpec((4,)), 2, (), encoder=KERAS),
        lambda: QValueNetwork(tf.TensorSpec((4,)), 2, layer_norm=True, rnn=GRU, compute_dtype="bfloat16"),
        lambda: ActorCriticNetwork(tf.TensorSpec((4,)), 2, (), encoder=KERAS, compute_dtype="bfloat16"),
    ],
    ids=["mlp", "q", "nature", "keras", "q in bfloat16", "keras in bfloat16"],
)
def test_target_network_is_a_copy_that_is_not_trainable(make_network):
    network, target = make_network(), make_network()
    updater = TargetUpdater(network, target)
    assert network.trainable_variables and target.trainable_variables == ()
    for v in network.variables:
        v.assign_add(tf.ones_like(v))
    x = tf.constant(np.random.default_rng(0).integers(0, 9, (3, *target._spec.shape)), target._spec.dtype)
    before = target.policy(x, zeros_from_spec(target.state_spec, 3))[0]
    updater()
    after = target.policy(x, zeros_from_spec(target.state_spec, 3))[0]
    assert np.abs(after - before).max() > 1e-3
    np.testing.assert_array_equal(after, network.policy(x, zeros_from_spec(target.state_spec, 3))[0])
    with tf.GradientTape() as tape:
        target.policy(x, zeros_from_spec(target.state_spec, 3))
    assert tape.watched_variables() == ()
