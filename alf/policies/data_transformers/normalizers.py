# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers that scale by statistics of the collected experience."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from alf.config.kinds import Fraction, PositiveFloat
from alf.config.settings import configurable
from alf.core.annotations import Array, Nest, NestedSpec
from alf.data_structures import FIRST, Experience, TimeStep
from alf.errors import ConfigError
from alf.ops.reductions import sum_over_peers
from alf.ops.scan import scan
from alf.policies.data_transformers.data_transformer import DataTransformer
from alf.schedules import Schedule, ScheduledFloat


class RunningStatistics(tf.Module):
    """Mean and standard deviation of a stream of elements of one shape, independent of the batch sizes.

    It merges the moments of each batch into its own, in float64 (Chan, Golub and LeVeque 1979, "Updating
    formulae and a pairwise algorithm for computing sample variances"). With several learner processes, the
    batches of all of them are merged, so that all have the same statistics.

    Args:
        shape: of one element.
        dtype: of the elements. `scale` and `center_and_scale` compute float64 elements in float64, all others
            in float32.
    """

    def __init__(self, shape: Sequence[int], dtype: tf.DType = tf.float32) -> None:
        super().__init__(name="running_statistics")
        zero, zeros = tf.zeros((), tf.float64), tf.zeros(shape, tf.float64)
        self._count = tf.Variable(zero, trainable=False, name="count")
        self._mean = tf.Variable(zeros, trainable=False, name="mean")
        self._squares = tf.Variable(zeros, trainable=False, name="squares")  # sum of squared deviations
        # What each step of an actor needs is computed once, with the update.
        dtype = tf.float64 if dtype == tf.float64 else tf.float32
        zeros, ones = tf.zeros(shape, dtype), tf.ones(shape, dtype)
        self._center = tf.Variable(zeros, trainable=False, name="center")
        self._rest = tf.Variable(zeros, trainable=False, name="rest")
        self._std = tf.Variable(ones, trainable=False, name="std")

    def update(self, x: Array, mask: Array) -> None:
        """Adds elements.

        Args:
            x: [..., *shape] of any floating point dtype.
            mask: bool [...], True for the elements that count.
        """
        # float64, because float32 sums of millions of elements lose the newest ones.
        x = tf.cast(tf.boolean_mask(x, mask), tf.float64)
        # All processes make these exchanges, in this order, also if nothing counts in one of them: the others
        # would wait for it for ever.
        added = sum_over_peers(tf.cast(tf.shape(x)[0], tf.float64))
        # Two passes: the deviations are from the mean of this batch over all processes, which costs a second
        # exchange but does not cancel digits like a sum of squares.
        mean = tf.math.divide_no_nan(sum_over_peers(tf.reduce_sum(x, 0)), added)
        squares = sum_over_peers(tf.reduce_sum(tf.math.squared_difference(x, mean), 0))
        count = self._count + added
        delta = mean - self._mean
        weight = tf.math.divide_no_nan(added, count)
        squares += tf.square(delta) * self._count * weight
        # All of it is computed before anything is assigned: the graph could otherwise read the new mean or
        # count where the formula needs the old one.
        with tf.control_dependencies([squares]):
            self._squares.assign_add(squares)
            self._mean.assign_add(delta * weight)
            self._count.assign(count)
        # The mean in two parts: near 1,000,000 one float32 may be off by 0.03, which can be many standard
        # deviations. TensorFlow Lite and many ONNX runtimes cannot subtract float64.
        dtype, std = self._center.dtype, self.std()
        self._center.assign(tf.cast(self._mean, dtype))
        self._rest.assign(tf.cast((self._mean - tf.cast(self._center, tf.float64)) / std, dtype))
        self._std.assign(tf.cast(std, dtype))

    def center_and_scale(self, x: Array) -> Array:
        """Returns (x - mean) / std of elements [..., *shape], float32 or float64."""
        # An actor may read these variables while the learner assigns them: for that step they are of two
        # updates, which differ by one batch among all that were counted. The quotient stands between the two
        # differences: an optimizer of graphs would add up the parts of the mean again.
        return (tf.cast(x, self._center.dtype) - self._center) / self._std - self._rest

    def scale(self, x: Array) -> Array:
        """Returns x / std of elements [..., *shape], float32 or float64."""
        return tf.cast(x, self._std.dtype) / self._std

    def mean(self) -> Array:
        """Returns the mean, float64 [*shape]; 0 before the first update."""
        return tf.identity(self._mean)

    def std(self, epsilon: float = 1e-8) -> Array:
        """Returns sqrt(variance + epsilon), float64 [*shape]; 1 with fewer than two elements."""
        # With one element the variance is 0, and a quotient by sqrt(epsilon) would be huge.
        std = tf.sqrt(self._squares / tf.maximum(self._count, 1.0) + epsilon)
        return tf.where(self._count < 2, tf.ones_like(std), std)


@configurable("alf.policies")
class ObservationNormalizer(DataTransformer):
    """Scales float observations to mean 0 and standard deviation 1 over all collected observations.

    Leaves with other dtypes, for example images of uint8, stay as they are.

    Args:
        observation_spec: nest of unbatched tensor specs of its input.
        reward_spec: unbatched tensor spec of the rewards.
        clip: number above 0; results are limited to [-clip, clip] standard deviations. None for no limit.
    """

    has_statistics = True

    def __init__(
        self, observation_spec: NestedSpec, reward_spec: NestedSpec, clip: PositiveFloat | None = 10.0
    ) -> None:
        self._clip = clip
        leaves = tf.nest.flatten(observation_spec)
        # One for each number, and not for each leaf: joint angles and speeds, say, have different scales.
        self._statistics = [
            RunningStatistics(s.shape, s.dtype) if s.dtype.is_floating else None for s in leaves
        ]
        if not any(self._statistics):
            raise ConfigError(f"ObservationNormalizer needs a float observation, not {observation_spec}")
        # The bounds of the environment do not hold after scaling.
        spec = tf.nest.map_structure(lambda s: tf.TensorSpec(s.shape, s.dtype, s.name), observation_spec)
        super().__init__(spec, reward_spec)

    def transform(self, data: Any) -> Any:
        def normalize(x, statistics):
            if statistics is None:
                return x
            y = tf.cast(statistics.center_and_scale(x), x.dtype)
            return y if self._clip is None else tf.clip_by_value(y, -self._clip, self._clip)

        pairs = zip(tf.nest.flatten(data.observation), self._statistics, strict=True)
        leaves = [normalize(x, statistics) for x, statistics in pairs]
        return data._replace(observation=tf.nest.pack_sequence_as(data.observation, leaves))

    def observe(self, experience: Experience, state: Nest) -> None:
        is_first = tf.equal(experience.step_type, FIRST)
        # Row T is not counted here, because it is row 0 of the next unroll. A FIRST row after a FIRST row
        # repeats it: the environment waits for the next unroll.
        is_counted = ~(is_first[:-1] & is_first[1:])
        for x, statistics in zip(tf.nest.flatten(experience.observation), self._statistics, strict=True):
            if statistics is not None:
                statistics.update(x[:-1], is_counted)


@configurable("alf.policies")
class RewardNormalizer(DataTransformer):
    """Divides rewards by the standard deviation of the discounted sum of an episode's rewards so far.

    This is the normalization of OpenAI's baselines (VecNormalize) and of Gymnasium's NormalizeReward. Each
    component of a vector reward has its own standard deviation.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations.
        reward_spec: unbatched tensor spec of its input.
        discount: number in [0, 1], the discount of the sum. None: the algorithm's, if its constructor has an
            argument `discount`, the first value of a schedule; else 0.99.
        clip: number above 0; results are limited to [-clip, clip]. None for no limit.
    """

    has_statistics = True

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        discount: Fraction | None = None,
        clip: PositiveFloat | None = 10.0,
    ) -> None:
        self._is_given = discount is not None
        self._discount = 0.99 if discount is None else discount
        self._clip = clip
        # Not of the rewards but of their discounted sums, as the value has their scale.
        self._statistics = RunningStatistics(reward_spec.shape)
        super().__init__(observation_spec, reward_spec, tf.TensorSpec(reward_spec.shape, tf.float32))

    def use_discount(self, discount: ScheduledFloat | None) -> None:
        if discount is not None and not self._is_given:
            self._discount = discount.values[0] if isinstance(discount, Schedule) else discount

    def transform(self, data: Any) -> Any:
        # Only scaled: rewards without their mean would make another behavior the best one.
        # Nothing is subtracted, so no digits cancel and float32 is exact enough.
        reward = self._statistics.scale(data.reward)
        if self._clip is not None:
            reward = tf.clip_by_value(reward, -self._clip, self._clip)
        return data._replace(reward=reward)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        discount, reward = self._mask(time_step.reward, time_step.step_type)
        # The state is the discounted sum so far. Acting does not need it, but the learner starts from it.
        return self.transform(time_step), discount * state + reward

    def observe(self, experience: Experience, state: Nest) -> None:
        discount, reward = self._mask(experience.reward, experience.step_type)
        _, (sums,) = scan(_discounted_sums, state, (discount, reward), 1)
        # Row 0 was counted as row T of the previous unroll. A FIRST row has no reward.
        self._statistics.update(sums.stack()[1:], tf.not_equal(experience.step_type[1:], FIRST))

    def _mask(self, reward, step_type):
        """Returns the factor of the previous sum and the addend, for each row: both are 0 at FIRST rows."""
        is_first = tf.equal(step_type, FIRST)
        if self.reward_spec.shape.rank:
            is_first = is_first[..., tf.newaxis]
        return tf.where(is_first, 0.0, self._discount), tf.where(is_first, 0.0, reward)


def _discounted_sums(total, discount, reward):
    """Computes `total = discount * total + reward` for each row, for `scan`."""
    totals = []
    for discount_t, reward_t in zip(tf.unstack(discount), tf.unstack(reward), strict=True):
        total = discount_t * total + reward_t
        totals.append(total)
    return total, [totals]
