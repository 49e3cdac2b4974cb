# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Schedules: numbers that change during a run, for settings that also take a plain number.

Wrong arguments raise ConfigError. In gin, several schedules need scopes:

    ImpalaAlgorithm.entropy_weight = @entropy/LinearSchedule()
    entropy/LinearSchedule.start = 0.01
    entropy/LinearSchedule.end = 0.001
    entropy/LinearSchedule.over = 10_000_000

A `Tunable` does not follow a plan: populations, or your own code, assign its value.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import tensorflow as tf

from alf.config.kinds import AtLeast, AtMost
from alf.config.settings import check_value, configurable
from alf.core.annotations import Array
from alf.errors import ConfigError


class Progress(NamedTuple):
    """The progress of a run: int64 scalars."""

    env_steps: Any  # environment steps learned from
    updates: Any  # updates of the weights


Count = Literal["env_steps", "updates"]  # the fields of `Progress`, on one of which a schedule depends


class Schedule(abc.ABC):
    """Base class of numbers that depend on the progress of a run.

    Args:
        values: numbers; the schedule stays between the smallest and the largest of them.
        by: "env_steps" or "updates", the count on which it depends.
    """

    def __init__(self, values: Sequence[float], by: Count) -> None:
        check_value(f"{type(self).__name__}.by", by, Count)
        self.values = tuple(values)
        self._by = by

    def __call__(self, progress: Progress) -> Array:
        """Computes the value at a `Progress`, float32 scalar, in eager mode or in a graph."""
        # float32 cannot hold step counts above 2^24 exactly.
        count = tf.cast(getattr(progress, self._by), tf.float64)
        return tf.cast(self.at(count), tf.float32)

    def __repr__(self) -> str:
        return f"{type(self).__name__} with the values {', '.join(map(str, self.values))}"

    def is_within(self, bounds: Sequence[Any]) -> bool:
        """Returns whether all values are within bounds of `alf.config.kinds`, such as `AtLeast(0)`."""
        return all(bound.holds(value) for bound in bounds for value in self.values)

    @abc.abstractmethod
    def at(self, count: Array) -> Array:
        """Computes the value, float64 scalar, at a count of `by`, float64 scalar."""


# Annotations of settings that may follow a schedule. Bounds hold for all its values.
ScheduledFloat = float | Schedule
ScheduledFraction = Annotated[ScheduledFloat, AtLeast(0), AtMost(1)]
ScheduledWeight = Annotated[ScheduledFloat, AtLeast(0)]


@configurable("alf")
class LinearSchedule(Schedule):
    """Changes from one number to another at a constant rate, then stays there.

    Args:
        start, end: numbers.
        over: number, at least 1, of env steps or updates from start to end.
        by: "env_steps" or "updates".
    """

    def __init__(
        self, start: float, end: float, over: Annotated[float, AtLeast(1)], by: Count = "env_steps"
    ) -> None:
        super().__init__((start, end), by)
        self._over = over

    def at(self, count: Array) -> Array:
        fraction = tf.clip_by_value(count / self._over, 0.0, 1.0)
        start, end = self.values
        # This is exactly `end` at last, which start + fraction * (end - start) may miss by a rounding.
        return (1.0 - fraction) * start + fraction * end


@configurable("alf")
class PiecewiseSchedule(Schedule):
    """Has given values at given boundaries, the first value before them and the last value after them.

    Args:
        boundaries: list of numbers of env steps or updates, strictly increasing.
        values: list of numbers, one for each boundary.
        interpolate: bool. True changes at a constant rate between two boundaries, False keeps each value
            until the next boundary.
        by: "env_steps" or "updates".
    """

    def __init__(
        self,
        boundaries: Sequence[float],
        values: Sequence[float],
        interpolate: bool = False,
        by: Count = "env_steps",
    ) -> None:
        if not boundaries:
            raise ConfigError("PiecewiseSchedule.boundaries is empty: there must be at least one number")
        if any(a >= b for a, b in zip(boundaries, boundaries[1:])):
            raise ConfigError(
                f"PiecewiseSchedule.boundaries is {boundaries}: each must be larger than the previous"
            )
        if len(values) != (n := len(boundaries)):
            raise ConfigError(
                f"PiecewiseSchedule.values is {values}: there must be one for each of {n} boundaries"
            )
        super().__init__(values, by)
        self._boundaries = tuple(boundaries)
        self._interpolate = interpolate

    def at(self, count: Array) -> Array:
        boundaries = tf.constant(self._boundaries, tf.float64)
        values = tf.constant(self.values, tf.float64)
        # The last boundary that is not above the count; the first one before it.
        i = tf.maximum(tf.reduce_sum(tf.cast(boundaries <= count, tf.int32)) - 1, 0)
        if not self._interpolate:
            return values[i]
        j = tf.minimum(i + 1, len(self.values) - 1)
        # After the last boundary, i equals j, so the divisor and the fraction are 0.
        fraction = tf.math.divide_no_nan(count - boundaries[i], boundaries[j] - boundaries[i])
        fraction = tf.maximum(fraction, 0.0)
        return (1.0 - fraction) * values[i] + fraction * values[j]


@configurable("alf")
class Tunable(Schedule, tf.Module):
    """A number that can be changed during a run, because graphs read it from a variable.

    Its owner must be a `tf.Module` of the learner. Then `find_tunables` finds it and checkpoints hold its
    value.

    Args:
        value: number, the initial value.
        limits: tuple or list (low, high) of numbers that bound it; None allows any number.
        setting: text, the name of the gin binding in whose place it is; `find_tunables` returns it.
    """

    def __init__(
        self, value: float, limits: Sequence[float] | None = None, setting: str = "Tunable.value"
    ) -> None:
        tf.Module.__init__(self, name="tunable")
        if limits is not None and len(limits) != 2:
            raise ConfigError(f"Tunable.limits is {limits!r}: it must be two numbers, or None")
        self.setting = setting
        self._limits = limits
        self._check(value)
        super().__init__((value, *(limits or ())), "updates")
        # float64, so that `value` returns the assigned number exactly.
        self._value = tf.Variable(value, trainable=False, dtype=tf.float64, name="tunable")

    @property
    def value(self) -> float:
        """The current value, a float."""
        return float(self._value)

    def assign(self, value: float) -> None:
        """Changes the value. Raises ConfigError if it is not within the limits."""
        self._check(value)
        self._value.assign(value)

    def at(self, count: Array) -> Array:
        return self._value.read_value()

    def _check(self, value):
        low, high = self._limits or (-math.inf, math.inf)
        check_value(self.setting, value, Annotated[float, AtLeast(low), AtMost(high)])


def find_tunables(module: tf.Module) -> dict[str, list[Tunable]]:
    """Returns a dict from `Tunable.setting` to the list of these `Tunable`s in a `tf.Module`."""
    found = {}
    for tunable in (part for part in module.submodules if isinstance(part, Tunable)):
        found.setdefault(tunable.setting, []).append(tunable)
    return found


def assign_tunables(module: tf.Module, settings: dict[str, float]) -> None:
    """Assigns values to the `Tunable`s in a `tf.Module`. `settings` is a dict from `Tunable.setting`."""
    for name, tunables in find_tunables(module).items():
        for tunable in tunables if name in settings else ():
            tunable.assign(settings[name])


def as_schedule(value: ScheduledFloat) -> Callable[[Progress], Array]:
    """Turns a number or a schedule into a callable (`Progress`) -> float32 scalar."""
    if isinstance(value, Schedule):
        return value
    return lambda progress: tf.constant(value, tf.float32)
