# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RandomPolicy: an opponent that acts at random."""

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import PolicyStep
from alf.ops import draws
from alf.policies.action_distributions import has_mask, make_action_distribution, split_mask
from alf.policies.policy import Policy
from alf.workers.masks import ACTION_MASK

_LARGEST = 10.0  # limit of random numbers where the spec has no bounds


class RandomPolicy(Policy):
    """Draws integers uniformly from the allowed actions and floats uniformly within their bounds.

    An entry "action_mask" of the observation, if it is a dict, says which integers are allowed. Agents with
    different spaces have one such entry each.
    """

    def __init__(self, observation_spec, action_spec):
        super().__init__(observation_spec, action_spec, name="random_policy")
        is_masked = has_mask(observation_spec, ACTION_MASK)
        self._masked = make_action_distribution(action_spec) if is_masked else None

    def rollout_step(self, time_step, state):
        num_rows = tf.shape(time_step.step_type)[0]
        if self._masked is None:
            action = tf.nest.map_structure(lambda spec: _draw(spec, num_rows), self.action_spec)
            return PolicyStep(action)
        _, mask = split_mask(time_step.observation, ACTION_MASK)
        # Equal logits: all allowed actions have the same probability.
        params = self._masked.params(tf.zeros((num_rows, self._masked.num_outputs)), mask)
        return PolicyStep(self._masked.action(self._masked.sample(params)))


def _draw(spec, num_rows):
    """Draws random numbers within the bounds of a spec, [num_rows, ...]."""
    low, high = -_LARGEST, _LARGEST
    if isinstance(spec, BoundedTensorSpec):
        low, high = np.asarray(spec.minimum, np.float64), np.asarray(spec.maximum, np.float64)
    if spec.dtype.is_floating:
        low, high = np.maximum(low, -_LARGEST), np.minimum(high, _LARGEST)
    # In float64, which holds all bounds of int32 exactly.
    x = draws.uniform((num_rows, *spec.shape), tf.float64)
    if spec.dtype.is_integer:
        # x is below 1, so the largest integer is `high`.
        return tf.cast(low + tf.floor(x * (high - low + 1)), spec.dtype)
    return tf.cast(low + x * (high - low), spec.dtype)
