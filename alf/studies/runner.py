# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runner: starts the runs of a sweep or a population where they have room, and waits for them."""

import dataclasses
import os
import signal
import time
from typing import Any

from alf.core.files import open_regular
from alf.errors import RAISED_BY, SaveError
from alf.studies.placement import LOST

LOG_FILE = "log.txt"  # in the root_dir of a run
_POLL_SECONDS = 0.1
_TAIL = 20_000  # bytes at the end of a log in which the last error is searched


@dataclasses.dataclass
class _Running:
    """A run whose process has been started."""

    run: Any
    log_start: int  # bytes of its log before the process began
    deadline: float | None = None  # when it is killed; None until it was asked to end


class Runner:
    """Carries out the runs that a study chooses, and tells the study how each process has ended.

    If a method of the study raises an error, all runs save and end before the error is raised here.

    Args:
        study: `Study`.
        place: `Machine` or `Cluster`.
        import_paths: list of folders, where the runs find modules.
        announce: callable (text), called for each event.
        stop_seconds: time that runs have to save and end before they are killed.

    Attributes:
        stop_reason: text or None. Any thread may set it: then no run starts any more, and the running ones
            save and end.
    """

    def __init__(self, study, place, import_paths, announce, stop_seconds=180.0):
        self.stop_reason = None
        self._study, self._place = study, place
        self._import_paths, self._announce = import_paths, announce
        self._stop_seconds = stop_seconds
        self._running = {}  # process -> `_Running`

    def run(self):
        """Starts runs and waits until all have ended, or until `stop_reason` is set and they have ended."""
        try:
            while True:
                if self.stop_reason is None:
                    self._start_runs()
                # After `_start_runs`, because a run that has just ended made room, or was queued again.
                if not self._running:
                    return
                self._look(self._study.watch, self._study.end)
        except BaseException:  # also Ctrl-C in a notebook, whose process goes on
            # The study takes no more reports, which may fail again, for example on a full disk. Runs still
            # save.
            self.stop_reason = "an error ends the study"  # `_look` then interrupts every run.
            while self._running:
                self._look(lambda run: True, lambda *args: None)
            raise

    def _start_runs(self):
        while len(self._running) < self._place.capacity:
            run = self._study.next_run()
            if run is None:
                return
            # The log of earlier processes stays; an error is searched only behind it.
            log = os.path.join(run.path, LOG_FILE)
            start = os.path.getsize(log) if os.path.exists(log) else 0
            try:
                process = self._place.start(run.arguments, log, self._import_paths)
            except OSError as error:
                raise SaveError(f"a run in {run.path} cannot start: {error.strerror or error}") from None
            self._running[process] = _Running(run, start)

    def _look(self, watch, end):
        """Looks once at each run: whether it has ended, must end, or has not ended in time."""
        time.sleep(_POLL_SECONDS)
        for process, running in list(self._running.items()):
            run, status = running.run, process.poll()
            if status is not None:
                # Before `end`, which may raise an error: then nobody must wait for this process any more.
                self._place.release(process)
                del self._running[process]
                if status == 0:  # It may also have reached its end by itself after it was asked to end.
                    end(run, 0, "")
                elif running.deadline is not None:
                    end(run, None, "")
                else:
                    log = os.path.join(run.path, LOG_FILE)
                    end(run, status, find_error(status, log, running.log_start))
            elif running.deadline is None:
                if self.stop_reason is not None or watch(run):
                    # Only once: a second signal ends a run without saving (`on_signal`).
                    process.interrupt()
                    running.deadline = time.monotonic() + self._stop_seconds
            elif time.monotonic() > running.deadline:
                self._announce(f"{run.describe()} has not ended after {self._stop_seconds:g} s: it is killed")
                process.kill()
                running.deadline = float("inf")  # Once is enough: the kernel ends it.


def find_error(status, log, start):
    """Finds the reason why a run failed; returns a line.

    Args:
        status: the exit status of its process, negative after a signal.
        log: path of its log.
        start: int, bytes of the log before the process began to write.
    """
    if status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    if status == LOST:
        return "its process in the cluster could not start, or was lost"
    try:
        with open_regular(log, "rb") as file:
            # This may be within a line or a character; bytes that are not whole are replaced.
            file.seek(max(start, os.path.getsize(log) - _TAIL))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    except OSError:
        lines = []
    lines = [line for line in lines if line]
    # ALF's own line about an error comes first. After a crash in C++ or in the user's code there is none, and
    # the last line of the log says most.
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if lines[1:] and lines[-1].startswith(RAISED_BY):  # the note below what an environment raised
        lines.append(f"{lines[-2]} ({lines[-1]})")
    return (errors or lines or [f"exit status {status}, and its log is empty"])[-1]
