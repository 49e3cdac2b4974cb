# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers that change rewards."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from alf.config.settings import configurable
from alf.core.annotations import Array, Nest, NestedSpec
from alf.data_structures import FIRST, Experience, TimeStep
from alf.errors import ConfigError
from alf.policies.data_transformers.data_transformer import DataTransformer
from alf.schedules import Progress, ScheduledFloat, as_schedule

# For a transformer without a policy, which would call `use_progress`.
_BEGINNING = Progress(0, 0)


@configurable("alf.policies")
class RewardScaling(DataTransformer):
    """Multiplies rewards by a number.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations.
        reward_spec: unbatched tensor spec of its input.
        scale: number or `Schedule`. A schedule is evaluated when the learner uses the reward, not when it was
            collected.
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
    """Adds numbers from the environment's info to rewards, each multiplied by a weight.

    The reward of a step becomes reward + sum of weights[key] * info[key]. A key without a value at a step
    adds nothing there. `alf.environments.load.info_keys` must name the keys, too. A schedule is evaluated
    when the learner uses the step, also if it comes from a replay buffer. While a policy acts it gets no
    info, so the rewards that it sees lack this sum. Metrics show the rewards of the environment.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations.
        reward_spec: unbatched tensor spec of its input, a scalar.
        weights: dict from keys of the info to numbers or `Schedule`s, such as {"energy": -0.1}.
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
                f"RewardShaping.weights names {missing[0]!r}, but the experience has no such values: "
                f"`Experience.env_info` has {', '.join(env_info) or 'nothing'}"
            )
        # Infos have no effect on actions, so only the learner, which sees whole unrolls, adds them.
        reward = experience.reward
        for key, weight in self._weights.items():
            value = env_info[key]
            # NaN marks steps without a value; the info of a reset is not about a step.
            has_value = ~tf.math.is_nan(value) & tf.not_equal(experience.step_type, FIRST)
            reward += weight(self._progress) * tf.where(has_value, value, 0.0)
        return experience._replace(reward=reward)


@configurable("alf.policies")
class RewardClipping(DataTransformer):
    """Clips rewards to [minimum, maximum], by default [-1, 1], as is usual for Atari.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations.
        reward_spec: unbatched tensor spec of its input.
        minimum: number below `maximum`.
        maximum: number.
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
    """Turns a vector reward [R] into a scalar, the weighted sum of its components.

    If it is not in the list of data transformers, the learner applies it, with its `weights`, after all of
    them. The list needs it only in front of a transformer that must see the sum, for example `RewardClipping`
    to clip the sum rather than each component.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations.
        reward_spec: unbatched tensor spec of its input, float32 [R].
        weights: R numbers, as a list, tuple or array. None means weights of 1.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        weights: Sequence[float] | Array | None = None,
    ) -> None:
        super().__init__(observation_spec, tf.TensorSpec((), tf.float32))
        # A variable: `set_weights` changes what traced graphs compute, and checkpoints hold it.
        self._weights = tf.Variable(tf.ones(reward_spec.shape), trainable=False, name="reward_weights")
        # Also if the reward is not a vector, for which `set_weights` has the error.
        if weights is not None or reward_spec.shape.rank != 1:
            self.set_weights(weights)

    @property
    def weights(self) -> Array:
        """The current weights, float32 [R]."""
        return tf.identity(self._weights)

    def set_weights(self, weights: Array) -> None:
        """Changes the weights, also during training. Checkpoints hold them.

        Args:
            weights: R numbers, as a list, tuple or array.

        Raises:
            ConfigError: if these are not R finite numbers.
        """
        shape = self._weights.shape
        try:
            array = np.asarray(weights, np.float32)
        except (TypeError, ValueError):  # these are not numbers
            array = np.asarray(np.nan)
        if array.ndim != 1 or array.shape != shape or not np.isfinite(array).all():
            raise ConfigError(
                f"RewardWeighting.weights is {weights}: it must be a list of numbers, one for each component "
                f"of the reward, which has shape {shape}"
            )
        self._weights.assign(array)

    def transform(self, data: Any) -> Any:
        return data._replace(reward=tf.linalg.matvec(data.reward, self._weights))
