# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Study: what a sweep and a population have in common."""

import abc
import collections
import contextlib
import glob
import json
import os
import time
from typing import Any, NamedTuple

from alf.config.comparison import check_same
from alf.config.imports import list_own_paths
from alf.core.files import open_regular, write_file
from alf.runs.run_dir import RunDir, has_checkpoints, has_succeeded, has_trained
from alf.studies.runner import Runner
from alf.studies.state import damaged, write_json

CONFIG_FILE = "config.gin"  # in the folder of a study: the configuration of all runs


class Studied(NamedTuple):
    """The result of a study.

    Attributes:
        best: path of the best run's directory, which `alf.load_agent` takes; None if no run has an objective.
        table: list of dicts, the lines of `runs.csv` of a sweep, or of `population.csv` of a population.
    """

    best: str | None
    table: list[dict[str, Any]]


class Study(abc.ABC):
    """Chooses the next run, and takes what comes of each. `carry_out` trains the runs with a `Runner`.

    The folder has the configuration of all runs, and a file with the state, which a killed study goes on
    from. A run has a `path`, its root_dir; `arguments` of Python for its process, a list of texts; and
    `describe()`, a text for messages.

    Args:
        folder: path of the study.
        announce: callable (text), called for each event.
        config: dict from name to text, the gin bindings of all runs and of the study.
        settings: `Sweep` or `Population`.

    Attributes:
        folder: path of the study.
        gin_file: path of the configuration of all runs.
        settings: `Sweep` or `Population`.

    Raises:
        ConfigError: if the folder has another study, or its state cannot be read.
    """

    kind: str  # "a sweep", for messages
    state_file: str  # name of the file with the state, which says what the folder has
    run_folders: str  # pattern of the paths of the runs in the folder
    state_keys: frozenset[str]  # names that the state must have

    def __init__(self, folder, announce, config, settings):
        self.folder, self.settings = folder, settings
        self.gin_file = os.path.join(folder, CONFIG_FILE)
        self._announce, self._config = announce, config
        self._queue = collections.deque()  # of what waits for room

    @classmethod
    def carry_out(cls, root_dir, config, place, on_start, *arguments):
        """Trains the runs of a new study, or of the study in the folder, until all end.

        No other process can go on with the study meanwhile.

        Args:
            root_dir: path of the folder.
            config: text, the gin configuration of all runs.
            place: `Machine` or `Cluster`; it is closed at the end.
            on_start: callable (`Runner`), called before the first run starts.
            *arguments: arguments of the constructor from its third one on.

        Returns:
            `Studied`.
        """
        started = time.monotonic()

        def announce(text):
            print(f"{time.monotonic() - started:8.1f} s  {text}", flush=True)

        # The place comes first: it exists already, and must be closed also if the folder is refused.
        with contextlib.closing(place), contextlib.closing(RunDir(root_dir, cls.state_file)) as run_dir:
            run_dir.lock()  # Before the study reads its state: one study at a time writes here.
            study = cls(run_dir.path, announce, *arguments)
            write_file(study.gin_file, config)  # After `study`, which refuses another configuration.
            runner = Runner(study, place, list_own_paths(), announce)
            # From here on a signal lets the runs save. Before, it ends this process: nothing has begun.
            on_start(runner)
            runner.run()
            # Still locked: tables and pictures are written into the folder.
            return study.conclude(runner.stop_reason)

    @abc.abstractmethod
    def next_run(self):
        """Returns the next run to start, or None."""

    @abc.abstractmethod
    def watch(self, run):
        """Returns whether a run must save and end. It is called again and again."""

    @abc.abstractmethod
    def end(self, run, status, error):
        """Takes note that the process of a run has ended.

        Args:
            run: what `next_run` has returned.
            status: exit status of the process, or None if it was asked to end.
            error: text, a line; "" after status 0 or None.
        """

    @abc.abstractmethod
    def conclude(self, stop_reason):
        """Writes and prints the results of a study that ends; returns `Studied`.

        `stop_reason` is a text if a signal has stopped it, else None.
        """

    @abc.abstractmethod
    def may_change(self, role):
        """Whether a setting of a `Role` may change when the study goes on."""

    def read_state(self):
        """Returns the state of the study that goes on in the folder, a dict; None if the study begins.

        A study whose runs have not trained has nothing to lose: it begins anew.

        Raises:
            ConfigError: if the file cannot be read, is missing though there are runs, or has other settings.
        """
        path, state = os.path.join(self.folder, self.state_file), None
        try:
            with open_regular(path, encoding="utf-8") as file:
                state = json.load(file)
        except FileNotFoundError:
            pass
        # json raises a RecursionError where brackets are nested too deeply.
        except (OSError, RecursionError, ValueError) as error:
            raise damaged(path, getattr(error, "strerror", None) or error) from None
        else:
            keys = self.state_keys | {"config"}
            lacking = keys - state.keys() if isinstance(state, dict) else keys
            if lacking:
                raise damaged(path, f"it has no {', '.join(sorted(lacking))}")
        # The runs' folders decide whether there is something to lose, not the state file, which is written
        # before the first run starts. `rows`, a population's table, counts even if its runs were removed.
        folders = glob.glob(os.path.join(glob.escape(self.folder), self.run_folders))
        traces = has_checkpoints, has_succeeded, has_trained
        has_something = any(has_trace(run) for run in folders for has_trace in traces)
        if not has_something and not (state and state.get("rows")):
            return None
        if state is None:
            raise damaged(path, "it is missing, but there are runs")
        theirs = state["config"]
        check_same(
            self.folder, f"holds {self.kind}", self._config, theirs, lambda role: not self.may_change(role)
        )
        return state

    def write_state(self, **state):
        """Writes the state, of JSON types, beside the settings."""
        write_json(os.path.join(self.folder, self.state_file), {"config": self._config, **state})
