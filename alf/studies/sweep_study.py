# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SweepStudy: the runs of a sweep, and their outcomes."""

import contextlib
import os
import re
import time
from typing import NamedTuple

import numpy as np

from alf.config.settings import Role
from alf.errors import ConfigError, argument
from alf.plots.runs import read_run
from alf.runs.progress_file import PROGRESS_FILE
from alf.runs.run_dir import SWEEP_FILE, has_checkpoints
from alf.studies.outcome import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    PRUNED,
    read_outcome,
    read_progress,
)
from alf.studies.state import damaged
from alf.studies.study import Studied, Study
from alf.studies.table import PICTURE_FILE, draw_curves, list_runs, make_rows, write_tables
from alf.studies.trials import TRIALS_FILE, Trials, describe

RUNS = "runs"
_MAX_NAME = 100  # characters of a folder's name
_WATCH_SECONDS = 1.0  # between two looks at the progress of a run, which read its whole file


class SweepRun(NamedTuple):
    """One run of a sweep: a trial's settings and a seed."""

    trial: int
    settings: dict  # from the names of gin bindings to the texts of their values
    seed: int
    path: str  # its root_dir
    arguments: tuple = ()  # of Python for its process

    def describe(self):
        """Returns a text with the settings and the seed."""
        return ", ".join(filter(None, [describe(self.settings), f"seed {self.seed}"]))


class SweepStudy(Study):
    """A run for each trial and seed, and the outcome of each.

    `Trials` has the trials. The outcome of a run is read from its own files: a run whose `done.json` says
    SUCCESS is over; any other run is still to be done, unless its trial was pruned.

    Args:
        folder, announce, config: as for `Study`.
        sweep: `Sweep`.
        seeds: list of ints: each trial has a run for each of them.
        grid: dict from names of settings to lists of texts.
        make_arguments: callable (`gin_file`, `SweepRun`) -> the arguments of Python for its process, a list
            of texts.

    Attributes:
        runs: list of all `SweepRun`s so far.
        outcomes: dict from the path of a run to its `Outcome`.
        objective: name of the column that ranks the runs.
        count: int, the number of runs that the sweep will have.
    """

    kind, state_file, run_folders = "a sweep", SWEEP_FILE, os.path.join(RUNS, "*", "*")
    state_keys = frozenset({"seeds"})

    def __init__(self, folder, announce, config, sweep, seeds, grid, make_arguments):
        super().__init__(folder, announce, config, sweep)
        self._seeds, self._make_arguments = seeds, make_arguments
        self.objective = sweep.objective
        self._trials = self._open_trials(self.read_state(), grid)
        # After the comparison: a sweep that is refused leaves the file as it was. Before any run starts.
        self.write_state(seeds=seeds)
        self.count = self._trials.count * len(seeds)
        self.runs, self.outcomes = [], {}
        self._watched = {}  # path of a run -> `time.monotonic` when its progress was read
        for trial in range(len(self._trials.settings)):
            self._add_runs(trial)

    def next_run(self):
        """Returns the next `SweepRun` to start, or None."""
        while True:
            # Asked for as late as possible: the search chooses a trial by the objectives of the earlier ones.
            while not self._queue:
                trial = self._trials.ask()
                if trial is None:
                    return None
                self._add_runs(trial)
            run = self._queue.popleft()
            # Its trial may have been pruned while the run waited for room.
            if not self._trials.is_pruned(run.trial):
                self._announce(f"starts {run.describe()}")
                # A run that was killed before its first checkpoint begins anew, as it belongs to the sweep.
                if not has_checkpoints(run.path):
                    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                        os.remove(os.path.join(run.path, PROGRESS_FILE))
                return run

    def watch(self, run):
        """Reports the progress of a run's trial to the pruner; returns whether the trial is pruned."""
        now = time.monotonic()
        if self.settings.pruner is None or now - self._watched.get(run.path, -np.inf) < _WATCH_SECONDS:
            return False
        self._watched[run.path] = now
        # A trial that is over takes no more values: Optuna would refuse them.
        if not self._trials.is_over(run.trial):
            self._report_steps(run.trial)
        # Also if another run of the trial has reported the step that ended it.
        return self._trials.is_pruned(run.trial)

    def end(self, run, status, error):
        """Keeps the outcome of a run whose process has ended, and writes the tables."""
        outcome, value = read_outcome(run.path, self.objective, self.settings.value), ""
        if outcome.objective is not None:
            value = f": {outcome.objective:.6g} at {outcome.env_steps:,} env steps"
        # The exit status counts, not `done.json`, which a run on a full disk cannot write.
        if status == 0:
            status = FINISHED
            self._announce(f"has finished {run.describe()}{value}")
        elif status is not None:
            status = FAILED
            self._announce(f"has failed {run.describe()}: {error}")
        # The runner asked it to end: because its trial is pruned, or because a signal stops the whole sweep.
        elif self._trials.is_pruned(run.trial):
            status = PRUNED
            self._announce(f"is pruned {run.describe()}{value}")
        else:
            status = INTERRUPTED
        self.outcomes[run.path] = outcome._replace(status=status, error=error)
        self._tell(run.trial)
        # At the end of each run: whenever the sweep is killed, its tables are up to date.
        write_tables(self)

    def conclude(self, stop_reason):
        # Once more: if no run was left to train, nothing has written them.
        print(write_tables(self))
        if draw_curves(self):
            print(os.path.join(self.folder, PICTURE_FILE))
        finished = [path for path, outcome in self.outcomes.items() if outcome.status == FINISHED]
        # Only now, because nothing but the runs' files says which columns there are: metrics may be the
        # user's.
        if finished and all(self.outcomes[path].objective is None for path in finished):
            columns = sorted({name for path in finished for name in read_run(path).columns})
            when = ", once each environment has ended an episode" * (self.objective == "BalancedReturn")
            raise ConfigError(
                f"Sweep.objective is {self.objective!r}: no run has it{when}; there are {', '.join(columns)}"
            )
        best = next((row.best for row in make_rows(self) if row.best is not None), None)
        if best is not None:
            print(f"the best is {best.describe()}: alf play {best.path}")
        failed = sum(outcome.status == FAILED for outcome in self.outcomes.values())
        if failed:
            print(f"{failed} of {self.count} runs have failed; the same command tries them again")
        return Studied(best and best.path, list_runs(self))

    def may_change(self, role):
        # Stricter than for a run: a setting that may change while a run goes on still changes its objective.
        return role is Role.EXECUTION

    def list_trials(self):
        """Returns a list with a pair for each trial: its settings, and the list of its `SweepRun`s."""
        return [(settings, self._runs_of(i)) for i, settings in enumerate(self._trials.settings)]

    def _runs_of(self, trial):
        # `_add_runs` adds the seeds of one trial after another.
        return self.runs[trial * len(self._seeds) : (trial + 1) * len(self._seeds)]

    def _open_trials(self, state, grid):
        """Returns the `Trials` of a new sweep, or of the sweep in the folder."""
        path = os.path.join(self.folder, TRIALS_FILE)
        if state is None:
            # A sweep without any checkpoint may have left the file; its trials do not count.
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            return Trials(self.folder, self.settings, grid)
        missing = [seed for seed in state["seeds"] if seed not in self._seeds]
        if missing:
            ours, theirs = (", ".join(map(str, seeds)) for seeds in (self._seeds, missing))
            raise ConfigError(
                f"{argument('seeds')} is {ours}: the sweep in {self.folder!r} also has {theirs}; name all of "
                "them, and more if you like"
            )
        if not os.path.exists(path):
            raise damaged(path, "it is missing, but there are runs")
        return Trials(self.folder, self.settings, grid)

    def _add_runs(self, trial):
        """Adds the runs of a trial to `runs`, and queues the runs that are not over."""
        settings = self._trials.settings[trial]
        # The number makes the name unique, even where it is cut.
        name = f"{trial:03d}_" + re.sub(r"[^\w.,=@+-]", "_", describe(settings).replace(", ", ","))
        folder = os.path.join(self.folder, RUNS, name[:_MAX_NAME].rstrip("_,"))
        is_pruned, to_do = self._trials.is_pruned(trial), []
        for seed in self._seeds:
            run = SweepRun(trial, settings, seed, os.path.join(folder, f"seed={seed}"))
            run = run._replace(arguments=tuple(self._make_arguments(self.gin_file, run)))
            outcome = read_outcome(run.path, self.objective, self.settings.value)
            if outcome.status != FINISHED and is_pruned:
                outcome = outcome._replace(status=PRUNED)
            self.runs.append(run)
            self.outcomes[run.path] = outcome
            to_do += [run] * (not outcome.is_over)
        # The trial may have ended in an earlier process: a run has failed, or there are more seeds now.
        if to_do and self._trials.is_over(trial):
            self._trials.begin_again(trial)
        self._queue += to_do
        # A sweep that was killed between the end of the last run and `tell` has not told it.
        self._tell(trial)

    def _tell(self, trial):
        """Tells the search the mean objective of a trial, once all its runs are over."""
        outcomes = [self.outcomes[run.path] for run in self._runs_of(trial)]
        if self._trials.is_over(trial) or not all(outcome.is_over for outcome in outcomes):
            return
        # Steps since the last look count for later trials; this one is over and cannot be pruned any more.
        if self.settings.pruner is not None:
            self._report_steps(trial, may_prune=False)
        values = [outcome.objective for outcome in outcomes if outcome.status == FINISHED]
        # A mean of some of the seeds could not be compared with the means of other trials.
        is_whole = len(values) == len(outcomes) and None not in values
        self._trials.tell(trial, sum(values) / len(values) if is_whole else None)

    def _report_steps(self, trial, may_prune=True):
        """Reports a trial to the pruner at each new step that all its runs with progress have reached."""
        # Runs that have not begun do not count. With less room than seeds they begin only when others have
        # ended, and the pruner would learn of the trial too late to end it.
        progress = [read_progress(run.path) for run in self._runs_of(trial)]
        curves = [run.curve(self.objective) for run in progress if run is not None]
        curves = [curve for curve in curves if curve is not None]
        interval = self.settings.pruner_interval
        last = min((int(curve.env_steps[-1]) // interval for curve in curves), default=0)
        for step in range(self._trials.last_step(trial) + 1, last + 1):
            values = [_value_at(curve, step * interval, self.settings.value) for curve in curves]
            if None in values:
                continue
            if self._trials.report(trial, step, float(np.mean(values)), may_prune):
                return


def _value_at(curve, env_steps, value):
    """Returns the last or best value of a curve up to `env_steps`; None before its first value."""
    values = curve.values[: np.searchsorted(curve.env_steps, env_steps, side="right")]
    return curve._replace(values=values).score(value) if len(values) else None
