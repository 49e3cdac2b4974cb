# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PopulationStudy: gives orders to the members of a population. Without Ray and TensorFlow."""

import os
import time
from typing import NamedTuple

import numpy as np

from alf.errors import ConfigError, EnvError, argument
from alf.runs.run_dir import POPULATION_FILE
from alf.studies.evolution import Evolution
from alf.studies.lineage import draw_lineage, make_table, write_table
from alf.studies.state import read_json, write_json
from alf.studies.study import Studied, Study
from alf.studies.tunables import find_limits

MEMBERS = "members"  # the folder of their directories
# Files in a member's directory: its order, its last report, and the number of the last order that it carried
# out. The study writes the first one, the member the others.
ORDER_FILE, REPORT_FILE, DONE_ORDER_FILE = "order.json", "report.json", "population_order.json"
_WRONG_SETTING = 2  # exit status of a member
_PICTURE_SECONDS = 30.0  # between two pictures


class MemberRun(NamedTuple):
    """The process of a member."""

    member: int
    path: str  # its root_dir
    arguments: tuple  # of Python

    def describe(self):
        return f"member {self.member}"


class PopulationStudy(Study):
    """Gives members the orders of `Evolution`, and takes their reports.

    `order.json` in a member's directory has its order and its `turn`, which counts its intervals in this
    process of the study. The member writes `report.json` of that turn, and waits for the next turn. Orders
    are written to `population.json` before they are given, and a member that has carried out an order does
    nothing when it gets the order again. So a study that was killed goes on with the same orders.

    Args:
        folder, announce, config: as for `Study`.
        population: `Population`.
        num_members: int, at least 2.
        takes_turns: whether members must take turns, because not all have room at the same time.

    Attributes:
        evolution: `Evolution`.
        errors: list of texts, the errors of the members that were lost.
        stop_reason: text, the reason why all members must end; None: each trains until its own end.
    """

    kind, state_file, run_folders = "a study", POPULATION_FILE, os.path.join(MEMBERS, "*")
    state_keys = frozenset({"seed", "num_draws", "objective", "objectives", "orders", "rows"})

    def __init__(self, folder, announce, config, population, num_members, takes_turns):
        super().__init__(folder, announce, config, population)
        self._takes_turns, self._drawn = takes_turns, time.monotonic()
        self.errors, self.stop_reason = [], None
        self._queue += range(num_members)
        # Above the turns of a study that was killed, whose members may still write reports.
        self._turns = [time.time_ns() // 1_000_000] * num_members
        self._crashes = [0] * num_members  # in this process: a study that goes on counts anew
        self._divergences = [0] * num_members  # of each member, in a row
        state = self.read_state()
        if state is not None:
            self._check_same(state, num_members)
        # Part of the state: with `Population.seed = None` it is drawn here, once, and the decisions of
        # `Evolution` and the seed of each member follow from it, also when the study goes on.
        seeds = np.random.SeedSequence(population.seed)
        self._seed = int(seeds.generate_state(1)[0]) if state is None else state["seed"]
        rules = *population.rules, population.objective, self._seed
        self.evolution = Evolution(population.settings, *rules, has_checkpoints=True)
        if state is None:
            self.evolution.begin(num_members)
            self._write()  # Before any member starts: a kill must not lose the orders it follows.
        else:
            self.evolution.set_state(state)

    def next_run(self):
        """Returns the next `MemberRun` to start, or None."""
        if not self._queue or self.stop_reason is not None:
            return None
        member = self._queue.popleft()
        path = self.path_of(member)
        os.makedirs(path, exist_ok=True)
        self._give_order(member)  # Before its process starts, which reads its first order at once.
        return MemberRun(member, path, ("-m", "alf", "run_member", self.gin_file, path))

    def watch(self, run):
        """Takes the report of a member, if it has written one; returns whether its process is to end."""
        report = read_json(os.path.join(run.path, REPORT_FILE))
        # A report of another turn was taken already, or comes from an earlier process.
        if report is not None and report["turn"] == self._turns[run.member]:
            self._take(run.member, report)
            if self._divergences[run.member] > self.settings.max_failures:
                self._announce(f"member {run.member} ends: it has diverged too often")
                return True
            if report["is_over"]:
                return False  # Its process ends by itself; it gets no other order.
            # Its process ends to make room, and the member waits behind the others.
            if self._takes_turns and self._queue:
                self._queue.append(run.member)
                return True
            self._give_order(run.member)
        return self.stop_reason is not None

    def end(self, run, status, error):
        """Decides whether a member whose process has ended is started again, or lost.

        Raises:
            ConfigError: if a setting is wrong, because that ends every member.
        """
        if status is None:
            return
        self.watch(run)  # The process may have reported between the last look and its end.
        # All members have the same configuration, apart from their values of the ranges, and would fail, too.
        if status == _WRONG_SETTING:
            raise ConfigError(error)
        if status == 0:
            return
        self._crashes[run.member] += 1
        if self._crashes[run.member] <= self.settings.max_failures:
            self._announce(f"member {run.member} is started again: {error}")
            # A member that was asked to end, to make room, already waits behind the others. Any other one
            # goes first, because its interval is not over.
            if run.member not in self._queue:
                self._queue.appendleft(run.member)
            return
        self._announce(f"member {run.member} is lost: {error}")
        self.errors.append(error)
        # Otherwise it would stay among the best by its last objective, and others would copy it for ever.
        self.evolution.lose(run.member)
        self._write()

    def conclude(self, stop_reason):
        rows, best = self.evolution.rows, self.evolution.best()
        if rows:
            self.draw()
        if best is not None:
            print(
                f"member {best} is the best, {self.settings.objective} "
                f"{self.evolution.objectives[best]:.6g}: alf play {self.path_of(best)}"
            )
        if len(self.errors) == len(self.evolution.orders):
            raise EnvError(f"all members are lost; the first one: {self.errors[0]}")
        if stop_reason is None:
            print(self.stop_reason or "all members have ended")
        return Studied(None if best is None else self.path_of(best), make_table(rows))

    def may_change(self, role):
        return role.may_change

    def path_of(self, member):
        """Returns the path of a member's root_dir."""
        return os.path.join(self.folder, MEMBERS, str(member))

    def draw(self):
        """Draws the picture of the rows so far into the folder."""
        draw_lineage(self.evolution.rows, self.settings.settings, self.settings.objective, self.folder)
        self._drawn = time.monotonic()

    def _give_order(self, member):
        self._turns[member] += 1
        order, seed = self.evolution.orders[member], [self._seed, member]
        write_order(self.path_of(member), self._turns[member], order, self.settings, seed)

    def _take(self, member, report):
        """Takes a report, decides, and writes the decision down before the member learns of it."""
        self._turns[member] += 1  # So that `watch` does not take this report again.
        before = self.evolution.orders[member]
        # Before the report, which adds a row of its own.
        objectives = [row["objective"] for row in self.evolution.rows if row["objective"] is not None]
        names = "env_steps", "objective", "diverged", "is_over", "path"
        order = self.evolution.report(member, **{name: report[name] for name in names})
        # In a row: whoever has reported a number in between trains again.
        self._divergences[member] = self._divergences[member] + 1 if report["diverged"] else 0
        self._write()
        # Seldom: while Matplotlib draws, this thread takes no reports, and members wait for their orders.
        if time.monotonic() - self._drawn > _PICTURE_SECONDS:
            self.draw()
        objective, at = report["objective"], f"at {report['env_steps']:,} env steps"
        if report["diverged"]:
            self._announce(f"member {member} has diverged: {report['reason']}")
        elif objective > max(objectives, default=-np.inf):
            settings = _format(before["settings"])
            self._announce(
                f"member {member} has the best objective so far, {objective:.6g}, {at}; {settings}"
            )
        if order is not before and order["parent"] is not None:
            parent = order["parent"]
            self._announce(
                f"member {member}, {objective:.6g}, copies member {parent['member']}, "
                f"{parent['objective']:.6g}, {at}; {_format(order['settings'])}"
            )
        if report["is_over"]:
            self._announce(f"member {member} has ended: {report['reason']}")
            if report["reason"].startswith("target_"):
                self.stop_reason = self.stop_reason or f"member {member}: {report['reason']}"

    def _check_same(self, state, num_members):
        """Raises ConfigError unless the state belongs to a study with the same members and settings."""
        if len(state["orders"]) != num_members:
            raise ConfigError(
                f"{argument('population')} is {num_members}: the study in {self.folder!r} has "
                f"{len(state['orders'])} members"
            )
        # The names must be the same, as every order has a value for each. The ranges may differ.
        ours, theirs = list(self.settings.settings), list(state["orders"][0]["settings"])
        if sorted(ours) != sorted(theirs):
            raise ConfigError(
                f"Population.settings has {', '.join(ours)}: the study in {self.folder!r} "
                f"tunes {', '.join(theirs)}"
            )

    def _write(self):
        # The state first: the table can be made from it, and a study that goes on reads only the state.
        self.write_state(seed=self._seed, **self.evolution.get_state())
        write_table(self.folder, self.evolution.rows, list(self.settings.settings))


def write_order(path, turn, order, population, seed):
    """Writes the file with the order of a member for its next interval.

    Args:
        path: the root_dir of the member.
        turn: int, larger than all turns before.
        order: dict, an order of `Evolution`.
        population: `Population`.
        seed: list of ints, from which the member's `Experiment.seed` follows.
    """
    settings = order["settings"]
    limits = find_limits(population.settings)
    # The member assigns these to variables while it trains.
    tunables = {name: x for name, x in settings.items() if name in limits}
    given = dict(
        turn=turn,
        number=order["number"],
        parent=order["parent"],
        tunables=tunables,
        graph={name: x for name, x in settings.items() if name not in tunables},  # needs another `Trainer`
        limits=limits,
        interval=population.interval,
        objective=population.objective,
        seed=seed,
    )
    write_json(os.path.join(path, ORDER_FILE), given)


def _format(settings):
    values = settings.items()
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values)
