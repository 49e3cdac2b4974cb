# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Observations, actions and rewards of random nested spaces pass workers and queues unchanged."""

import functools

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alf.data_structures import FIRST
from alf.drivers import AsyncOffPolicyDriver
from alf.environments import PythonEnvironment
from alf.testing.fakes import FrozenPolicy, RecordingLearner
from tests.builders import build_driver, collect_and_observe
from tests.workers.envs import SampleEnv, hash_action

SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)
KEYS = st.sampled_from(["b", "a", "Z", "0", "x y", "ü"])


def box(dtype):
    low, high = (0, 255) if np.dtype(dtype).kind == "u" else (-5, 5)
    return SHAPES.map(lambda shape: spaces.Box(low, high, shape, dtype))


OBSERVATION_LEAVES = st.one_of(
    *[box(dtype) for dtype in (np.float32, np.float64, np.uint8, np.int32, np.int64)],
    SHAPES.map(lambda shape: spaces.Box(-np.inf, np.inf, shape, np.float32)),
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 5), st.integers(-3, 3)),
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    st.integers(1, 4).map(spaces.MultiBinary),
)
ACTION_LEAVES = st.one_of(
    st.integers(1, 5).map(spaces.Discrete),
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(spaces.MultiDiscrete),
    SHAPES.map(lambda shape: spaces.Box(0, 9, shape, np.float32)),
)


def nested(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.dictionaries(KEYS, inner, min_size=1, max_size=3).map(spaces.Dict),
            st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        ),
        max_leaves=4,
    )


def plain(x):
    """A sample as `tf.nest` sees it: Gymnasium's dict is ordered, keys sorted there."""
    if isinstance(x, dict):
        return {key: plain(x[key]) for key in x}
    return tuple(plain(part) for part in x) if isinstance(x, tuple) else np.asarray(x)


def collect(env, num_unrolls):
    """Rows [rows, ...] of one environment, unrolls joined, and the algorithm's actions."""
    learner = RecordingLearner(FrozenPolicy(env))
    driver = build_driver(AsyncOffPolicyDriver, [env], learner, unroll_length=3)
    driver.start()
    try:
        for _ in range(num_unrolls):
            collect_and_observe(driver)
    finally:
        driver.stop()
    unrolls = learner.unrolls(1)[0]
    return tf.nest.map_structure(lambda *x: np.concatenate([part[:-1, 0] for part in x]), *unrolls)


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    derandomize=True,
)
@given(nested(OBSERVATION_LEAVES), nested(ACTION_LEAVES), st.booleans())
def test_every_space_arrives_unchanged(observation_space, action_space, in_worker):
    make = functools.partial(SampleEnv, observation_space, action_space, seed=3)
    env = PythonEnvironment([make], num_workers=int(in_worker))
    rows = collect(env, num_unrolls=3)
    observation_space.seed(3)
    for t, step_type in enumerate(rows.step_type):
        expected = plain(observation_space.sample())
        seen = tf.nest.map_structure(lambda x, t=t: x[t], rows.observation)
        tf.nest.assert_same_structure(expected, seen)
        for x, y in zip(tf.nest.flatten(expected), tf.nest.flatten(seen), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
        if step_type != FIRST:
            action = tf.nest.map_structure(lambda x, t=t: x[t - 1], rows.action)
            assert abs(rows.reward[t] - hash_action(action)) < 1e-3
    assert len(rows.step_type) == 9 and (rows.step_type == FIRST).sum() == 2
