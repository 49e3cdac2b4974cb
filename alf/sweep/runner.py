# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runner: starts the runs of a sweep where they have room, and waits for them."""

import os
import time

from alf.errors import SaveError
from alf.sweep.outcome import FAILED, FINISHED, INTERRUPTED, LOG_FILE, find_error

_POLL_SECONDS = 0.1


class Runner:
    """Carries out the runs of a sweep, each one once.

    Args:
        study: `SweepStudy`.
        place: `Machine` or `Cluster`, where runs have room.
        make_arguments: callable (`Run`) -> the arguments of Python for its process, a list of texts.
        import_paths: list of folders, where the runs find modules.
        announce: callable (text), called for each event.
        on_change: callable (), called when a run has ended.
        stop_seconds: that runs have to save and end before they are killed.

    Attributes:
        stop_reason: text; once it is set, from any thread, no run starts, and those that go on are saved and
            end.
    """

    def __init__(self, study, place, make_arguments, import_paths, announce, on_change, stop_seconds=180.0):
        self.stop_reason = None
        self._study, self._place = study, place
        self._make_arguments, self._import_paths = make_arguments, import_paths
        self._announce, self._on_change = announce, on_change
        self._running = {}  # processes -> (run, where its log begins)
        self._interrupted = set()  # processes
        self._stop_seconds, self._deadline = stop_seconds, None

    def run(self):
        """Returns when all runs have ended, or when it was stopped."""
        try:
            while True:
                if self.stop_reason is None:
                    self._start_runs()
                else:
                    self._stop_runs()
                if not self._running:
                    return
                time.sleep(_POLL_SECONDS)
                for process in list(self._running):
                    self._take_end(process)
        finally:
            for process in self._running:  # after an error; those that had been asked before end at once
                process.interrupt()

    def _start_runs(self):
        while self._place.has_room():
            run = self._study.next_run()
            if run is None:
                return
            log = os.path.join(run.path, LOG_FILE)
            start = os.path.getsize(log) if os.path.exists(log) else 0
            try:
                process = self._place.start(self._make_arguments(run), log, self._import_paths)
            except OSError as error:
                raise SaveError(f"a run in {run.path} cannot start: {error.strerror or error}") from None
            self._running[process] = run, start
            self._announce(f"starts {run.describe()}")

    def _stop_runs(self):
        """Asks the runs once to save and end, and kills what has not ended in time."""
        self._deadline = self._deadline or time.monotonic() + self._stop_seconds
        for process, (run, _) in self._running.items():
            if process not in self._interrupted:
                self._interrupted.add(process)
                process.interrupt()
            elif time.monotonic() > self._deadline:
                self._announce(f"{run.describe()} has not ended after {self._stop_seconds:g} s: it is killed")
                process.kill()

    def _take_end(self, process):
        """Reports the run of a process, if it has ended."""
        status = process.poll()
        if status is None:
            return
        self._place.release(process)
        run, start = self._running.pop(process)
        if status == 0:
            outcome = self._study.report(run, FINISHED)
            self._announce(f"has finished {run.describe()}{_describe(outcome)}")
        elif process in self._interrupted:
            self._study.report(run, INTERRUPTED)
        else:
            error = find_error(status, os.path.join(run.path, LOG_FILE), start)
            self._study.report(run, FAILED, error)
            self._announce(f"has failed {run.describe()}: {error}")
        self._on_change()


def _describe(outcome):
    if outcome.objective is None:
        return ""
    return f": {outcome.objective:.6g} at {outcome.env_steps:,} env steps"
