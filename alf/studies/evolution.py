# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population based training: decides which members copy which others, and how their settings change.

A member is a run of `alf pbt`, or a policy of a run with a `PolicyPopulation`. `Evolution` decides for both.
This module imports neither Ray nor TensorFlow.
"""

import copy
import dataclasses
import math
from typing import Annotated

import numpy as np

from alf.config.kinds import AtLeast, AtMost, Fraction, NonNegativeFloat, NonNegativeInt
from alf.config.settings import Role, configurable
from alf.errors import ConfigError
from alf.studies.ranges import draw, fit


@configurable("alf.population", role=Role.ADJUSTABLE)
@dataclasses.dataclass(frozen=True)
class Mutation:
    """How far the settings of a member differ from the settings that it copies.

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
    """The rules by which a member copies another one.

    Args:
        quantile: share of the members: the worst ones copy the best ones. 0: nobody copies.
        min_gap: least difference between the objectives of the copied member and the copying one.
        min_relative_gap: the same, divided by the absolute objective of the copied member.
        warm_up: environment steps of a member before it copies another one.
    """

    quantile: Annotated[float, AtLeast(0), AtMost(0.5)] = 0.25
    min_gap: NonNegativeFloat = 0.0
    min_relative_gap: NonNegativeFloat = 0.0
    warm_up: NonNegativeInt = 0


def mutate(values, ranges, mutation, rng):
    """Returns a dict of other settings near to `values`; each setting changes independently of the others.

    Args:
        values, ranges: dicts from the same names to values and to `Range`s.
        mutation: `Mutation`.
        rng: `numpy.random.Generator`.
    """
    mutated = dict(values)
    for name, setting in ranges.items():
        # All numbers are drawn for every setting, used or not: what happens to one setting does not change
        # the random numbers of the next one.
        resamples, moves = rng.random() < mutation.resample_rate, rng.random() < mutation.rate
        is_up, factor = rng.random() < 0.5, rng.uniform(mutation.min_factor, mutation.max_factor)
        if resamples:
            mutated[name] = setting.draw(rng)
        elif moves:
            mutated[name] = setting.move(values[name], factor, is_up)
    return mutated


def choose_parent(member, objectives, replacement, rng, diverged=False):
    """Chooses the member that a given member copies.

    Args:
        member: index of the member that would copy.
        objectives: list of the objectives of all members, floats. NaN, for a member that has none yet, counts
            as the worst.
        replacement: `Replacement`.
        rng: `numpy.random.Generator`.
        diverged: whether the weights of the member are lost: it copies even if others are worse.

    Returns:
        an index, or None if the member is not among the worst, nobody is better by the gap, or nobody copies.
    """
    # From the worst to the best; the index makes the order of equal objectives the same every time.
    order = sorted(range(len(objectives)), key=lambda i: (not math.isnan(objectives[i]), objectives[i], i))
    # At most half of them, so that nobody is among the best and the worst at the same time.
    count = min(math.ceil(len(order) * replacement.quantile), len(order) // 2)
    best = [i for i in order[len(order) - count :] if not math.isnan(objectives[i])]
    if not best or not (diverged or member in order[:count]):
        return None
    # Truncation selection, as in the paper (arXiv 1711.09846): any of the best, with the same probability.
    parent = best[rng.integers(len(best))]
    # NaN if the member has no objective. NaN passes both comparisons below: such a member always copies.
    gap = objectives[parent] - objectives[member]
    least = max(replacement.min_gap, replacement.min_relative_gap * abs(objectives[parent]))
    return None if gap <= 0 or gap < least else parent


class Evolution:
    """Decides which member copies which other one, and keeps the table of all intervals.

    An order is a dict of `member`, an index; `number`, which counts the orders of this member; `settings`,
    values by name; and `parent`, the source of a copy or None: a dict of the parent's `member`,
    `env_steps` and `objective` in its last report, and `path` of its checkpoint then, or None.

    The random numbers of a decision follow from the seed and the number of decisions before it. So a study
    that goes on does not repeat earlier numbers.

    Args:
        ranges: dict from the names of settings to `Range`.
        mutation, replacement: `Mutation`, `Replacement`.
        objective: text, the figure that ranks the members. Reports by another objective do not count.
        seed: int.
        has_checkpoints: whether members are runs. Then a copy gets the settings with which the parent made
            its last report, because its checkpoint has the weights of then; and a member that has diverged
            while it can copy nobody draws new settings. Otherwise a copy gets the parent's present weights
            and settings.

    Attributes:
        orders: list of each member's order; empty before `begin`.
        objectives: list of each member's last objective, a float; NaN if it has none.
        rows: list of dicts, the table. Each row is an interval of a member; they are in the order of time. An
            `objective` of None means NaN.
    """

    def __init__(self, ranges, mutation, replacement, objective, seed, has_checkpoints):
        self._ranges, self._mutation, self._replacement = ranges, mutation, replacement
        self._objective, self._seed, self._has_checkpoints = objective, seed, has_checkpoints
        self.orders, self.objectives, self.rows = [], [], []
        self._num_draws = 0

    def begin(self, num_members):
        """Draws the first settings of all members."""
        settings = [draw(self._ranges, self._make_rng()) for _ in range(num_members)]
        self.orders = [_make_order(i, 0, x) for i, x in enumerate(settings)]
        self.objectives = [math.nan] * num_members

    @property
    def num_copies(self):
        """How often any member has copied another one, an int."""
        # A copy stands in the order until the member's next report puts it into a row.
        pending = [self._copied_by(order) for order in self.orders]
        return sum(x is not None for x in (*pending, *(row["parent"] for row in self.rows)))

    def report(self, member, env_steps, objective, diverged=False, is_over=False, path=None):
        """Takes the report of a member at the end of an interval; returns its order from now on.

        Args:
            member: int.
            env_steps: int, which this member has made.
            objective: float; NaN if the member has none.
            diverged: whether its weights are lost.
            is_over: whether the member has ended: its order stays.
            path: path of its checkpoint, or None.
        """
        order, parent = self.orders[member], self._copied_by(self.orders[member]) or {}
        last = self.last_row(member)
        # A new process of the same order has not evaluated yet.
        if math.isnan(objective) and last is not None and last["order"] == order["number"]:
            objective = self.objectives[member]
        # Before the row and the decision, which both use it: weights that are lost have no objective.
        self.objectives[member] = math.nan if diverged else objective
        row = dict(member=member, env_steps=env_steps, objective=_without_nan(self.objectives[member]))
        row |= dict(parent=parent.get("member"), parent_env_steps=parent.get("env_steps"))
        self.rows.append(row | dict(settings=order["settings"], path=path, order=order["number"]))
        if not is_over:
            self.orders[member] = self._decide(order, env_steps, diverged)
        return self.orders[member]

    def lose(self, member):
        """Takes note that an error has ended a member: nobody copies it any more."""
        self.objectives[member] = math.nan

    def best(self):
        """Returns the index of the member with the best last objective; None if no member has one."""
        judged = [(x, i) for i, x in enumerate(self.objectives) if not math.isnan(x)]
        return max(judged)[1] if judged else None

    def last_row(self, member):
        """Returns the last row of a member; None before its first report."""
        return next((row for row in reversed(self.rows) if row["member"] == member), None)

    def get_state(self):
        """Returns the state for `set_state`, of JSON types."""
        objectives = list(map(_without_nan, self.objectives))
        state = dict(num_draws=self._num_draws, objective=self._objective, objectives=objectives)
        # A copy, because orders and rows go on changing.
        return copy.deepcopy(state | dict(orders=self.orders, rows=self.rows))

    def set_state(self, state):
        """Restores the state that `get_state` returned; settings are fitted into the present ranges."""
        self._num_draws, self.orders, self.rows = state["num_draws"], state["orders"], state["rows"]
        for order in self.orders:
            order["settings"] = fit(order["settings"], self._ranges)
        # Another figure may have another scale, so the old numbers cannot be compared with new ones.
        is_same = state["objective"] == self._objective
        self.objectives = [math.nan if x is None or not is_same else x for x in state["objectives"]]

    def _decide(self, order, env_steps, diverged):
        """Returns a new order if the member copies another one, else the order that it has."""
        member, rng, parent = order["member"], self._make_rng(), None
        # Lost weights do not wait for the warm-up: there is nothing to warm up any more.
        if diverged or env_steps >= self._replacement.warm_up:
            parent = choose_parent(member, self.objectives, self._replacement, rng, diverged)
        if parent is not None:
            row = self.last_row(parent)
            before = row["settings"] if self._has_checkpoints else self.orders[parent]["settings"]
            # A row may come from before the ranges changed; `set_state` only fits the orders.
            settings = mutate(fit(before, self._ranges), self._ranges, self._mutation, rng)
            copied = {key: row[key] for key in ("member", "path", "env_steps", "objective")}
            return _make_order(member, order["number"] + 1, settings, copied)
        # Nobody can be copied, and with the same settings the member would diverge again.
        if diverged and self._has_checkpoints and self._replacement.quantile:
            return _make_order(member, order["number"] + 1, draw(self._ranges, rng))
        return order

    def _copied_by(self, order):
        """Returns the `parent` in an order if the member copied it since its last report, else None."""
        last = self.last_row(order["member"])
        return order["parent"] if last is None or last["order"] != order["number"] else None

    def _make_rng(self):
        """Makes the generator of one decision. The count is part of the state, so no decision repeats one."""
        self._num_draws += 1
        return np.random.default_rng([self._seed, self._num_draws])


def _make_order(member, number, settings, parent=None):
    return dict(member=member, number=number, settings=settings, parent=parent)


def _without_nan(number):
    """Returns None for NaN, which JSON does not have."""
    return None if math.isnan(number) else number
