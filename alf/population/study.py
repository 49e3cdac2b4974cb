# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Study: what a population has done so far, and what each member is to do. Without Ray and TensorFlow."""

import csv
import glob
import io
import json
import math
import os

import numpy as np

from alf.config.comparison import check_same
from alf.core.files import write_file
from alf.errors import ConfigError
from alf.population.mutation import choose_any_parent, choose_parent, draw, fit, list_best, mutate
from alf.runs.folders import POPULATION_FILE, damaged, has_checkpoints, read_state

TABLE_FILE = "population.csv"
MEMBERS = "members"  # the folder of their directories
_COLUMNS = ("member", "env_steps", "objective", "parent", "parent_env_steps")
_SETTINGS = {str: (str, float, bool)}
_REPORT = {"member": int, "env_steps": int, "objective": (float, None), "path": (str, None)}
_STATE = {
    "seed": int,
    "num_draws": int,
    "config": {str: str},
    "objective": str,
    "objectives": [(float, None)],
    "orders": [{"member": int, "number": int, "settings": _SETTINGS, "parent": (_REPORT, None)}],
    "rows": [
        _REPORT
        | {"parent": (int, None), "parent_env_steps": (int, None), "settings": _SETTINGS, "order": int}
    ],
}


class Study:
    """Decides which member copies which, and keeps the table of all intervals.

    An order says what a member is to be: a dict of `member`, its index; `number`, which counts its orders;
    `settings`, values by name; and `parent`, None or what it is to copy: a dict of that one's `member`,
    `path` of a checkpoint, `env_steps` and `objective`. A member that has carried out an order does nothing
    when it gets it again. So orders are written before they are given, and a study that was killed goes on
    with them. A study that has no row, and whose members have saved no checkpoint, has nothing to lose: it
    begins anew.

    Args:
        folder: of the study.
        population: `Population`.
        num_members: int, at least 2.
        config: dict from name to text, the gin bindings of all members.

    Attributes:
        orders: list of each member's order.
        objectives: list of each member's last objective, a float; NaN where there is none.
        rows: list of dicts, the table: an interval of a member each, in the order of time. An `objective`
            of None is NaN.
        seed: int, of the members.

    Raises:
        ConfigError: if the folder has another study, or its state is damaged.
    """

    def __init__(self, folder, population, num_members, config):
        self._folder = folder
        self._path = os.path.join(folder, POPULATION_FILE)
        self._table = os.path.join(folder, TABLE_FILE)
        self._population = population
        self._config = config
        self._counts = [0] * num_members  # of the times in a row that a member has diverged
        state = self._read()
        if state is None:
            self.seed = int(np.random.SeedSequence(population.seed).generate_state(1)[0])
            self._num_draws = 0
            settings = [draw(population.settings, self._make_rng()) for _ in range(num_members)]
            self.orders = [_make_order(i, 0, x) for i, x in enumerate(settings)]
            self.objectives = [math.nan] * num_members
            self.rows = []
            self._write()
        else:
            self._check_same(state, num_members)
            self.seed, self._num_draws = state["seed"], state["num_draws"]
            self.orders, self.rows = state["orders"], state["rows"]
            for order in self.orders:  # the ranges may be others than before
                order["settings"] = fit(order["settings"], population.settings)
            self.objectives = [_to_float(x) for x in state["objectives"]]
            if state["objective"] != population.objective:  # the numbers of two objectives do not compare
                self.objectives = [math.nan] * num_members

    def report(self, report):
        """Takes the report of a member at the end of an interval; returns its order from now on.

        Args:
            report: dict of `member`; `env_steps`, its own; `objective`, a float; `path` of its checkpoint;
                `diverged`, whether its weights are lost; and `is_over`, whether it has ended.

        Returns:
            the order; None if the member has diverged too often.
        """
        member, order = report["member"], self.orders[report["member"]]
        self.objectives[member] = math.nan if report["diverged"] else report["objective"]
        parent = order["parent"] if self._is_first_after_copy(order) else None
        objective = _without_nan(self.objectives[member])
        row = dict(member=member, env_steps=report["env_steps"], objective=objective)
        row["parent"] = None if parent is None else parent["member"]
        row["parent_env_steps"] = None if parent is None else parent["env_steps"]
        details = dict(settings=order["settings"], path=report["path"], order=order["number"])
        self.rows.append(row | details)
        self._counts[member] = self._counts[member] + 1 if report["diverged"] else 0
        if self._counts[member] > self._population.max_failures:
            self._write()
            return None
        if not report["is_over"]:
            self.orders[member] = self._decide(report, order)
        self._write()
        return self.orders[member]

    def best(self):
        """Returns the index of the member whose last objective is the best; None if there is none."""
        best = list_best(self.objectives, 0.5)
        return best[-1] if best else None

    def lose(self, member):
        """Takes note that a member has ended by an error."""
        self.objectives[member] = math.nan
        self._write()

    def table(self):
        """The table as the text of a CSV file."""
        return format_table(self.rows, list(self._population.settings))

    def _decide(self, report, order):
        """The order of a member after its report: another one if it copies, else the one that it has."""
        population, member, rng = self._population, report["member"], self._make_rng()
        replacement = vars(population.replacement)
        limits = {name: replacement[name] for name in ("quantile", "min_gap", "min_relative_gap")}
        if report["diverged"]:
            parent = choose_any_parent(self.objectives, rng, replacement["quantile"])
        elif report["env_steps"] < replacement["warm_up"]:
            parent = None
        else:
            parent = choose_parent(member, self.objectives, rng, **limits)
        if parent is not None:
            copied = next(row for row in reversed(self.rows) if row["member"] == parent)
            ranges = population.settings
            settings = mutate(fit(copied["settings"], ranges), ranges, rng, **vars(population.mutation))
            keys = ("member", "path", "env_steps", "objective")
            return _make_order(member, order["number"] + 1, settings, {key: copied[key] for key in keys})
        # Nobody is good, and with the same settings it would diverge again.
        if report["diverged"] and replacement["quantile"]:
            return _make_order(member, order["number"] + 1, draw(population.settings, rng))
        return order

    def _is_first_after_copy(self, order):
        own = [row for row in self.rows if row["member"] == order["member"]]
        return not own or own[-1]["order"] != order["number"]

    def _make_rng(self):
        """A generator for one decision: a study that goes on does not repeat the numbers from before."""
        self._num_draws += 1
        return np.random.default_rng([self.seed, self._num_draws])

    def _read(self):
        """Returns the state from before; None if the study begins."""
        state = read_state(self._path, _STATE)
        members = glob.glob(os.path.join(glob.escape(self._folder), MEMBERS, "*"))
        has_trained = any(map(has_checkpoints, members))
        if state is None and has_trained:
            raise damaged(self._path, f"it is missing, but {MEMBERS}/ has runs")
        if state is None or not (has_trained or state["rows"]):
            return None
        if not _is_whole(state):
            raise damaged(self._path, "its parts do not belong together")
        return state

    def _check_same(self, state, num_members):
        """Raises ConfigError unless the state is of a study with the same members and bindings."""
        if len(state["orders"]) != num_members:
            raise ConfigError(
                f"--population is {num_members}: the study in {self._folder!r} has "
                f"{len(state['orders'])} members"
            )
        ours, theirs = list(self._population.settings), list(state["orders"][0]["settings"])
        if sorted(ours) != sorted(theirs):
            raise ConfigError(
                f"Population.settings has {', '.join(ours)}: the study in {self._folder!r} "
                f"tunes {', '.join(theirs)}"
            )
        what = f"{self._folder!r} holds a study"
        check_same(what, self._config, state["config"], lambda role: not role.may_change)

    def _write(self):
        state = dict(seed=self.seed, num_draws=self._num_draws, config=self._config, orders=self.orders)
        state |= dict(objective=self._population.objective, objectives=self.objectives, rows=self.rows)
        write_file(self._path, json.dumps(_without_nan(state)))
        write_file(self._table, self.table())


def format_table(rows, names):
    """Makes the text of a CSV file of `Study.rows`; `names` are those of the settings."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_COLUMNS, *names])
    for row in rows:
        writer.writerow([*(row[name] for name in _COLUMNS), *(row["settings"][name] for name in names)])
    return text.getvalue()


def _is_whole(state):
    """Whether the members and the names of the settings are the same in all parts of a state."""
    orders, rows, objectives = state["orders"], state["rows"], state["objectives"]
    members = list(range(len(objectives)))
    judged = {member for member in members if objectives[member] is not None}
    return (
        [order["member"] for order in orders] == members
        and judged <= {row["member"] for row in rows} <= {*members}
        and len({frozenset(x["settings"]) for x in (*orders, *rows)}) == 1
    )


def _make_order(member, number, settings, parent=None):
    return dict(member=member, number=number, settings=settings, parent=parent)


def _without_nan(state):
    """NaN is no JSON: None stands for it."""
    if isinstance(state, dict):
        return {key: _without_nan(x) for key, x in state.items()}
    if isinstance(state, list):
        return [_without_nan(x) for x in state]
    return None if isinstance(state, float) and math.isnan(state) else state


def _to_float(number):
    return math.nan if number is None else number
