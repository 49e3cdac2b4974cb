# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which members of a population are replaced, and how their settings change. Without Ray and TensorFlow.

Populations in several processes (`alf-pbt`) and in one both use these functions. Random numbers come from the
`numpy.random.Generator` of the caller. In gin, a range needs a scope of its own:

    Population.settings = {"Adam.learning_rate": @learning_rate/LogUniform()}
    learning_rate/LogUniform.low = 1e-5
    learning_rate/LogUniform.high = 1e-2
"""

import abc
import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Annotated, Any

from alf.config.kinds import AtLeast, AtMost, Below, Fraction, NonNegativeFloat, NonNegativeInt, PositiveFloat
from alf.config.settings import Role, configurable
from alf.errors import ConfigError


class Range(abc.ABC):
    """The values that a setting may have.

    Attributes:
        limits: (smallest, largest), numbers; None if a value is no number.
    """

    limits: Any = None

    @abc.abstractmethod
    def draw(self, rng):
        """Returns any value of the range."""

    @abc.abstractmethod
    def move(self, value, factor, is_up):
        """Returns the value that is farther up or down by a factor, a number above 1; in the range."""

    def clip(self, value):
        """Returns the number of the range that is nearest."""
        low, high = self.limits
        return min(max(value, low), high)

    def fit(self, value):
        """Returns a value of another range if it is in this one, else one of this range, near to a number."""
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        return self.clip(value) if is_number else self.limits[0]

    def largest(self):
        """Returns the largest value; the last one of values that are no numbers."""
        return self.limits[1]


class _Numbers(Range):
    """The floats from `low` to `high`."""

    def __init__(self, low, high):
        name = type(self).__name__
        if low >= high:
            raise ConfigError(f"{name}.low is {low}: it must be less than high = {high}")
        self.limits = float(low), float(high)


@configurable("alf.population")
class Uniform(_Numbers):
    """Floats from `low` to `high`, drawn uniformly. A move multiplies or divides: 0 stays 0.

    Args:
        low: number, the smallest value; below `high`.
        high: number, the largest value.
    """

    def __init__(self, low: float, high: float) -> None:
        super().__init__(low, high)

    def draw(self, rng):
        return float(rng.uniform(*self.limits))

    def move(self, value, factor, is_up):
        return self.clip(value * factor if is_up else value / factor)


@configurable("alf.population")
class LogUniform(_Numbers):
    """Floats from `low` to `high`, uniform in their logarithm. A move multiplies or divides.

    Args:
        low: number above 0, the smallest value; below `high`.
        high: number, the largest value.
    """

    def __init__(self, low: PositiveFloat, high: PositiveFloat) -> None:
        super().__init__(low, high)

    def draw(self, rng):
        return self.clip(math.exp(rng.uniform(*map(math.log, self.limits))))

    def move(self, value, factor, is_up):
        return self.clip(value * factor if is_up else value / factor)


@configurable("alf.population")
class Discount(_Numbers):
    """Floats from `low` to `high`, whose distance from 1 is drawn and moved as `LogUniform` does it.

    So steps are small near 1, where a discount changes most: 0.99 becomes 0.995 or 0.98 by the factor 2.

    Args:
        low: number, at least 0, the smallest value; below `high`.
        high: number below 1, the largest value.
    """

    def __init__(self, low: NonNegativeFloat, high: Annotated[float, Below(1)]) -> None:
        super().__init__(low, high)

    def draw(self, rng):
        low, high = self.limits
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
        if low >= high:
            raise ConfigError(f"Integers.low is {low}: it must be less than high = {high}")
        self.limits = int(low), int(high)

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
        index = self.values.index(value) + (1 if is_up else -1)
        return self.values[min(max(index, 0), len(self.values) - 1)]

    def fit(self, value):
        return value if value in self.values else self.values[0]

    def largest(self):
        return self.values[-1] if self.limits is None else self.limits[1]


@configurable("alf.population", role=Role.ADJUSTABLE)
@dataclasses.dataclass(frozen=True)
class Mutation:
    """How the settings of a member differ from the settings that it copies.

    Args:
        rate: probability that a setting is moved.
        min_factor: the smallest factor of a move.
        max_factor: the largest factor of a move.
        resample_rate: probability that a setting is drawn anew instead.
    """

    rate: Fraction = 0.5
    min_factor: Annotated[float, AtLeast(1)] = 1.1
    max_factor: Annotated[float, AtLeast(1)] = 1.5
    resample_rate: Fraction = 0.05

    def __post_init__(self):
        if self.max_factor < self.min_factor:
            raise ConfigError(
                f"Mutation.max_factor is {self.max_factor}: it must be at least min_factor = "
                f"{self.min_factor}"
            )


@configurable("alf.population", role=Role.ADJUSTABLE)
@dataclasses.dataclass(frozen=True)
class Replacement:
    """Which members copy another one.

    Args:
        quantile: share of the worst members, which copy the same share of the best. 0: nobody copies.
        min_gap: least difference of the objectives of the member and of the one that it copies.
        min_relative_gap: the same, divided by the absolute objective of the one that is copied.
        warm_up: environment steps of a member before it copies another one.
    """

    quantile: Annotated[float, AtLeast(0), AtMost(0.5)] = 0.25
    min_gap: NonNegativeFloat = 0.0
    min_relative_gap: NonNegativeFloat = 0.0
    warm_up: NonNegativeInt = 0


def draw(ranges, rng):
    """Draws a value of each setting: dict from name to `Range` -> dict from name to value."""
    return {name: values.draw(rng) for name, values in ranges.items()}


def fit(values, ranges):
    """Returns the settings of a study whose ranges were others, within the present ones: dicts by name."""
    return {name: setting.fit(values[name]) for name, setting in ranges.items()}


def mutate(values, ranges, rng, rate, min_factor, max_factor, resample_rate):
    """Returns other settings near to `values`, a dict; each one changes independently of the others.

    Args:
        values, ranges: dicts by name, of the same names.
        rng: `numpy.random.Generator`.
        rate, min_factor, max_factor, resample_rate: as in `Mutation`.
    """
    mutated = {}
    for name, setting in ranges.items():
        resamples, moves, is_up = rng.random() < resample_rate, rng.random() < rate, rng.random() < 0.5
        factor = rng.uniform(min_factor, max_factor)
        if resamples:
            mutated[name] = setting.draw(rng)
        elif moves:
            mutated[name] = setting.move(values[name], factor, is_up)
        else:
            mutated[name] = values[name]
    return mutated


def rank(objectives):
    """Returns the indices of members from the worst to the best; those with NaN first, then ties by index."""
    return sorted(range(len(objectives)), key=lambda i: (not math.isnan(objectives[i]), objectives[i], i))


def list_best(objectives, quantile):
    """Returns the indices of the best members, without those whose objective is NaN."""
    count = count_replaced(len(objectives), quantile)
    return [i for i in rank(objectives)[len(objectives) - count :] if not math.isnan(objectives[i])]


def count_replaced(num_members, quantile):
    """How many of the worst members copy as many of the best: at least one, unless `quantile` is 0."""
    return min(math.ceil(num_members * quantile), num_members // 2)


def choose_parent(member, objectives, rng, quantile, min_gap=0.0, min_relative_gap=0.0):
    """Chooses which member another one copies.

    Args:
        member: index of the one that would copy.
        objectives: list of floats, of all members; NaN where there is none yet, which is the worst.
        rng: `numpy.random.Generator`.
        quantile, min_gap, min_relative_gap: as in `Replacement`.

    Returns:
        an index, or None: the member is not among the worst ones, or the gap is too small.
    """
    if member not in rank(objectives)[: count_replaced(len(objectives), quantile)]:
        return None
    best = list_best(objectives, quantile)
    if not best:
        return None
    parent = best[rng.integers(len(best))]
    own, others = objectives[member], objectives[parent]
    if math.isnan(own):
        return parent
    gap = others - own
    is_enough = gap >= min_gap and gap >= min_relative_gap * abs(others)
    return parent if gap > 0 and is_enough else None


def choose_any_parent(objectives, rng, quantile):
    """Chooses one of the best members, for one whose weights are lost.

    It returns an index, or None: no member is good, or `quantile` is 0 and nobody copies.
    """
    best = list_best(objectives, quantile) if count_replaced(len(objectives), quantile) else []
    return best[rng.integers(len(best))] if best else None
