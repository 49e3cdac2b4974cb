# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SweepStudy: which runs a sweep has, which are over, and what came of them."""

import collections
import glob
import json
import os
import re
from typing import NamedTuple

from alf.config.comparison import check_same
from alf.config.settings import Role
from alf.core.files import write_file
from alf.errors import ConfigError
from alf.runs.folders import SWEEP_FILE, damaged, has_checkpoints, read_state
from alf.sweep.outcome import FINISHED, read_objective, read_status
from alf.sweep.searches import describe

RUNS = "runs"
_STATE = {"config": {str: str}, "seeds": [int], "trials": [{"settings": {str: str}}]}
_MAX_NAME = 100  # characters of a folder's name


class Run(NamedTuple):
    """One run of a sweep: a trial's settings and a seed."""

    trial: int
    settings: dict  # from the names of gin bindings to the texts of their values
    seed: int
    path: str  # its root_dir

    def describe(self):
        """Its settings and its seed, a text."""
        return ", ".join(filter(None, [describe(self.settings), f"seed {self.seed}"]))


class SweepStudy:
    """Says which run is the next one, and keeps what came of each.

    A trial, that is settings, is written to `sweep.json` before its first run starts. What came of a run is
    read from its own files: a run whose `done.json` says SUCCESS is over, any other one is to be done. A
    sweep of which no run has saved a checkpoint has nothing to lose: it begins anew.

    Args:
        folder: of the sweep.
        config: dict from name to text, the gin bindings of all runs and of the search.
        seeds: list of ints, of the runs of each trial.
        search: `FixedSearch`, or another one.
        objective, value: as in `Sweep`.

    Attributes:
        runs: list of all `Run`s so far.
        outcomes: dict from the path of a run to its `Outcome`.
        objective: as above.
        count: int, of all runs that the sweep will have.

    Raises:
        ConfigError: if the folder has another sweep, or its state is damaged.
    """

    def __init__(self, folder, config, seeds, search, objective, value):
        self._folder, self._config, self._seeds, self._search = folder, config, seeds, search
        self.objective, self._value = objective, value
        state = self._read()
        self._trials = [trial["settings"] for trial in state["trials"]] if state else []
        if state:
            self._check_same(state)
        self.runs, self.outcomes = [], {}
        self._queue = collections.deque()
        self.count = search.count * len(seeds)

    def open(self):
        """Begins, or goes on: lists the runs so far and tells the search what came of them."""
        self._search.go_on(self._trials)
        self._write()
        for trial in range(len(self._trials)):
            self._add_runs(trial)
            self._tell(trial)

    def next_run(self):
        """Returns the next `Run` to start; None if there is none."""
        while not self._queue:
            settings = self._search.ask(self._trials)
            if settings is None:
                return None
            self._trials.append(settings)
            self._write()
            self._add_runs(len(self._trials) - 1)
        return self._queue.popleft()

    def report(self, run, status, error=""):
        """Takes note of how a run has ended; returns its `Outcome`."""
        outcome = read_objective(run.path, self.objective, self._value)
        self.outcomes[run.path] = outcome._replace(status=status, error=error)
        self._tell(run.trial)
        return self.outcomes[run.path]

    def list_trials(self):
        """Returns a list of (settings, list of its `Run`s), a pair for each trial."""
        of_trial = collections.defaultdict(list)
        for run in self.runs:
            of_trial[run.trial].append(run)
        return [(settings, of_trial[i]) for i, settings in enumerate(self._trials)]

    def _add_runs(self, trial):
        settings = self._trials[trial]
        folder = os.path.join(self._folder, RUNS, _name_folder(trial, settings))
        for seed in self._seeds:
            run = Run(trial, settings, seed, os.path.join(folder, f"seed={seed}"))
            self.runs.append(run)
            outcome = read_objective(run.path, self.objective, self._value)
            self.outcomes[run.path] = outcome._replace(status=read_status(run.path))
            if self.outcomes[run.path].status != FINISHED:
                self._queue.append(run)

    def _tell(self, trial):
        """Tells the search the mean objective of a trial whose runs are all over."""
        outcomes = [self.outcomes[run.path] for run in self.runs if run.trial == trial]
        if not all(outcome.is_over for outcome in outcomes):
            return
        values = [outcome.objective for outcome in outcomes if outcome.status == FINISHED]
        is_whole = len(values) == len(outcomes) and None not in values
        self._search.tell(trial, sum(values) / len(values) if is_whole else None)

    def _read(self):
        """Returns the state from before; None if the sweep begins."""
        path = os.path.join(self._folder, SWEEP_FILE)
        state, has_trained = read_state(path, _STATE), self._has_trained()
        if state is None and has_trained:
            raise damaged(path, f"it is missing, but {RUNS}/ has runs")
        return state if has_trained else None

    def _has_trained(self):
        """Whether a run of any trial has something to lose."""
        paths = glob.glob(os.path.join(glob.escape(self._folder), RUNS, "*", "*"))
        return any(has_checkpoints(path) or read_status(path) == FINISHED for path in paths)

    def _check_same(self, state):
        """Raises ConfigError unless the state is of a sweep that this one is, or adds to."""
        # Settings that may change on the way may still decide what an objective is.
        what = f"{self._folder!r} holds a sweep"
        check_same(what, self._config, state["config"], lambda role: role is not Role.EXECUTION)
        missing = [seed for seed in state["seeds"] if seed not in self._seeds]
        if missing:
            raise ConfigError(
                f"--seeds is {_list(self._seeds)}: the sweep in {self._folder!r} also has {_list(missing)}; "
                "name all of them, and more if you like"
            )
        try:
            self._search.check(self._trials)
        except ConfigError as error:
            raise ConfigError(
                f"{self._folder!r}: {error}; choose another root_dir, or ask for more"
            ) from None

    def _write(self):
        trials = [{"settings": settings} for settings in self._trials]
        state = dict(config=self._config, seeds=self._seeds, trials=trials)
        write_file(os.path.join(self._folder, SWEEP_FILE), json.dumps(state, indent=1) + "\n")


def _name_folder(trial, settings):
    """The name of a trial's folder: its number, which tells it from all others, and its settings."""
    text = re.sub(r"[^\w.,=@+-]", "_", describe(settings).replace(", ", ","))
    return f"{trial:03d}_{text}"[:_MAX_NAME].rstrip("_,")


def _list(numbers):
    return ", ".join(map(str, numbers))
