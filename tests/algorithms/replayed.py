# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sequences as from a replay buffer, and their transitions one by one."""

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, Experience, PolicyState


def make_replayed(algorithm, rng, step_type, discount, weight, action, mask=None):
    """Makes an `Experience` of [L+1, B, ...] with random rewards, observations and recurrent states.

    Args:
        algorithm: whose policy's states they are.
        rng: NumPy's generator.
        step_type, discount, weight, action: arrays [L+1, B, ...].
        mask: None, or array [L+1, B, n]; then observations are dicts of "seen" and "mask".
    """
    shape = step_type.shape
    reward, seen = (rng.normal(size=x).astype(np.float32) for x in (shape, (*shape, 4)))
    rows = Experience(
        step_type=step_type,
        reward=reward,
        discount=discount,
        observation=seen if mask is None else {"seen": seen, "mask": mask},
        prev_action=action,
        env_id=np.zeros(shape, np.int32),
        action=action,
        info=(),
        policy_version=np.zeros(shape, np.int64),
        state=PolicyState(),
        weight=weight,
    )
    state = tf.nest.map_structure(
        lambda s: tf.constant(rng.normal(size=(shape[1], *s.shape)), s.dtype),
        algorithm.policy.state_spec.train,
    )
    return tf.nest.map_structure(tf.constant, rows)._replace(state=PolicyState(train=state))


def shorten(experience, length):
    """Returns the first steps of an `Experience`; the last row bootstraps, with weight 0."""
    rows = tf.nest.map_structure(lambda x: x[: length + 1], experience._replace(state=()))
    weight = rows.weight.numpy()
    weight[-1] = 0
    return rows._replace(state=experience.state, weight=tf.constant(weight))


def list_transitions(experience, n, discount):
    """Yields t, b, the discounted sum of at most n rewards, the factor of the value, and the row of it."""
    step_type, reward = experience.step_type.numpy(), experience.reward.numpy()
    env_discount, length = experience.discount.numpy(), len(reward) - 1
    for t in range(length - n + 1):
        for b in range(reward.shape[1]):
            if step_type[t + 1, b] == FIRST:
                continue
            total, factor, k = 0.0, 1.0, t
            while k < t + n and step_type[k + 1, b] != FIRST:
                total += factor * reward[k + 1, b]
                factor *= discount * env_discount[k + 1, b]
                k += 1
            yield t, b, total, factor, k
