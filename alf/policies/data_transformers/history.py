# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers that add the past to the observation: last action, last reward, number of steps.

Each adds one entry to an observation that is a dict. Any other observation first becomes the entry
"observation" of a new dict. `ObservationEncoder` of the networks takes such observations without a setting.
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
from alf.policies.data_transformers.data_transformer import DataTransformer

_MAX_CHOICES = 2**20  # a spec without real bounds has more, because its bounds are the limits of its dtype


@configurable("alf.policies")
class PreviousAction(DataTransformer):
    """Adds "prev_action": the action that led to the observation, zeros where an episode begins.

    Floats are added as the policy chose them, before they are clipped. An integer with n values becomes a
    one-hot float32 [n]; the one-hot vectors of an array of integers are concatenated. A nest of actions
    becomes a nest of such entries.

    Args:
        observation_spec: nest of unbatched tensor specs of its input.
        reward_spec: unbatched tensor spec of the rewards.
        action_spec: nest of unbatched tensor specs of the actions; `Pipeline` passes it.

    Raises:
        ConfigError: for integers without bounds.
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
        # The action before a FIRST step belongs to the episode before.
        encoded = zero_where(tf.equal(data.step_type, FIRST), encoded)
        entry = tf.nest.pack_sequence_as(data.prev_action, encoded)
        return data._replace(observation=_add(data.observation, "prev_action", entry))


@configurable("alf.policies")
class PreviousReward(DataTransformer):
    """Adds "prev_reward": the reward that came with the observation, 0 where an episode begins.

    The reward is the output of the transformers before this one: after `RewardClipping`, for example, it is
    the clipped reward. A vector reward stays a vector. `Agent.predict` gets no reward, so the policy sees 0;
    `Agent.act`, evaluation and exported policies get the reward.

    Args:
        observation_spec: nest of unbatched tensor specs of its input.
        reward_spec: unbatched tensor spec of the rewards.
    """

    def __init__(self, observation_spec: NestedSpec, reward_spec: NestedSpec) -> None:
        spec = tf.TensorSpec(reward_spec.shape, tf.float32)
        super().__init__(_add_to_spec(observation_spec, "prev_reward", spec), reward_spec)

    def transform(self, data: Any) -> Any:
        # A transformer before this one may have changed the 0 of a FIRST step, for example by a clip.
        reward = zero_where(tf.equal(data.step_type, FIRST), data.reward)
        return data._replace(observation=_add(data.observation, "prev_reward", reward))


@configurable("alf.policies")
class EpisodeStep(DataTransformer):
    """Adds "episode_step": min(n, limit) / limit, float32, where n counts the steps of the episode so far.

    The entry is 0 with the first observation of an episode and 1 from step `limit` on. Replay buffers do not
    store the count: they read `limit` rows in front of each sequence, so no sequence begins at the `limit`
    oldest steps of an environment. With large observations these reads take time; choose a small limit then.

    Args:
        observation_spec: nest of unbatched tensor specs of its input.
        reward_spec: unbatched tensor spec of the rewards.
        limit: int, at least 1: the step from which on the entry is 1.
    """

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, limit: PositiveInt = 1000
    ) -> None:
        self._limit = limit
        spec = _add_to_spec(observation_spec, "episode_step", tf.TensorSpec((), tf.float32))
        super().__init__(spec, reward_spec, tf.TensorSpec((), tf.int32), context=limit)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        count = tf.where(time_step.is_first(), 0, state)
        # The state is limited, too: an episode without end must not overflow it.
        return self._add_count(time_step, count), tf.minimum(count + 1, self._limit)

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        length = experience.step_type.shape[0]
        row = tf.range(length)[:, tf.newaxis]
        # The row in which the episode of each row began; negative, `state` rows before row 0, if it is
        # older than the unroll. It is the maximum of the beginnings in all rows so far (a prefix maximum).
        begin = tf.where(tf.equal(experience.step_type, FIRST), row, -state)
        distance = 1
        while distance < length:  # log2(length) operations
            earlier = tf.concat([tf.repeat(begin[:1], distance, axis=0), begin[:-distance]], axis=0)
            begin = tf.maximum(begin, earlier)
            distance *= 2
        return self._add_count(experience, tf.minimum(row - begin, self._limit))

    def _add_count(self, data, count):
        # A product and not a quotient: graph compilers differ in how they divide by a constant, and actor and
        # learner must compute the same bits.
        value = tf.cast(count, tf.float32) * (1.0 / self._limit)
        return data._replace(observation=_add(data.observation, "episode_step", value))


def _make_encoding(spec):
    """Returns the spec of the encoding of actions like `spec`, and a function that encodes [..., *shape]."""
    if not spec.dtype.is_integer:
        return tf.TensorSpec(spec.shape, spec.dtype), lambda action: action
    # In Python's integers: the range of an int64 spec has more values than an int64 can count.
    num_values = [2**63]
    if isinstance(spec, BoundedTensorSpec):
        minimum, maximum = (
            np.broadcast_to(bound, spec.shape).ravel().astype(object)
            for bound in (spec.minimum, spec.maximum)
        )
        num_values = (maximum - minimum + 1).tolist()
    if sum(num_values) > _MAX_CHOICES:
        raise ConfigError(f"PreviousAction needs integers with bounds, not {spec}")
    # One row of comparisons: the output i is 1 if the integer `element[i]` of the action has `values[i]`.
    values = np.concatenate([np.arange(n) + low for n, low in zip(num_values, minimum)]).astype(np.int64)
    element = np.repeat(np.arange(len(num_values)), num_values)

    def encode(action):
        leading = tf.shape(action)[: action.shape.rank - spec.shape.rank]
        flat = tf.reshape(action, tf.concat([leading, [len(num_values)]], axis=0))
        return tf.cast(tf.equal(tf.cast(tf.gather(flat, element, axis=-1), tf.int64), values), tf.float32)

    return tf.TensorSpec((len(values),), tf.float32), encode


def _add(observation, name, entry):
    """Adds an entry to an observation or to its spec."""
    entries = dict(observation) if isinstance(observation, Mapping) else {"observation": observation}
    return {**entries, name: entry}


def _add_to_spec(observation_spec, name, entry_spec):
    if isinstance(observation_spec, Mapping) and name in observation_spec:
        raise ConfigError(f"the observation already has an entry {name!r}, which cannot be added again")
    return _add(observation_spec, name, entry_spec)
