# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The ranges of the settings that a sweep or a population tries. Without Ray and TensorFlow.

Random numbers come from the `numpy.random.Generator` of the caller. In gin, a range needs a scope of its own:

    Population.settings = {"Adam.learning_rate": @learning_rate/LogUniform()}
    learning_rate/LogUniform.low = 1e-5
    learning_rate/LogUniform.high = 1e-2
"""

import abc
import math
import numbers
from collections.abc import Sequence
from typing import Annotated, Any

from alf.config.kinds import Below, NonNegativeFloat, PositiveFloat
from alf.config.registry import complete
from alf.config.settings import configurable
from alf.errors import ConfigError


class Range(abc.ABC):
    """The values that a setting may have.

    Attributes:
        limits: tuple of the smallest and the largest number; None if the values are not numbers.
    """

    limits: Any = None

    @abc.abstractmethod
    def draw(self, rng):
        """Returns a random value of the range."""

    def move(self, value, factor, is_up):
        """Returns a value farther up or down by `factor`, a number above 1, but within the range."""
        return self.clip(value * factor if is_up else value / factor)

    def clip(self, value):
        """Returns the number of the range that is nearest to `value`."""
        low, high = self.limits
        return min(max(value, low), high)

    def fit(self, value):
        """Returns a value of another range if it is in this range, else a value of this range near to it."""
        # A bool is an integer for Python, but True is not meant as the number 1.
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        return self.clip(value) if is_number else self.limits[0]

    def largest(self):
        """Returns the largest value, or the last one if the values are not numbers."""
        return self.limits[1]

    def _make_limits(self, low, high, kind=float):
        """Returns `limits` of numbers of a type."""
        if low >= high:
            raise ConfigError(f"{type(self).__name__}.low is {low}: it must be less than high = {high}")
        # NumPy's numbers become plain ones, whose `repr` gin can read: bindings are made of it.
        return kind(low), kind(high)


@configurable("alf.population")
class Uniform(Range):
    """Floats from `low` to `high`, drawn uniformly. A move multiplies or divides: 0 stays 0.

    Args:
        low: number, the smallest value; below `high`.
        high: number, the largest value.
    """

    def __init__(self, low: float, high: float) -> None:
        self.limits = self._make_limits(low, high)

    def draw(self, rng):
        return float(rng.uniform(*self.limits))


@configurable("alf.population")
class LogUniform(Range):
    """Floats from `low` to `high`, uniform in their logarithm. A move multiplies or divides.

    Args:
        low: number above 0, the smallest value; below `high`.
        high: number, the largest value.
    """

    def __init__(self, low: PositiveFloat, high: PositiveFloat) -> None:
        self.limits = self._make_limits(low, high)

    def draw(self, rng):
        # exp(log(x)) may be rounded to just outside of the limits.
        return self.clip(math.exp(rng.uniform(*map(math.log, self.limits))))


@configurable("alf.population")
class Discount(Range):
    """Floats from `low` to `high`, whose distance from 1 is drawn and moved like a `LogUniform`.

    So steps are small near 1, where a discount changes most: 0.99 becomes 0.995 or 0.98 by the factor 2.

    Args:
        low: number, at least 0, the smallest value; below `high`.
        high: number below 1, the largest value.
    """

    def __init__(self, low: NonNegativeFloat, high: Annotated[float, Below(1)]) -> None:
        self.limits = self._make_limits(low, high)

    def draw(self, rng):
        low, high = self.limits
        # The largest value has the smallest distance from 1, so the limits change places.
        return self.clip(1.0 - math.exp(rng.uniform(math.log(1.0 - high), math.log(1.0 - low))))

    def move(self, value, factor, is_up):
        distance = 1.0 - value
        return self.clip(1.0 - (distance / factor if is_up else distance * factor))


@configurable("alf.population")
class Integers(Range):
    """Integers from `low` to `high`, both included, drawn uniformly.

    A move multiplies or divides and rounds, but goes one step at least.

    Args:
        low: int, the smallest value; below `high`.
        high: int, the largest value.
    """

    def __init__(self, low: int, high: int) -> None:
        self.limits = self._make_limits(low, high, int)

    def draw(self, rng):
        low, high = self.limits
        return int(rng.integers(low, high, endpoint=True))

    def move(self, value, factor, is_up):
        moved = round(value * factor if is_up else value / factor)
        if moved == value:
            moved += 1 if is_up else -1
        return self.clip(moved)

    def fit(self, value):
        return round(super().fit(value))


@configurable("alf.population")
class Choice(Range):
    """One of several values. A move goes to the next or the previous one.

    Args:
        values: list or tuple of at least two numbers, texts or bools, in an order that makes neighbours
            alike.
    """

    def __init__(self, values: Sequence[float | str | bool]) -> None:
        if len(values) < 2:
            raise ConfigError(f"Choice.values is {values!r}: it must have at least two values")
        self.values = list(values)
        if all(isinstance(x, numbers.Real) and not isinstance(x, bool) for x in values):
            self.limits = min(values), max(values)

    def draw(self, rng):
        return self.values[rng.integers(len(self.values))]

    def move(self, value, factor, is_up):
        # The factor has no meaning here: neighbours are one step away.
        index = self.values.index(value) + (1 if is_up else -1)
        return self.values[min(max(index, 0), len(self.values) - 1)]

    def fit(self, value):
        return value if value in self.values else self.values[0]

    def largest(self):
        return self.values[-1] if self.limits is None else self.limits[1]


def draw(ranges, rng):
    """Draws a value for each setting, from a dict by name of `Range`s into a dict by name."""
    return {name: values.draw(rng) for name, values in ranges.items()}


def fit(values, ranges):
    """Returns settings, a dict by name, moved into the present ranges; a study may have had other ranges."""
    return {name: setting.fit(values[name]) for name, setting in ranges.items()}


def check_settings(owner, settings):
    """Raises ConfigError unless `settings` are a dict from names of gin bindings to `Range`, each one once.

    `owner` is the name of the class that has the setting.
    """
    if not settings:
        raise ConfigError(f"{owner}.settings is empty: it must have names of gin bindings")
    for name in settings:
        if not isinstance(name, str) or "." not in name.rpartition("/")[2]:
            raise ConfigError(
                f"{owner}.settings has {name!r}: it must be the name of a gin binding, such as "
                "'Adam.learning_rate'"
            )
    check_names(f"{owner}.settings", settings)


def check_names(where, names):
    """Raises ConfigError if two names mean the same gin binding; `where`, a text, tells where they are."""
    known = {}
    for name in names:
        full = complete(name)
        if full in known:
            first = known[full]
            same = f"{name} twice" if first == name else f"{first} and {name}, which are the same"
            raise ConfigError(f"{where} has {same}: name it once")
        known[full] = name
