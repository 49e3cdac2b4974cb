# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Normalizers against NumPy."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import PPOAlgorithm
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST, MID, TimeStep
from alf.policies.data_transformers import (
    ObservationNormalizer,
    RewardNormalizer,
)
from alf.training import Experiment
from tests.policies.data_transformers.rows import NESTED, REWARD, VECTOR, as_experience, make_rows, run_steps


def test_observations_are_normalized_by_all_that_was_observed():
    rows = make_rows(NESTED, REWARD)
    normalizer = ObservationNormalizer(NESTED, REWARD, clip=1.5)
    normalizer.observe(as_experience(rows), ())
    seen = normalizer.transform(rows)
    x = rows.observation["x"].numpy().astype(np.float64)
    used = x[:-1].reshape(-1, 2)
    expected = np.clip((x - used.mean(0)) / used.std(0), -1.5, 1.5)
    np.testing.assert_allclose(seen.observation["x"], expected, rtol=1e-5, atol=1e-6)
    assert np.abs(seen.observation["x"]).max() == 1.5
    np.testing.assert_array_equal(seen.observation["image"], rows.observation["image"])


def test_a_first_step_that_is_repeated_counts_once():
    """As with `sticky` drivers, also where the last row of an unroll begins an episode."""
    rows = make_rows(NESTED, REWARD, length=12, batch_size=2)
    step_type = rows.step_type.numpy()
    step_type[3:7, 0] = FIRST
    step_type[10:, 1] = FIRST
    rows = rows._replace(step_type=tf.constant(step_type))
    normalizer = ObservationNormalizer(NESTED, REWARD)
    normalizer.observe(as_experience(rows), ())
    is_used = np.ones((12, 2), bool)
    is_used[3:6, 0] = is_used[10, 1] = is_used[11] = False
    x = rows.observation["x"].numpy().astype(np.float64)
    used = x[is_used]
    expected = np.clip((x - used.mean(0)) / used.std(0), -10, 10)
    np.testing.assert_allclose(normalizer.transform(rows).observation["x"], expected, rtol=1e-5, atol=1e-6)


def normalize_in_numpy(x, clip=10.0):
    x = x.astype(np.float64)
    return np.clip((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-8), -clip, clip)


def observe_and_normalize(x):
    """Normalises observations [T, B] by their own statistics, in a graph."""
    spec = tf.TensorSpec((), x.dtype)
    normalizer = ObservationNormalizer(spec, REWARD)
    rows = as_experience(make_rows(spec, REWARD, length=len(x) + 1, batch_size=x.shape[1]))
    normalizer.observe(rows._replace(observation=tf.constant(np.concatenate([x, x[:1]]))), ())
    seen = tf.function(normalizer.transform)(rows._replace(observation=tf.constant(x))).observation
    assert seen.dtype == x.dtype
    return seen.numpy()


def test_a_constant_float64_observation_becomes_zero():
    """Its mean in float32 would be 0.01 away, a hundred times the deviation of 1e-4 that constants have."""
    x = np.full((12, 5), 1234567.89)
    # The mean is off by at most one rounding of each addition.
    bound = x.size * np.finfo(np.float64).eps * x[0, 0] / 1e-4
    assert bound < 1e-3
    np.testing.assert_allclose(observe_and_normalize(x), np.zeros_like(x), atol=bound)


def test_a_float64_observation_far_from_zero_keeps_its_digits():
    x = 1000000.03 + 0.01 * np.random.default_rng(0).normal(size=(12, 5))
    bound = x.size * np.finfo(np.float64).eps * 1e6 / 0.005  # as above; the deviation is above 0.005
    assert bound < 1e-5
    expected = normalize_in_numpy(x.reshape(-1)).reshape(x.shape)
    np.testing.assert_allclose(observe_and_normalize(x), expected, atol=bound)


def test_a_float32_observation_may_be_two_neighbouring_numbers():
    """Their mean is no float32 number."""
    x = np.full((12, 5), 1e6, np.float32)
    x[::2] = np.nextafter(x[0, 0], np.float32(np.inf))
    expected = np.where(np.arange(12)[:, np.newaxis] % 2 == 0, 1.0, -1.0)
    np.testing.assert_allclose(observe_and_normalize(x), np.broadcast_to(expected, x.shape), rtol=1e-4)


def test_rewards_far_from_zero_are_divided_as_in_float64():
    rows = make_rows(VECTOR, REWARD)
    rows = rows._replace(reward=1e6 + rows.reward)
    normalizer = RewardNormalizer(VECTOR, REWARD, discount=0.0, clip=None)
    normalizer.observe(as_experience(rows), tf.zeros(5))
    reward = rows.reward.numpy().astype(np.float64)
    expected = reward / np.std(reward[1:][rows.step_type[1:] != FIRST])
    # The epsilon of 1e-8 aside, the deviation and the quotient are rounded once each.
    seen = normalizer.unroll(as_experience(rows), ()).reward
    np.testing.assert_allclose(seen, expected, rtol=2 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("clip", [0.7, None])
def test_rewards_are_divided_by_the_deviation_of_the_sums_so_far(clip):
    rows = make_rows(VECTOR, REWARD)
    normalizer = RewardNormalizer(VECTOR, REWARD, discount=0.9, clip=clip)
    for start, stop in ((0, 7), (6, 12)):  # unrolls overlap in one row
        part = as_experience(tf.nest.map_structure(lambda x, i=start, j=stop: x[i:j], rows))
        normalizer.observe(part, run_steps(normalizer, rows)[1][start])
    sums = []
    for b in range(5):
        total = 0.0
        for t in range(12):
            total = 0.0 if rows.step_type[t, b] == FIRST else 0.9 * total + float(rows.reward[t, b])
            if rows.step_type[t, b] != FIRST:
                sums.append(total)
    expected = rows.reward.numpy() / np.std(sums)
    expected = expected if clip is None else np.clip(expected, -clip, clip)
    np.testing.assert_allclose(normalizer.unroll(as_experience(rows), ()).reward, expected, rtol=1e-5)


DISCOUNTS = {
    (): 0.99,
    ("PPOAlgorithm.discount = 0.5",): 0.5,
    ("PPOAlgorithm.discount = 0.5", "RewardNormalizer.discount = 0.25"): 0.25,
    ("PPOAlgorithm.discount = %mine", "mine = 0.5"): 0.5,
    ("PPOAlgorithm.discount = @LinearSchedule()", "LinearSchedule.start = 0.5", "LinearSchedule.end = 0.9")
    + ("LinearSchedule.over = 100",): 0.5,
    ("Experiment.algorithm = @mine/PPOAlgorithm", "mine/PPOAlgorithm.discount = 0.5"): 0.5,
    ("Experiment.algorithm = 'ppo'", "PPOAlgorithm.discount = 0.5"): 0.5,
}


def read_discount(experiment):
    """Returns the factor of the first of two rewards in the sum of a policy's `RewardNormalizer`."""
    action_spec = BoundedTensorSpec((), tf.int32, 0, 1)
    transformer = experiment.make_policy(VECTOR, action_spec, REWARD).data_transformer
    state = tf.zeros([1])
    for reward in (1.0, 0.0):
        step = TimeStep(tf.constant([MID]), tf.constant([reward]), tf.ones([1]), tf.zeros([1, 2]), (), ())
        (state,) = transformer.step(step, (state,))[1]
    return float(state[0])


def test_the_discount_is_that_of_the_algorithm(subtests):
    for lines, expected in DISCOUNTS.items():
        with subtests.test(lines), own_config():
            parse_config([], ["Experiment.algorithm = @PPOAlgorithm", *lines])
            experiment = Experiment(data_transformers=[RewardNormalizer])
            assert read_discount(experiment) == pytest.approx(expected)
    for make, expected in ((functools.partial(PPOAlgorithm, discount=0.5), 0.5), (lambda policy: None, 0.99)):
        experiment = Experiment(data_transformers=[RewardNormalizer], algorithm=make)
        assert read_discount(experiment) == pytest.approx(expected)
