# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Nests of actions."""

import numpy as np
import tensorflow as tf

from alf.policies.action_distributions import (
    make_action_distribution,
)
from tests.policies.action_distributions.cases import NEST, integers, normal


def test_masks_of_a_nest():
    actions = make_action_distribution(NEST)
    outputs = normal(4, actions.num_outputs)
    one, three = np.tile([0, 1, 0], (4, 1)), np.tile([0, 1, 0, 0, 0, 1, 1, 0, 0], (4, 1))
    free = actions.params(outputs)
    for mask in ({}, None, {"keys": None}, {"keys": (None, None)}, {"hand": None}):
        for x, y in zip(tf.nest.flatten(actions.params(outputs, mask)), tf.nest.flatten(free), strict=True):
            np.testing.assert_array_equal(x, y)
    params = actions.params(outputs, {"keys": [one, (three, None)]})
    raw = actions.sample(params)
    np.testing.assert_array_equal(raw["keys"].first, [1] * 4)
    np.testing.assert_array_equal(raw["keys"].second[0], [[1, 3, 0]] * 4)
    np.testing.assert_array_equal(params["keys"].second[1][0], free["keys"].second[1][0])
    assert actions.has_choice(params).numpy().all()


def test_a_nest_has_a_choice_where_a_part_has_one():
    actions = make_action_distribution({"a": integers(0, 1), "b": integers(0, 2)})
    masks = {"a": np.array([[1, 0], [1, 1], [1, 0]]), "b": np.array([[1, 0, 0], [1, 0, 0], [0, 1, 1]])}
    params = actions.params(normal(3, actions.num_outputs), masks)
    np.testing.assert_array_equal(actions.has_choice(params), [False, True, True])


def test_parts_carry_their_own_noise():
    actions = make_action_distribution(NEST, noise_correlation=0.5)
    params = actions.params(normal(4, actions.num_outputs))
    noise = tf.nest.map_structure(lambda spec: tf.ones((4, *spec.shape)), actions.noise_spec)
    assert len(tf.nest.flatten(noise)) == 1  # integers have none
    raw, noise = tf.function(actions.explore)(params, noise, tf.fill((4,), False))
    tf.nest.assert_same_structure(actions.noise_spec, noise)
    tf.nest.assert_same_structure(actions.raw_spec, raw)
    (x,) = tf.nest.flatten(noise)
    np.testing.assert_allclose(raw["hand"], params["hand"][0] + tf.exp(params["hand"][1]) * x, rtol=1e-5)

    plain = make_action_distribution(NEST)
    raw, noise = plain.explore(params, plain.noise_spec, tf.fill((4,), False))
    assert plain.noise_spec == noise == ()
    tf.nest.assert_same_structure(plain.raw_spec, raw)
