# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyStudy: what a population in one run has done so far, and who copies whom. Without TensorFlow."""

import copy
import math

import numpy as np

from alf.population.mutation import choose_any_parent, choose_parent, draw, mutate


class PolicyStudy:
    """Decides which policy copies which, and keeps the table of all intervals.

    Its state is in the checkpoints of the run. The random numbers of a decision follow from the seed and the
    number of decisions before it, so that a run that goes on does not repeat those from before.

    Args:
        num_policies: int, at least 2.
        ranges: dict from names of settings to `Range`.
        interval: environment steps of a policy between two reports.
        objective: text, by what policies are judged; what a run reported by another one does not count.
        seed: int; None: the numbers differ from run to run.
        mutation, replacement: `Mutation`, `Replacement`.

    Attributes:
        settings: list of each policy's present settings, dicts by name; empty before `begin`.
        rows: list of dicts, as `Study.rows`: `member` is the place of the policy.
    """

    def __init__(self, num_policies, ranges, interval, objective, seed, mutation, replacement):
        self._ranges, self._interval, self._seed = ranges, interval, seed
        self._objective, self._num_old_rows = objective, 0  # rows of another objective
        self._mutation, self._replacement = mutation, replacement
        self._num_draws = 0
        self.rows, self.settings = [], []
        # Whom each policy has copied since its last row: a dict of the parent's place and environment steps.
        self._copied = [None] * num_policies

    @property
    def objectives(self):
        """The objective in each policy's last row, a list of floats; NaN where there is none."""
        rows = self.rows[self._num_old_rows :]
        last = [_find_last(rows, member) for member in range(len(self._copied))]
        found = [None if row is None else row["objective"] for row in last]
        return [math.nan if objective is None else objective for objective in found]

    @property
    def num_copies(self):
        """How often a policy has copied another one."""
        copied = [*self._copied, *(row["parent"] for row in self.rows)]
        return sum(parent is not None for parent in copied)

    def begin(self):
        """Draws the first settings, unless this run goes on."""
        if not self.settings:
            self.settings = [draw(self._ranges, self._make_rng()) for _ in self._copied]

    def is_due(self, member, env_steps):
        """Whether a policy with so many environment steps has come to the end of an interval."""
        last = self._last_row(member)
        return env_steps // self._interval > (last["env_steps"] if last else 0) // self._interval

    def report(self, member, env_steps, objective, has_diverged=False):
        """Takes the report of a policy and decides.

        Args:
            member: int, the place of the policy.
            env_steps: int, its own.
            objective: float; NaN if there is none.
            has_diverged: whether its weights are lost: it copies a good policy at once.

        Returns:
            the place of the policy that it copies; its `settings` are others then. None: it copies nobody.
        """
        copied = self._copied[member] or dict.fromkeys(("parent", "parent_env_steps"))
        objective = None if math.isnan(objective) else objective
        row = dict(member=member, env_steps=env_steps, objective=objective, **copied)
        self.rows.append({**row, "settings": self.settings[member]})
        self._copied[member] = None
        rng = self._make_rng()
        parent = self._choose(member, env_steps, has_diverged, rng)
        if parent is not None:
            self.settings[member] = mutate(self.settings[parent], self._ranges, rng, **vars(self._mutation))
            parent_env_steps = self._last_row(parent)["env_steps"]
            self._copied[member] = {"parent": parent, "parent_env_steps": parent_env_steps}
        return parent

    def get_state(self):
        """Returns what `set_state` needs, as JSON types."""
        state = dict(num_draws=self._num_draws, rows=self.rows, settings=self.settings, copied=self._copied)
        state |= dict(objective=self._objective, num_old_rows=self._num_old_rows)
        return copy.deepcopy(state)

    def set_state(self, state):
        """Restores what `get_state` returned."""
        self._num_draws, self.rows = state["num_draws"], state["rows"]
        self.settings, self._copied = state["settings"], state["copied"]
        is_same = state["objective"] == self._objective
        self._num_old_rows = state["num_old_rows"] if is_same else len(self.rows)

    def _choose(self, member, env_steps, has_diverged, rng):
        limits = vars(self._replacement)
        if has_diverged:
            return choose_any_parent(self.objectives, rng, limits["quantile"])
        if env_steps < limits["warm_up"]:
            return None
        limits = {name: limits[name] for name in ("quantile", "min_gap", "min_relative_gap")}
        return choose_parent(member, self.objectives, rng, **limits)

    def _last_row(self, member):
        """The last row of a policy; None before its first one."""
        return _find_last(self.rows, member)

    def _make_rng(self):
        """A generator for one decision."""
        self._num_draws += 1
        return np.random.default_rng(None if self._seed is None else [self._seed, self._num_draws])


def _find_last(rows, member):
    return next((row for row in reversed(rows) if row["member"] == member), None)
