# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers change observations and rewards before the algorithm sees them.

They run inside the graphs of the policy and of the learner: training, evaluation and an exported policy see
the same data. Their variables are in the checkpoint. Queues, replay buffers and metrics hold the data of the
environment, unchanged. Each constructor takes the unbatched specs of what it transforms: a nest of tensor
specs of observations, and a tensor spec of rewards. It raises `ConfigError` if a spec or a setting is wrong.
"""

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import tensorflow as tf

from alf.config.kinds import AtLeast, Fraction, PositiveFloat
from alf.config.settings import check_value, configurable
from alf.core.annotations import Array, Nest, NestedSpec
from alf.core.nest_utils import list_leaves
from alf.data_structures import FIRST, Experience, TimeStep
from alf.errors import ConfigError, check_type
from alf.networks.images import Channels, channel_axis
from alf.ops.replicas import sum_over_peers
from alf.schedules import Progress, ScheduledFloat, as_schedule

_BEGINNING = Progress(0, 0)


class DataTransformer(tf.Module):
    """Changes observations and rewards. A subclass implements `transform`, or `step` and `unroll`.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations that it returns. The constructors
            of the subclasses get that of the observations which they transform.
        reward_spec: unbatched tensor spec, the same of the rewards.
        state_spec: nest of unbatched tensor specs of the state that it keeps for each environment. The driver
            stores this state with the policy's recurrent state, and sets it to zeros where an episode begins.
        context: number of rows before a sequence that replace the state, which replay buffers do not store.
            The learner gives `unroll` zeros as the state and these rows in front, and drops their results.
    """

    has_statistics = False  # whether `observe` does anything
    info_keys: tuple[str, ...] = ()  # the keys of `Experience.env_info` that `unroll` reads

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        state_spec: NestedSpec = (),
        context: int = 0,
    ) -> None:
        super().__init__()
        self.context = context
        self.observation_spec = observation_spec
        self.reward_spec = reward_spec
        self.state_spec = state_spec

    def transform(self, data: Any) -> Any:
        """Changes `data`, a `TimeStep` or an `Experience` with any leading dimensions."""
        raise NotImplementedError

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Transforms a `TimeStep` of [B, ...]; returns it and the next state."""
        return self.transform(time_step), state

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        """Transforms an `Experience` of [T+1, B, ...] as `step` did; `state` [B, ...] entered row 0."""
        return self.transform(experience)

    def observe(self, experience: Experience, state: Nest) -> None:
        """Updates the statistics with an unroll. Each unroll comes once, before `unroll` transforms it."""

    def use_progress(self, progress: Progress) -> None:
        """Takes the policy's `Progress` of variables, for schedules."""


class Pipeline(DataTransformer):
    """Applies, one after another, what `ctors` make: callables (observation_spec, reward_spec).

    A constructor that has an argument `action_spec` gets that, too.

    Attributes:
        input_observation_spec, input_reward_spec: the specs of what it transforms.
        reward_weighting: `RewardWeighting` if the reward of the environments is a vector, else None. If no
            constructor makes one, the pipeline does. It does not apply that one: the learner does.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        ctors: Sequence[Callable[..., DataTransformer]] = (),
        action_spec: NestedSpec = None,
    ) -> None:
        self.input_observation_spec, self.input_reward_spec = observation_spec, reward_spec
        self._parts = []
        if not isinstance(ctors, (tuple, list)):
            raise ConfigError(
                f"data_transformers is {ctors!r}: it must be a tuple or list; in gin (@RewardClipping,) with "
                "the comma"
            )
        for ctor in ctors:
            if not callable(ctor):
                raise ConfigError(
                    f"data_transformers holds {ctor!r}, no class; in gin, @RewardClipping without parentheses"
                )
            if inspect.isclass(ctor) and not issubclass(ctor, DataTransformer):
                raise ConfigError(f"data_transformers holds {ctor.__name__}, which is no DataTransformer")
            wants_actions = "action_spec" in inspect.signature(ctor).parameters
            more = {"action_spec": action_spec} if wants_actions else {}
            part = ctor(observation_spec, reward_spec, **more)
            check_type(f"what {ctor!r} of data_transformers makes", part, DataTransformer)
            if isinstance(part, RewardNormalizer) and any(other.info_keys for other in self._parts):
                raise ConfigError(
                    "data_transformers: RewardNormalizer must come before RewardShaping, whose rewards it "
                    "would not see while the policy acts"
                )
            observation_spec, reward_spec = part.observation_spec, part.reward_spec
            self._parts.append(part)
        state_spec = tuple(part.state_spec for part in self._parts)
        context = sum(part.context for part in self._parts)
        super().__init__(observation_spec, reward_spec, state_spec, context)
        self.has_statistics = any(part.has_statistics for part in self._parts)
        is_vector = reward_spec.shape.rank > 0
        self._sum_of_rewards = RewardWeighting(observation_spec, reward_spec) if is_vector else None
        self.info_keys = tuple(dict.fromkeys(key for part in self._parts for key in part.info_keys))

    @property
    def reward_weighting(self) -> Any:
        found = (part for part in self._parts if isinstance(part, RewardWeighting))
        return next(found, self._sum_of_rewards)

    def use_progress(self, progress: Progress) -> None:
        for part in self._parts:
            part.use_progress(progress)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        states = []
        for part, part_state in zip(self._parts, state, strict=True):
            time_step, part_state = part.step(time_step, part_state)
            states.append(part_state)
        return time_step, tuple(states)

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        for part, part_state in zip(self._parts, state, strict=True):
            experience = part.unroll(experience, part_state)
        return experience

    def observe(self, experience: Experience, state: Nest) -> None:
        for part, part_state in zip(self._parts, state, strict=True):
            part.observe(experience, part_state)
            experience = part.unroll(experience, part_state)


@configurable("alf.policies")
class FrameStacker(DataTransformer):
    """Stacks the last `num_frames` observations along the axis of their channels, oldest first.

    Each stacked part of the observation is an image, or another tensor, whose first axis counts as channels.
    While an episode has fewer observations, copies of its first one fill the stack. The environment need not
    stack: each observation crosses the queues once.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        num_frames: int, at least 2.
        keys: tuple or list of texts, which name the parts of a nested observation that are stacked, such as
            ("camera",) or ("sensors/camera", "sensors/lidar"); the others stay as they are. None stacks all
            parts.
        channels: "first", "last" or "auto", as in `NatureEncoder`, for all parts. "auto" is a `ConfigError`
            if an image and its stack do not show the same axis.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        num_frames: Annotated[int, AtLeast(2)] = 4,
        keys: Sequence[str] | None = None,
        channels: Channels = "auto",
    ) -> None:
        self._num_frames = num_frames
        self._chosen = _find_leaves("FrameStacker.keys", keys, observation_spec)
        leaves, state_spec, self._axes = tf.nest.flatten(observation_spec), [], []
        for i in self._chosen:
            if leaves[i].shape.rank == 0:
                raise ConfigError(
                    f"FrameStacker stacks tensors [C, ...], not {leaves[i]}: set FrameStacker.keys"
                )
            state_spec.append(tf.TensorSpec((num_frames - 1, *leaves[i].shape), leaves[i].dtype))
            leaves[i], axis = _make_stack_spec(leaves[i], num_frames, channels)
            self._axes.append(axis)
        stack_spec = tf.nest.pack_sequence_as(observation_spec, leaves)
        super().__init__(stack_spec, reward_spec, tuple(state_spec), context=num_frames - 1)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        def stack(newest, past, axis):
            is_first = tf.reshape(time_step.is_first(), (-1, *[1] * newest.shape.rank))
            newest = newest[:, tf.newaxis]
            frames = tf.concat([tf.where(is_first, newest, past), newest], axis=1)
            return _stack(frames, axis), frames[:, 1:]

        observation, state = self._map(stack, time_step.observation, state)
        return time_step._replace(observation=observation), state

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        positions = self._find_positions(experience.step_type)

        def stack(x, past, axis):
            frames = tf.concat([tf.experimental.numpy.moveaxis(past, 1, 0), x], axis=0)
            frames = tf.gather(tf.reshape(frames, (-1, *frames.shape[2:])), positions)
            stacks = _stack(tf.reshape(frames, (-1, *frames.shape[2:])), axis)
            return tf.reshape(stacks, (*positions.shape[:2], *stacks.shape[1:])), ()

        observation, _ = self._map(stack, experience.observation, state)
        return experience._replace(observation=observation)

    def _map(self, stack, observation, state):
        """Replaces the chosen leaves by what `stack` makes of (leaf, state, channel axis): (leaf, state)."""
        leaves, states = tf.nest.flatten(observation), []
        for i, past, axis in zip(self._chosen, state, self._axes, strict=True):
            leaves[i], past = stack(leaves[i], past, axis)
            states.append(past)
        return tf.nest.pack_sequence_as(observation, leaves), tuple(states)

    def _find_positions(self, step_type):
        """Where the frames of each row are, int32 [T+1, B, num_frames], in flat frames with the past before.

        The frame before a position is one batch earlier; at a FIRST row it is the same frame again.
        """
        batch_size, num_past = step_type.shape[1], self._num_frames - 1
        is_first = tf.pad(tf.equal(step_type, FIRST), [[num_past, 0], [0, 0]])
        length = is_first.shape[0]
        position = tf.reshape(tf.range(length * batch_size), (length, batch_size))[num_past:]
        positions = [position]
        for _ in range(num_past):
            begins = tf.gather(tf.reshape(is_first, (-1,)), position)
            position = tf.where(begins, position, position - batch_size)
            positions.insert(0, position)
        return tf.stack(positions, axis=-1)


def _find_leaves(setting, keys, observation_spec):
    """The numbers of the leaves that `keys` names by their paths, "a/b"; of all leaves if that is None."""
    paths = [path for path, _ in list_leaves(observation_spec)]
    if keys is None:
        return list(range(len(paths)))
    is_right = isinstance(keys, (tuple, list)) and keys and all(key in paths and key for key in keys)
    if not is_right or len(set(keys)) < len(keys):
        known = ", ".join(map(repr, paths)) if paths != [""] else "none, it is one tensor"
        raise ConfigError(
            f"{setting} is {keys!r}: it must be None, or a tuple of different parts of the observation. "
            f"These are {known}"
        )
    return [paths.index(key) for key in keys]


def _make_stack_spec(spec, num_frames, channels):
    """Returns the spec of a stack of tensors like `spec`, and the axis that holds the channels."""
    axis, shape = channel_axis(spec, "FrameStacker.channels", channels), list(spec.shape)
    shape[axis] *= num_frames
    stack_spec = tf.TensorSpec(shape, spec.dtype, spec.name)
    if channels == "auto" and channel_axis(stack_spec, "FrameStacker.channels") != axis:
        raise ConfigError(
            f"FrameStacker.channels is 'auto': a stack {stack_spec.shape} does not show which axis holds "
            f"its channels; set this and the encoder's setting to {'last' if axis else 'first'!r}"
        )
    return stack_spec, axis


def _stack(frames, axis):
    """[N, num_frames, *shape] -> [N, *shape of a stack]; the channels are in the `axis` of the shape."""
    shape = frames.shape[2:].as_list()
    shape[axis] *= frames.shape[1]
    if axis:
        frames = tf.experimental.numpy.moveaxis(frames, 1, axis + 1)
    return tf.reshape(frames, (-1, *shape))


class RunningStatistics(tf.Module):
    """Mean and standard deviation of a stream of elements of one shape. The batch sizes do not change them.

    In float64, it merges the moments of each batch into its own, as in Chan, Golub and LeVeque 1979,
    "Updating formulae and a pairwise algorithm for computing sample variances". With several learner
    processes a batch is that of all of them.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__(name="running_statistics")
        zero, zeros = tf.zeros((), tf.float64), tf.zeros(shape, tf.float64)
        self._count = tf.Variable(zero, trainable=False, name="count")
        self._mean = tf.Variable(zeros, trainable=False, name="mean")
        self._squares = tf.Variable(zeros, trainable=False, name="squares")  # sum of squared deviations

    def update(self, x: Array, mask: Array) -> None:
        """Adds the elements of `x`, float [..., *shape] of any dtype, where `mask`, bool [...], is True."""
        x = tf.cast(tf.boolean_mask(x, mask), tf.float64)
        added = sum_over_peers(tf.cast(tf.shape(x)[0], tf.float64))
        mean = tf.math.divide_no_nan(sum_over_peers(tf.reduce_sum(x, 0)), added)
        squares = sum_over_peers(tf.reduce_sum(tf.math.squared_difference(x, mean), 0))
        count = self._count + added
        delta = mean - self._mean
        weight = tf.math.divide_no_nan(added, count)
        squares += tf.square(delta) * self._count * weight
        # Everything is computed before anything is assigned.
        with tf.control_dependencies([squares]):
            self._squares.assign_add(squares)
            self._mean.assign_add(delta * weight)
            self._count.assign(count)

    def mean(self) -> Array:
        """Returns the mean, float64 [*shape]; 0 before the first update."""
        return tf.identity(self._mean)

    def std(self, epsilon: float = 1e-8) -> Array:
        """Returns sqrt(variance + epsilon), float64 [*shape]; 1 before the second element."""
        std = tf.sqrt(self._squares / tf.maximum(self._count, 1.0) + epsilon)
        return tf.where(self._count < 2, tf.ones_like(std), std)


@configurable("alf.policies")
class ObservationNormalizer(DataTransformer):
    """Gives float observations mean 0 and standard deviation 1 over all that were collected.

    Leaves of other dtypes, for example images, stay as they are.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        clip: number above 0; results are limited to plus or minus so many standard deviations. None for no
            limit.
    """

    has_statistics = True

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, clip: PositiveFloat | None = 10.0
    ) -> None:
        self._clip = clip
        leaves = tf.nest.flatten(observation_spec)
        self._statistics = [RunningStatistics(s.shape) if s.dtype.is_floating else None for s in leaves]
        if not any(self._statistics):
            raise ConfigError(f"ObservationNormalizer needs a float observation, not {observation_spec}")
        # The bounds of the environment do not hold after scaling.
        spec = tf.nest.map_structure(lambda s: tf.TensorSpec(s.shape, s.dtype, s.name), observation_spec)
        super().__init__(spec, reward_spec)

    def transform(self, data: Any) -> Any:
        def normalize(x, statistics):
            if statistics is None:
                return x
            dtype = x.dtype if x.dtype == tf.float64 else tf.float32
            mean, std = statistics.mean(), tf.cast(statistics.std(), dtype)
            # In two parts: a mean near 1,000,000 in float32 may be off by 0.03, which can be many deviations.
            # TensorFlow Lite, and much that runs ONNX, subtracts no float64.
            high = tf.cast(mean, dtype)
            low = tf.cast(mean - tf.cast(high, tf.float64), dtype)
            y = tf.cast((tf.cast(x, dtype) - high) / std - low / std, x.dtype)
            return y if self._clip is None else tf.clip_by_value(y, -self._clip, self._clip)

        pairs = zip(tf.nest.flatten(data.observation), self._statistics, strict=True)
        leaves = [normalize(x, statistics) for x, statistics in pairs]
        return data._replace(observation=tf.nest.pack_sequence_as(data.observation, leaves))

    def observe(self, experience: Experience, state: Nest) -> None:
        is_first = tf.equal(experience.step_type, FIRST)
        # Row T is row 0 of the next unroll. FIRST rows in a row are the same one: the environment waits.
        is_counted = ~(is_first[:-1] & is_first[1:])
        for x, statistics in zip(tf.nest.flatten(experience.observation), self._statistics, strict=True):
            if statistics is not None:
                statistics.update(x[:-1], is_counted)


@configurable("alf.policies")
class RewardNormalizer(DataTransformer):
    """Divides rewards by the standard deviation of the discounted sum of an episode's rewards so far.

    As in OpenAI's baselines and Gymnasium's NormalizeReward. Each component of a vector reward has its own
    standard deviation.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        discount: number in [0, 1], of the sum.
        clip: number above 0; results are limited to plus or minus this. None for no limit.
    """

    has_statistics = True

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        discount: Fraction = 0.99,
        clip: PositiveFloat | None = 10.0,
    ) -> None:
        self._discount = discount
        self._clip = clip
        self._statistics = RunningStatistics(reward_spec.shape)
        super().__init__(observation_spec, reward_spec, tf.TensorSpec(reward_spec.shape, tf.float32))

    def transform(self, data: Any) -> Any:
        # Nothing is subtracted here, so float32 is exact enough.
        reward = data.reward / tf.cast(self._statistics.std(), tf.float32)
        if self._clip is not None:
            reward = tf.clip_by_value(reward, -self._clip, self._clip)
        return data._replace(reward=reward)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        discount, reward = self._mask(time_step.reward, time_step.step_type)
        return self.transform(time_step), discount * state + reward

    def observe(self, experience: Experience, state: Nest) -> None:
        discount, reward = self._mask(experience.reward, experience.step_type)
        # Unrolled at tracing time, as the returns are; a `tf.scan` takes several times as long.
        rows = zip(tf.unstack(discount), tf.unstack(reward), strict=True)
        _, _, *sums = itertools.accumulate(rows, lambda total, row: row[0] * total + row[1], initial=state)
        # Row 0 was row T of the unroll before. A FIRST row has no reward.
        self._statistics.update(tf.stack(sums), tf.not_equal(experience.step_type[1:], FIRST))

    def _mask(self, reward, step_type):
        """Returns the factor of the sum before each row, and what the row adds: 0 where an episode begins."""
        is_first = tf.equal(step_type, FIRST)
        if self.reward_spec.shape.rank:
            is_first = is_first[..., tf.newaxis]
        return tf.where(is_first, 0.0, self._discount), tf.where(is_first, 0.0, reward)


@configurable("alf.policies")
class RewardScaling(DataTransformer):
    """Multiplies rewards by a number, that of the time when they are learned from.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        scale: number or `Schedule`.
    """

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, scale: ScheduledFloat = 1.0
    ) -> None:
        self._scale = as_schedule(scale)
        self._progress = _BEGINNING
        super().__init__(observation_spec, reward_spec)

    def use_progress(self, progress: Progress) -> None:
        self._progress = progress

    def transform(self, data: Any) -> Any:
        return data._replace(reward=data.reward * self._scale(self._progress))


@configurable("alf.policies")
class RewardShaping(DataTransformer):
    """Adds numbers of the environment's info to rewards, each multiplied by its weight.

    The reward of a step becomes reward + sum of weights[key] * info[key]. A key that a step has no value of
    adds nothing. `alf.environments.load.info_keys` must name the keys, too. The weights are those of the time
    when a step is learned from, also if it comes from a replay buffer. A policy that acts gets no info: the
    rewards that it sees are without this sum. Metrics show the rewards of the environment.

    Args:
        observation_spec: as in `DataTransformer`.
        reward_spec: as in `DataTransformer`; the reward is a scalar.
        weights: dict from keys to numbers or `Schedule`s, such as {"energy": -0.1}.
    """

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, weights: dict[str, ScheduledFloat]
    ) -> None:
        if not weights:
            raise ConfigError("RewardShaping.weights is {}: it must have keys of the info")
        if reward_spec.shape.rank:
            raise ConfigError(
                f"RewardShaping: the reward has shape {reward_spec.shape}; RewardWeighting must come before"
            )
        self._weights = {key: as_schedule(x) for key, x in weights.items()}
        self._progress = _BEGINNING
        self.info_keys = tuple(weights)
        super().__init__(observation_spec, reward_spec)

    def use_progress(self, progress: Progress) -> None:
        self._progress = progress

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        return time_step, state

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        env_info = experience.env_info or {}
        missing = [key for key in self.info_keys if key not in env_info]
        if missing:
            raise ConfigError(
                f"RewardShaping.weights names {missing[0]!r}, which the experience has no values of: "
                f"`Experience.env_info` has {', '.join(env_info) or 'nothing'}"
            )
        reward = experience.reward
        for key, weight in self._weights.items():
            value = env_info[key]
            has_value = ~tf.math.is_nan(value) & tf.not_equal(experience.step_type, FIRST)
            reward += weight(self._progress) * tf.where(has_value, value, 0.0)
        return experience._replace(reward=reward)


@configurable("alf.policies")
class RewardClipping(DataTransformer):
    """Limits rewards to [minimum, maximum]; the default is plus or minus 1, as is usual for Atari.

    Args:
        observation_spec, reward_spec: as in `DataTransformer`.
        minimum: number, the smallest reward that is left; below `maximum`.
        maximum: number, the largest one.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        minimum: float = -1.0,
        maximum: float = 1.0,
    ) -> None:
        if minimum >= maximum:
            raise ConfigError(f"RewardClipping.minimum is {minimum}: it must be below maximum = {maximum}")
        self._minimum, self._maximum = minimum, maximum
        super().__init__(observation_spec, reward_spec)

    def transform(self, data: Any) -> Any:
        return data._replace(reward=tf.clip_by_value(data.reward, self._minimum, self._maximum))


@configurable("alf.policies")
class RewardWeighting(DataTransformer):
    """Makes a vector reward [R] a scalar: the weighted sum of its components.

    Without this transformer the learner does the same with the rewards that the transformers return, and
    `weights` counts there, too: it is needed in the list only in front of a transformer that needs the
    weighted sum, such as `RewardClipping` of it.

    Args:
        observation_spec: as in `DataTransformer`.
        reward_spec: unbatched tensor spec of the vector reward that it gets, float32 [R].
        weights: list or tuple of R numbers. None is for weights of 1: the plain sum.
    """

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__(observation_spec, tf.TensorSpec((), tf.float32))
        self._weights = tf.Variable(tf.ones(reward_spec.shape), trainable=False, name="reward_weights")
        if weights is not None or reward_spec.shape.rank != 1:
            self.set_weights(weights)

    @property
    def weights(self) -> Array:
        """The weights now, float32 [R]."""
        return tf.identity(self._weights)

    def set_weights(self, weights: Sequence[float] | None) -> None:
        """Changes the weights, also during training; they are in the checkpoint."""
        array: Any = np.asarray(weights, object)
        shape = self._weights.shape
        for i, weight in enumerate(array if array.ndim == 1 else []):
            check_value(f"RewardWeighting.weights[{i}]", weight, float)
        if array.shape != shape or array.ndim != 1:
            raise ConfigError(
                f"RewardWeighting.weights is {weights}: it must be a list of numbers, one for each component "
                f"of the reward, which has shape {shape}"
            )
        self._weights.assign(array.astype(np.float32))

    def transform(self, data: Any) -> Any:
        return data._replace(reward=tf.linalg.matvec(data.reward, self._weights))
