# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Specs and random time steps that the tests share."""

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import zero_where, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, Experience, TimeStep

VECTOR = tf.TensorSpec((2,), tf.float32)
IMAGE = tf.TensorSpec((1, 3, 3), tf.uint8)
NESTED = {"x": VECTOR, "image": IMAGE}
REWARD = tf.TensorSpec((), tf.float32)
REWARDS = tf.TensorSpec((3,), tf.float32)


def make_rows(observation_spec, reward_spec, length=12, batch_size=5, seed=0):
    """Random time steps [length, B]: FIRST at the start, after LAST, and once where an episode breaks off."""
    rng = np.random.default_rng(seed)
    step_type = np.full((length, batch_size), MID, np.int32)
    step_type[0] = FIRST
    for b in range(batch_size):
        last = 2 + b
        step_type[last, b], step_type[last + 1, b] = LAST, FIRST
    step_type[9, 0] = FIRST
    dims = (length, batch_size)

    def sample(spec):
        x = (
            rng.normal(3.0, 2.0, (*dims, *spec.shape))
            if spec.dtype.is_floating
            else rng.integers(0, 255, (*dims, *spec.shape))
        )
        return tf.constant(x, spec.dtype)

    zeros = tf.zeros(dims)
    reward = tf.constant(rng.normal(1.0, 3.0, (*dims, *reward_spec.shape)), tf.float32)
    observation = tf.nest.map_structure(sample, observation_spec)
    env_id = tf.zeros(dims, tf.int32)
    return TimeStep(tf.constant(step_type), reward, zeros + 1, observation, zeros, env_id)


def run_steps(transformer, rows):
    """What an actor sees: rows one by one, and the state that entered each."""
    state = zeros_from_spec(transformer.state_spec, rows.step_type.shape[1])
    seen, states = [], []
    for t in range(rows.step_type.shape[0]):
        row = tf.nest.map_structure(lambda x, t=t: x[t], rows)
        is_first = row.is_first()
        states.append(state)
        state = tf.nest.map_structure(lambda x, f=is_first: zero_where(f, x), state)
        row, state = transformer.step(row, state)
        seen.append(row)
    return tf.nest.map_structure(lambda *x: tf.stack(x), *seen), states


def as_experience(rows, state=()):
    version = tf.zeros(rows.step_type.shape, tf.int64)
    return Experience(*rows, action=rows.prev_action, info=(), policy_version=version, state=state)
