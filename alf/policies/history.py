# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers that add to the observation what happened before: action, reward, number of steps.

Each adds one entry to an observation that is a dict. Any other observation becomes the entry "observation" of
a new dict first. The encoders of networks take such observations as they are, see `ObservationEncoder`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from alf.config.kinds import PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Nest, NestedSpec
from alf.core.nest_utils import BoundedTensorSpec, zero_where
from alf.data_structures import FIRST, Experience, TimeStep
from alf.errors import ConfigError
from alf.policies.data_transformers import DataTransformer

_MAX_CHOICES = 2**20  # a spec without real bounds has more: those of its dtype


@configurable("alf.policies")
class PreviousAction(DataTransformer):
    """Adds "prev_action": the action that led to the observation, zeros where an episode begins.

    Floats stay as they are, as the policy chose them and not clipped. Integers become one-hot, float32: n
    numbers for an integer with n values, and for an array of integers those of each one after another. A nest
    of actions is a nest of such entries. An integer without bounds is a `ConfigError`.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        action_spec: nest of unbatched tensor specs of the actions, which `Pipeline` gives.
    """

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, action_spec: NestedSpec
    ) -> None:
        if action_spec is None:
            raise ConfigError("PreviousAction needs the action_spec: give it to the Pipeline")
        self._parts = [_make_encoding(spec) for spec in tf.nest.flatten(action_spec)]
        leaves = [spec for spec, _ in self._parts]
        entry_spec = tf.nest.pack_sequence_as(action_spec, leaves)
        super().__init__(_add_to_spec(observation_spec, "prev_action", entry_spec), reward_spec)

    def transform(self, data: Any) -> Any:
        actions = tf.nest.flatten(data.prev_action)
        encoded = [encode(x) for (_, encode), x in zip(self._parts, actions, strict=True)]
        encoded = zero_where(tf.equal(data.step_type, FIRST), encoded)
        entry = tf.nest.pack_sequence_as(data.prev_action, encoded)
        return data._replace(observation=_add(data.observation, "prev_action", entry))


@configurable("alf.policies")
class PreviousReward(DataTransformer):
    """Adds "prev_reward": the reward that came with the observation, 0 where an episode begins.

    It is the reward as the transformers before this one left it: put it after `RewardClipping`, for example,
    for the clipped reward. A vector reward is a vector here, too. `Agent.predict` is not told any reward, so
    the policy sees 0 then; `Agent.act`, evaluation, and exported policies get the reward.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
    """

    def __init__(self, observation_spec: NestedSpec, reward_spec: NestedSpec) -> None:
        spec = tf.TensorSpec(reward_spec.shape, tf.float32)
        super().__init__(_add_to_spec(observation_spec, "prev_reward", spec), reward_spec)

    def transform(self, data: Any) -> Any:
        reward = zero_where(tf.equal(data.step_type, FIRST), data.reward)
        return data._replace(observation=_add(data.observation, "prev_reward", reward))


@configurable("alf.policies")
class EpisodeStep(DataTransformer):
    """Adds "episode_step": min(n, limit) / limit, float32, where n counts the steps of the episode so far.

    So it is 0 with the first observation of an episode, and 1 from step number `limit` on. A replay buffer
    does not store the count: it reads `limit` rows in front of each sequence, and the `limit` oldest steps of
    each environment begin none. With large observations that takes time, and a small limit is better.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        limit: int, at least 1: the number of steps from which on the entry is 1.
    """

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, limit: PositiveInt = 1000
    ) -> None:
        self._limit = limit
        spec = _add_to_spec(observation_spec, "episode_step", tf.TensorSpec((), tf.float32))
        super().__init__(spec, reward_spec, tf.TensorSpec((), tf.int32), context=limit)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        count = tf.where(time_step.is_first(), 0, state)
        return self._add_count(time_step, count), tf.minimum(count + 1, self._limit)

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        length = experience.step_type.shape[0]
        row = tf.range(length)[:, tf.newaxis]
        # In which row the episode of each row began; `state` rows before row 0 if it began there.
        begin = tf.where(tf.equal(experience.step_type, FIRST), row, -state)
        distance = 1
        while distance < length:  # the maximum of all rows so far, in log2(length) operations
            earlier = tf.concat([tf.repeat(begin[:1], distance, axis=0), begin[:-distance]], axis=0)
            begin = tf.maximum(begin, earlier)
            distance *= 2
        return self._add_count(experience, tf.minimum(row - begin, self._limit))

    def _add_count(self, data, count):
        # A product, because some graphs divide by a constant in another way than others.
        value = tf.cast(count, tf.float32) * (1.0 / self._limit)
        return data._replace(observation=_add(data.observation, "episode_step", value))


def _make_encoding(spec):
    """The spec of an encoded action of a spec, and a function that encodes actions [..., *shape]."""
    if not spec.dtype.is_integer:
        return tf.TensorSpec(spec.shape, spec.dtype), lambda action: action
    num_values = [2**63]
    if isinstance(spec, BoundedTensorSpec):
        minimum, maximum = (
            np.broadcast_to(bound, spec.shape).ravel().astype(object)
            for bound in (spec.minimum, spec.maximum)
        )
        num_values = (maximum - minimum + 1).tolist()
    if sum(num_values) > _MAX_CHOICES:
        raise ConfigError(f"PreviousAction needs integers with bounds, not {spec}")
    values = np.concatenate([np.arange(n) + low for n, low in zip(num_values, minimum)]).astype(np.int64)
    element = np.repeat(np.arange(len(num_values)), num_values)

    def encode(action):
        leading = tf.shape(action)[: action.shape.rank - spec.shape.rank]
        flat = tf.reshape(action, tf.concat([leading, [len(num_values)]], axis=0))
        return tf.cast(tf.equal(tf.cast(tf.gather(flat, element, axis=-1), tf.int64), values), tf.float32)

    return tf.TensorSpec((len(values),), tf.float32), encode


def _add(observation, name, entry):
    """Adds an entry to an observation, or to the spec of one."""
    entries = dict(observation) if isinstance(observation, Mapping) else {"observation": observation}
    return {**entries, name: entry}


def _add_to_spec(observation_spec, name, entry_spec):
    if isinstance(observation_spec, Mapping) and name in observation_spec:
        raise ConfigError(f"the observation has an entry {name!r} already: no other one can be added")
    return _add(observation_spec, name, entry_spec)
