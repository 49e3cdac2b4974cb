# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Scaling, clipping and weighting of rewards."""

import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.policies.data_transformers import (
    RewardClipping,
    RewardScaling,
    RewardWeighting,
)
from tests.policies.data_transformers.rows import REWARDS, VECTOR, make_rows


def test_rewards_are_scaled_and_clipped():
    rows = make_rows(VECTOR, REWARDS)
    scaled = RewardScaling(VECTOR, REWARDS, scale=0.5).transform(rows).reward
    np.testing.assert_allclose(scaled, rows.reward.numpy() * 0.5)
    clipped = RewardClipping(VECTOR, REWARDS, minimum=-0.5, maximum=2).transform(rows).reward
    np.testing.assert_allclose(clipped, np.clip(rows.reward, -0.5, 2))


def test_vector_rewards_are_weighted_and_weights_may_change():
    rows = make_rows(VECTOR, REWARDS)
    weighting = RewardWeighting(VECTOR, REWARDS, weights=(1, -2.0, 0.5))
    assert weighting.reward_spec.shape == ()
    transform = tf.function(weighting.transform)
    np.testing.assert_allclose(transform(rows).reward, rows.reward.numpy() @ [1, -2, 0.5], rtol=1e-5)
    np.testing.assert_array_equal(weighting.weights, [1, -2, 0.5])
    weighting.set_weights([0.0, 1.0, 0.0])
    np.testing.assert_allclose(transform(rows).reward, rows.reward[..., 1], rtol=1e-6)


@pytest.mark.parametrize("wrong", [("a", 1.0, 1.0), (1.0, float("nan"), 1.0), (1.0, 1.0), 2.0, None])
def test_weights_are_one_finite_number_for_each_component(wrong):
    weighting = RewardWeighting(VECTOR, REWARDS, weights=np.array([1, 2, 3]))
    np.testing.assert_array_equal(weighting.weights, [1, 2, 3])
    with pytest.raises(ConfigError, match="RewardWeighting.weights is .*: it must be a list of numbers"):
        weighting.set_weights(wrong)


def test_without_weights_the_sum_is_plain():
    rows = make_rows(VECTOR, REWARDS)
    seen = RewardWeighting(VECTOR, REWARDS).transform(rows).reward
    np.testing.assert_allclose(seen, np.sum(rows.reward, axis=-1), rtol=1e-5)
