# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers: what the algorithm sees of the environment's observations and rewards.

They run inside the policy's and the learner's graphs, so that training, evaluation and an exported policy
see the same; their variables are in the checkpoint. Queues, replay and metrics hold what the environment
gave.
"""

import gin
import tensorflow as tf

from alf.data_structures import FIRST
from alf.errors import ConfigError, check_int, check_number
from alf.policies.running_statistics import RunningStatistics


class DataTransformer(tf.Module):
    """Changes observations and rewards. A subclass implements `transform`, or `step` and `unroll`.

    Args:
        observation_spec: nest of unbatched tensor specs of what it returns.
        reward_spec: unbatched tensor spec.
        state_spec: nest of unbatched tensor specs of what it must remember of each environment. The driver
            keeps it with the policy's recurrent state, as zeros where an episode begins.
        context: rows before the first one of an unroll from which `unroll` finds out the same; for sequences
            from a replay buffer, which does not keep the state.
    """

    has_statistics = False  # whether `observe` does anything

    def __init__(self, observation_spec, reward_spec, state_spec=(), context=0):
        super().__init__()
        self.context = context
        self.observation_spec = observation_spec
        self.reward_spec = reward_spec
        self.state_spec = state_spec

    def transform(self, data):
        """Changes `data`, a `TimeStep` or an `Experience`, whatever its leading dimensions."""
        raise NotImplementedError

    def step(self, time_step, state):
        """Transforms a `TimeStep` of [B, ...]; returns it and the next state."""
        return self.transform(time_step), state

    def unroll(self, experience, state):
        """Transforms an `Experience` of [T+1, B, ...] as `step` did; `state` [B, ...] had entered row 0."""
        del state
        return self.transform(experience)

    def observe(self, experience, state):
        """Updates statistics with an unroll, which comes once; not yet transformed by this transformer."""


class Pipeline(DataTransformer):
    """Data transformers one after another.

    Args:
        observation_spec: nest of unbatched tensor specs of the environment's observations.
        reward_spec: unbatched tensor spec of its rewards.
        ctors: callables (observation_spec, reward_spec) -> `DataTransformer`.
    """

    def __init__(self, observation_spec, reward_spec, ctors=()):
        self._made_with = (observation_spec, reward_spec, tuple(ctors))
        self._parts = []
        for ctor in ctors:
            if not callable(ctor):
                raise ConfigError(
                    f"data_transformers holds {ctor!r}: it must hold classes, in gin @RewardClipping without "
                    "parentheses"
                )
            part = ctor(observation_spec, reward_spec)
            observation_spec, reward_spec = part.observation_spec, part.reward_spec
            self._parts.append(part)
        super().__init__(
            observation_spec,
            reward_spec,
            state_spec=tuple(part.state_spec for part in self._parts),
            context=sum(part.context for part in self._parts),
        )
        self.has_statistics = any(part.has_statistics for part in self._parts)

    def made_again(self):
        """Another pipeline of the same transformers, with variables of their own."""
        return Pipeline(*self._made_with)

    def step(self, time_step, state):
        states = []
        for part, part_state in zip(self._parts, state, strict=True):
            time_step, part_state = part.step(time_step, part_state)
            states.append(part_state)
        return time_step, tuple(states)

    def unroll(self, experience, state):
        for part, part_state in zip(self._parts, state, strict=True):
            experience = part.unroll(experience, part_state)
        return experience

    def observe(self, experience, state):
        for part, part_state in zip(self._parts, state, strict=True):
            part.observe(experience, part_state)
            experience = part.unroll(experience, part_state)


@gin.configurable(module="alf.policies")
class FrameStacker(DataTransformer):
    """Stacks the last observations along their first axis, oldest first.

    Before an episode has so many, its first one stands for those that are missing. Environments need not
    stack then: each observation crosses the queues once.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`; a single observation [C, ...], no nest.
        num_frames: how many.
    """

    def __init__(self, observation_spec, reward_spec, num_frames=4):
        check_int("FrameStacker.num_frames", num_frames, at_least=2)
        if tf.nest.is_nested(observation_spec) or observation_spec.shape.rank == 0:
            raise ConfigError(f"FrameStacker needs one observation [C, ...], not {observation_spec}")
        self._num_frames = num_frames
        channels, *rest = observation_spec.shape
        dtype = observation_spec.dtype
        super().__init__(
            tf.TensorSpec((num_frames * channels, *rest), dtype, "observation"),
            reward_spec,
            tf.TensorSpec((num_frames - 1, channels, *rest), dtype),
            context=num_frames - 1,
        )

    def step(self, time_step, state):
        observation = time_step.observation
        is_first = tf.reshape(time_step.is_first(), (-1, *[1] * observation.shape.rank))
        newest = observation[:, tf.newaxis]
        frames = tf.concat([tf.where(is_first, newest, state), newest], axis=1)
        return time_step._replace(observation=self._merge(frames, 1)), frames[:, 1:]

    def unroll(self, experience, state):
        past = tf.experimental.numpy.moveaxis(state, 1, 0)
        frames = tf.concat([past, experience.observation], axis=0)
        is_first = tf.equal(experience.step_type, FIRST)
        is_first = tf.concat([tf.zeros(past.shape[:2], tf.bool), is_first], axis=0)
        length, batch_size = frames.shape[:2]
        # Positions in the flat frames; the row before is one batch earlier, unless the episode began here.
        position = tf.reshape(tf.range(length * batch_size), (length, batch_size))[past.shape[0] :]
        positions = [position]
        for _ in range(self._num_frames - 1):
            began = tf.gather(tf.reshape(is_first, (-1,)), position)
            position = tf.where(began, position, position - batch_size)
            positions.insert(0, position)
        flat = tf.reshape(frames, (-1, *frames.shape[2:]))
        stacked = tf.gather(flat, tf.stack(positions, axis=-1))
        return experience._replace(observation=self._merge(stacked, 2))

    def _merge(self, frames, axis):
        """Merges the axis of the frames with the next one, the channels."""
        shape = tf.concat([tf.shape(frames)[:axis], self.observation_spec.shape], axis=0)
        merged = tf.reshape(frames, shape)
        merged.set_shape([*frames.shape[:axis], *self.observation_spec.shape])
        return merged


@gin.configurable(module="alf.policies")
class ObservationNormalizer(DataTransformer):
    """Shifts and scales float observations to mean 0 and standard deviation 1 over all that was collected.

    Leaves of other dtypes, images for instance, stay as they are.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        clip: what is returned is limited to plus or minus this; None does not limit it.
    """

    has_statistics = True

    def __init__(self, observation_spec, reward_spec, clip=10.0):
        check_number("ObservationNormalizer.clip", clip, above=0, optional=True)
        self._clip = clip
        leaves = tf.nest.flatten(observation_spec)
        self._statistics = [RunningStatistics(s.shape) if s.dtype.is_floating else None for s in leaves]
        if not any(self._statistics):
            raise ConfigError(f"ObservationNormalizer needs a float observation, not {observation_spec}")
        # Bounds do not hold any more.
        spec = tf.nest.map_structure(lambda s: tf.TensorSpec(s.shape, s.dtype, s.name), observation_spec)
        super().__init__(spec, reward_spec)

    def transform(self, data):
        return data._replace(observation=self._map(self._normalize, data.observation))

    def observe(self, experience, state):
        del state
        # Row T is row 0 of the next unroll.
        rows = tf.nest.map_structure(lambda x: x[:-1], experience.observation)
        self._map(self._update, rows)

    def _map(self, function, observation):
        leaves = zip(tf.nest.flatten(observation), self._statistics, strict=True)
        leaves = [x if statistics is None else function(x, statistics) for x, statistics in leaves]
        return tf.nest.pack_sequence_as(observation, leaves)

    def _normalize(self, x, statistics):
        mean, std = tf.cast(statistics.mean(), x.dtype), tf.cast(statistics.std(), x.dtype)
        x = (x - mean) / std
        return x if self._clip is None else tf.clip_by_value(x, -self._clip, self._clip)

    @staticmethod
    def _update(x, statistics):
        statistics.update(x, tf.ones(tf.shape(x)[:2], tf.bool))
        return x


@gin.configurable(module="alf.policies")
class RewardNormalizer(DataTransformer):
    """Divides rewards by the standard deviation of the discounted sum of the rewards of an episode so far.

    As in OpenAI's baselines and Gymnasium's NormalizeReward; each component of a vector reward by its own.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        discount: of the sum, in [0, 1].
        clip: what is returned is limited to plus or minus this; None does not limit it.
    """

    has_statistics = True

    def __init__(self, observation_spec, reward_spec, discount=0.99, clip=10.0):
        check_number("RewardNormalizer.discount", discount, at_least=0, at_most=1)
        check_number("RewardNormalizer.clip", clip, above=0, optional=True)
        self._discount = discount
        self._clip = clip
        self._statistics = RunningStatistics(reward_spec.shape)
        super().__init__(observation_spec, reward_spec, tf.TensorSpec(reward_spec.shape, tf.float32))

    def step(self, time_step, state):
        return self._normalized(time_step), self._next_sum(state, time_step.reward, time_step.step_type)

    def unroll(self, experience, state):
        del state
        return self._normalized(experience)

    def observe(self, experience, state):
        sums = tf.scan(
            lambda total, row: self._next_sum(total, *row), (experience.reward, experience.step_type), state
        )
        # Row 0 was row T of the unroll before; the reward of a FIRST row is none.
        self._statistics.update(sums[1:], tf.not_equal(experience.step_type[1:], FIRST))

    def _next_sum(self, total, reward, step_type):
        is_first = tf.reshape(tf.equal(step_type, FIRST), (-1, *[1] * self.reward_spec.shape.rank))
        return tf.where(is_first, 0.0, self._discount * total + reward)

    def _normalized(self, data):
        reward = data.reward / self._statistics.std()
        if self._clip is not None:
            reward = tf.clip_by_value(reward, -self._clip, self._clip)
        return data._replace(reward=reward)


@gin.configurable(module="alf.policies")
class RewardScaling(DataTransformer):
    """Multiplies rewards by `scale`, a number."""

    def __init__(self, observation_spec, reward_spec, scale=1.0):
        check_number("RewardScaling.scale", scale)
        self._scale = scale
        super().__init__(observation_spec, reward_spec)

    def transform(self, data):
        return data._replace(reward=data.reward * self._scale)


@gin.configurable(module="alf.policies")
class RewardClipping(DataTransformer):
    """Limits rewards to [minimum, maximum], by default to plus or minus 1, as is usual for Atari."""

    def __init__(self, observation_spec, reward_spec, minimum=-1.0, maximum=1.0):
        check_number("RewardClipping.minimum", minimum)
        check_number("RewardClipping.maximum", maximum)
        if minimum >= maximum:
            raise ConfigError(f"RewardClipping.minimum is {minimum}: it must be below maximum = {maximum}")
        self._minimum = minimum
        self._maximum = maximum
        super().__init__(observation_spec, reward_spec)

    def transform(self, data):
        return data._replace(reward=tf.clip_by_value(data.reward, self._minimum, self._maximum))


@gin.configurable(module="alf.policies")
class RewardWeighting(DataTransformer):
    """Makes one reward of a vector reward: the sum of its components, weighted.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`; rewards of [R].
        weights: list of R numbers.
    """

    def __init__(self, observation_spec, reward_spec, weights):
        super().__init__(observation_spec, tf.TensorSpec((), tf.float32))
        self._components = reward_spec.shape
        self._weights = tf.Variable(self._checked(weights), trainable=False, name="reward_weights")

    def set_weights(self, weights):
        """Changes the weights, also while it trains; they are in the checkpoint."""
        self._weights.assign(self._checked(weights))

    def transform(self, data):
        return data._replace(reward=tf.linalg.matvec(data.reward, self._weights))

    def _checked(self, weights):
        for i, weight in enumerate(weights):
            check_number(f"RewardWeighting.weights[{i}]", weight)
        if (len(weights),) != self._components:
            raise ConfigError(
                f"RewardWeighting.weights is {weights}: the environment's reward has shape {self._components}"
            )
        return tf.constant(weights, tf.float32)
