# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Schedules: settings that change during a run, where a plain number would stay constant.

A wrong argument of a schedule raises ConfigError. In gin, several schedules need scopes:

    ImpalaAlgorithm.entropy_weight = @entropy/LinearSchedule()
    entropy/LinearSchedule.start = 0.01
    entropy/LinearSchedule.end = 0.001
    entropy/LinearSchedule.over = 10_000_000

A `Tunable` has no plan: whoever tunes the run assigns another number.
"""

import abc
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gin
import tensorflow as tf

from alf.annotations import Array
from alf.errors import ConfigError, check_bool, check_choice, check_number


class Progress(NamedTuple):
    """How far a run is: int64 scalars."""

    env_steps: Any  # environment steps learned from
    updates: Any  # updates of the weights


class Schedule(abc.ABC):
    """A number that depends on the progress of a run. It has no state; a `Tunable` has one.

    Args:
        values: numbers; the schedule stays between the smallest and the largest.
        by: the count it depends on, "env_steps" or "updates".
    """

    def __init__(self, values: Sequence[float], by: str) -> None:
        check_choice(f"{type(self).__name__}.by", by, Progress._fields)
        self.values = tuple(values)
        self._by = by

    def __call__(self, progress: Progress) -> Array:
        """Computes the value at `progress`, a `Progress`: float32 scalar, in eager mode or in a graph."""
        # In float32, step counts above 2^24 would not be exact.
        count = tf.cast(getattr(progress, self._by), tf.float64)
        return tf.cast(self.at(count), tf.float32)

    @abc.abstractmethod
    def at(self, count: Array) -> Array:
        """Computes the value at a count of `by`: float64 scalar -> float64 scalar."""


ScheduledFloat = float | Schedule  # what `as_schedule` takes


@gin.configurable(module="alf")
class LinearSchedule(Schedule):
    """Changes from one number to another at a constant rate, then stays there.

    Args:
        start, end: numbers.
        over: number of env steps or updates from start to end, at least 1.
        by: "env_steps" or "updates".
    """

    def __init__(self, start: float, end: float, over: float, by: str = "env_steps") -> None:
        check_number("LinearSchedule.start", start)
        check_number("LinearSchedule.end", end)
        check_number("LinearSchedule.over", over, at_least=1)
        super().__init__((start, end), by)
        self._over = over

    def at(self, count: Array) -> Array:
        fraction = tf.clip_by_value(count / self._over, 0.0, 1.0)
        start, end = self.values
        return (1.0 - fraction) * start + fraction * end


@gin.configurable(module="alf")
class PiecewiseSchedule(Schedule):
    """Has a given value at each boundary: the first one also before it, the last one also after it.

    Args:
        boundaries: list of numbers of env steps or updates, strictly increasing.
        values: list of as many numbers.
        interpolate: whether it changes at a constant rate between two boundaries; else it keeps each value
            until the next boundary.
        by: "env_steps" or "updates".
    """

    def __init__(
        self,
        boundaries: Sequence[float],
        values: Sequence[float],
        interpolate: bool = False,
        by: str = "env_steps",
    ) -> None:
        settings = {"PiecewiseSchedule.boundaries": boundaries, "PiecewiseSchedule.values": values}
        for name, setting in settings.items():
            if not isinstance(setting, (list, tuple)) or not setting:
                raise ConfigError(f"{name} is {setting!r}: it must be a list of numbers")
            for i, number in enumerate(setting):
                check_number(f"{name}[{i}]", number)
        if any(a >= b for a, b in zip(boundaries, boundaries[1:])):
            raise ConfigError(
                f"PiecewiseSchedule.boundaries is {boundaries}: each must be larger than the one before"
            )
        if len(values) != (n := len(boundaries)):
            raise ConfigError(
                f"PiecewiseSchedule.values is {values}: there must be one for each of {n} boundaries"
            )
        check_bool("PiecewiseSchedule.interpolate", interpolate)
        super().__init__(values, by)
        self._boundaries = tuple(boundaries)
        self._interpolate = interpolate

    def at(self, count: Array) -> Array:
        boundaries = tf.constant(self._boundaries, tf.float64)
        values = tf.constant(self.values, tf.float64)
        i = tf.maximum(tf.reduce_sum(tf.cast(boundaries <= count, tf.int32)) - 1, 0)
        if not self._interpolate:
            return values[i]
        j = tf.minimum(i + 1, len(self.values) - 1)
        # After the last boundary i equals j: the divisor is 0, and so is the fraction.
        fraction = tf.math.divide_no_nan(count - boundaries[i], boundaries[j] - boundaries[i])
        fraction = tf.maximum(fraction, 0.0)
        return (1.0 - fraction) * values[i] + fraction * values[j]


@gin.configurable(module="alf")
class Tunable(Schedule, tf.Module):
    """A number that can be changed while a run goes on: graphs read it from a variable.

    What holds it must be a `tf.Module` of the learner. Then `find_tunables` finds it, and checkpoints have
    its value.

    Args:
        value: number, the first one.
        limits: tuple or list (low, high) of numbers that it stays within; None: it may become any number.
        setting: text, by which `find_tunables` knows it: the name of the gin binding that it stands for.
    """

    def __init__(
        self, value: float, limits: tuple[float, float] | None = None, setting: str = "Tunable.value"
    ) -> None:
        tf.Module.__init__(self, name="tunable")
        is_pair = isinstance(limits, (list, tuple)) and len(limits) == 2
        if limits is not None and not (is_pair and all(isinstance(x, numbers.Real) for x in limits)):
            raise ConfigError(f"Tunable.limits is {limits!r}: it must be two numbers, or None")
        self.setting = setting
        self._limits = limits
        self._check(value)
        super().__init__((value, *(limits or ())), "updates")
        # As exact as Python's own float.
        self._value = tf.Variable(value, trainable=False, dtype=tf.float64, name="tunable")

    @property
    def value(self) -> float:
        """The present value, a float."""
        return float(self._value)

    def assign(self, value: float) -> None:
        """Changes the value from now on; raises ConfigError if it is not within the limits."""
        self._check(value)
        self._value.assign(value)

    def at(self, count: Array) -> Array:
        return self._value.read_value()

    def _check(self, value):
        low, high = self._limits or (None, None)
        check_number(self.setting, value, at_least=low, at_most=high)


def find_tunables(module: tf.Module) -> dict[str, list[Tunable]]:
    """Returns a dict from `Tunable.setting` to the list of all such `Tunable`s below a `tf.Module`."""
    found = {}
    for tunable in (part for part in module.submodules if isinstance(part, Tunable)):
        found.setdefault(tunable.setting, []).append(tunable)
    return found


def assign_tunables(module: tf.Module, settings: dict[str, float]) -> None:
    """Gives the `Tunable`s below a `tf.Module` values: `settings` is a dict from `Tunable.setting`."""
    for name, tunables in find_tunables(module).items():
        for tunable in tunables if name in settings else ():
            tunable.assign(settings[name])


def as_schedule(setting_name: str, value: Any, **bounds: Any) -> Callable[[Progress], Array]:
    """Turns a setting into a function of the progress: callable (`Progress`) -> float32 scalar.

    Args:
        setting_name: for the error.
        value: number or `Schedule`; anything else raises ConfigError.
        **bounds: as in `check_number`; all values of a schedule must be within them.
    """
    if isinstance(value, Schedule):
        for x in value.values:
            check_number(f"{setting_name}, in its schedule,", x, **bounds)
        return value
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise ConfigError(
            f"{setting_name} is {value!r}: it must be a number or a schedule; "
            "in gin, @LinearSchedule() with parentheses"
        )
    check_number(setting_name, value, **bounds)
    return lambda progress: tf.constant(value, tf.float32)
