# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How many runs go on at a time, that none runs twice, what fails, and what a signal does; by counting."""

import csv
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from alf.errors import SaveError
from alf.studies.placement import Machine, RunProcess
from alf.studies.runner import LOG_FILE, Runner, find_error
from alf.studies.sweep_study import SweepRun
from tests.studies.stand_ins import (
    count_most_at_a_time,
    make_arguments,
    make_sweep_study,
    read_events,
    wait_until,
)

pytestmark = pytest.mark.programs

ROOT = str(Path(__file__).resolve().parent.parent.parent)
CORES = os.sched_getaffinity(0)  # before any test
CORE = min(CORES)
GRID = {"a.b": ["1", "2"]}


class Sweeping:
    """A sweep of `GRID` and some seeds in a folder, with the stand-in program."""

    def __init__(self, folder, seeds=(0, 1, 2), place=None, seconds=0.0, ends=None, together=1, **settings):
        self.lines = []
        arguments = settings.pop("arguments", make_arguments(seconds, ends, together))
        stop_seconds = settings.pop("stop_seconds", 180.0)
        rest = dict(make_arguments=arguments, announce=self.lines.append)
        self.study = make_sweep_study(folder, GRID, seeds, **rest, **settings)
        place = place or Machine([CORE] * 3, 1)
        self.runner = Runner(self.study, place, [], self.lines.append, stop_seconds)

    def statuses(self):
        return [
            (run.settings["a.b"], run.seed, self.study.outcomes[run.path].status) for run in self.study.runs
        ]


def test_every_run_is_made_once_and_never_again(tmp_path):
    sweeping = Sweeping(tmp_path)
    sweeping.runner.run()
    expected = [(trial, seed, "finished") for trial in GRID["a.b"] for seed in (0, 1, 2)]
    assert sweeping.statuses() == expected
    with open(tmp_path / "runs.csv", encoding="utf-8") as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["finished"] * 6
    assert [sweeping.study.outcomes[run.path].objective for run in sweeping.study.runs] == [0, 10, 20] * 2
    events = read_events(tmp_path)
    assert len(events) == 12 and len({path for _, path in events}) == 6
    again = Sweeping(tmp_path)
    again.runner.run()
    assert again.statuses() == expected and read_events(tmp_path) == events and again.lines == []
    more = Sweeping(tmp_path, seeds=(0, 1, 2, 7))
    more.runner.run()
    new = [path for what, path in read_events(tmp_path)[12:] if what == "starts"]
    assert sorted(new) == [run.path for run in more.study.runs if run.seed == 7] and len(new) == 2


@pytest.mark.parametrize(
    "place, most",
    [
        (lambda: Machine([CORE], 1), 1),
        (lambda: Machine([CORE] * 5, 2), 2),
        (lambda: Machine([CORE] * 3, 1), 3),
        (lambda: Machine([CORE] * 9, 1, max_at_a_time=2), 2),
        (lambda: Machine([CORE] * 9, 1, gpus=list("01234"), run_gpus=2), 2),
    ],
    ids=["one core", "five cores by two", "three cores", "memory", "five GPUs by two"],
)
def test_as_many_runs_at_a_time_as_have_room_and_no_more(tmp_path, place, most):
    Sweeping(tmp_path, place=place(), together=most).runner.run()
    events = read_events(tmp_path)
    assert len(events) == 12 and count_most_at_a_time(events) == most


def read_logs(folder):
    return [path.read_text() for path in folder.glob(f"runs/*/*/{LOG_FILE}")]


def test_each_run_has_cores_of_its_own_and_the_sweep_keeps_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    Sweeping(tmp_path, seeds=(0,), place=Machine([CORE], 1)).runner.run()
    assert read_logs(tmp_path) == [f"cores [{CORE}] GPUs \n"] * 2
    (tmp_path / "shares").mkdir()
    Sweeping(tmp_path / "shares", seeds=(0,), place=Machine(sorted(CORES), 0.5, 1)).runner.run()
    assert read_logs(tmp_path / "shares") == [f"cores {sorted(CORES)} GPUs \n"] * 2
    assert os.sched_getaffinity(0) == CORES


def test_each_run_has_gpus_of_its_own(tmp_path):
    place = Machine([CORE] * 9, 1, gpus=["GPU-a", "GPU-b", "GPU-c", "GPU-d", "GPU-e"], run_gpus=2)
    Sweeping(tmp_path, seeds=range(4), place=place, together=2).runner.run()
    seen = {frozenset(log.split("GPUs ")[1].strip().split(",")) for log in read_logs(tmp_path)}
    assert len(read_logs(tmp_path)) == 8 and {len(gpus) for gpus in seen} == {2}
    assert frozenset(("GPU-a", "GPU-b")) in seen and frozenset(("GPU-c", "GPU-d")) in seen


def test_cores_and_gpus_are_given_once_until_they_come_back(monkeypatch):
    affinity, gpus = [], []

    def start(arguments, log, import_paths, gpus_of_run):
        gpus.append(gpus_of_run)
        return len(gpus)

    monkeypatch.setattr("alf.studies.placement.RunProcess", start)
    monkeypatch.setattr("os.sched_setaffinity", lambda _, cores: affinity.append(cores))
    machine = Machine([3, 4, 5, 6, 7], 2, gpus=["x", "y", "z"], run_gpus=1)
    first, second = machine.start([], ""), machine.start([], "")
    assert machine.capacity == 2
    machine.release(first)
    machine.start([], "")
    machine.release(second)
    machine.start([], "")
    assert affinity[::2] == [[3, 4], [5, 6], [3, 4], [5, 6]] and gpus == [["x"], ["y"], ["z"], ["x"]]


def test_runs_that_share_gpus_are_spread_over_all_of_them(monkeypatch):
    gpus = []
    monkeypatch.setattr("alf.studies.placement.RunProcess", lambda *args: gpus.append(args[-1]))
    machine = Machine([CORE] * 9, 1, gpus=["0", "1"], run_gpus=0.5)
    for _ in range(machine.capacity):
        machine.start([], "")
    assert gpus == [["0"], ["1"], ["0"], ["1"]]


def test_a_run_that_fails_is_one_line_and_the_others_go_on(tmp_path):
    sweeping = Sweeping(tmp_path, ends={1: "fails", 2: "dies"})
    sweeping.runner.run()
    outcomes = [sweeping.study.outcomes[run.path] for run in sweeping.study.runs]
    assert [outcome.status for outcome in outcomes] == ["finished", "failed", "failed"] * 2
    errors = ["", "the simulator broke", "its process was ended by SIGKILL"]
    assert [outcome.error for outcome in outcomes] == errors * 2
    assert sum("has failed a.b=1, seed 1: the simulator broke" in line for line in sweeping.lines) == 1
    again = Sweeping(tmp_path)
    again.runner.run()
    assert {status for _, _, status in again.statuses()} == {"finished"}
    assert len(read_events(tmp_path)) == 12 + 8  # the four that had failed


def test_a_run_is_judged_by_what_it_has_written_now(tmp_path):
    Sweeping(tmp_path, seeds=(1,), ends={1: "fails"}).runner.run()
    sweeping = Sweeping(tmp_path, (1,), arguments=lambda run: ["-c", "raise KeyError('another one')"])
    sweeping.runner.run()
    assert {x.error for x in sweeping.study.outcomes.values()} == {"KeyError: 'another one'"}


def stop_when(sweeping, done):
    def stop():
        wait_until(done)
        sweeping.runner.stop_reason = "stopped by SIGTERM"

    threading.Thread(target=stop).start()


def test_a_stop_saves_the_runs_and_the_same_sweep_goes_on(tmp_path):
    sweeping = Sweeping(tmp_path, place=Machine([CORE] * 2, 1), seconds=600.0)
    stop_when(sweeping, lambda: len(read_events(tmp_path)) == 2)
    sweeping.runner.run()
    events = read_events(tmp_path)
    assert [what for what, _ in events] == ["starts", "starts", "ends", "ends"]
    assert [status for _, _, status in sweeping.statuses()] == ["interrupted"] * 2 + ["waiting"]
    again = Sweeping(tmp_path)
    again.runner.run()
    assert {status for _, _, status in again.statuses()} == {"finished"} and len(again.study.runs) == 6
    assert len([what for what, _ in read_events(tmp_path) if what == "starts"]) == 2 + 6


def test_a_run_that_does_not_stop_is_killed(tmp_path):
    ends = {0: "ignores", 1: "ignores", 2: "ignores"}
    sweeping = Sweeping(tmp_path, place=Machine([CORE], 1), seconds=600.0, ends=ends, stop_seconds=0.5)
    stop_when(sweeping, lambda: len(read_events(tmp_path)) == 1)
    sweeping.runner.run()
    assert sweeping.lines[-1] == "a.b=1, seed 0 has not ended after 0.5 s: it is killed"


class Slow:
    """A place for one run, whose process ends some looks after it was killed, as one in a cluster may."""

    capacity = 1

    def __init__(self):
        self.calls, self._looks = [], 3
        self.interrupt = lambda: self.calls.append("interrupt")
        self.kill = lambda: self.calls.append("kill")

    def start(self, *_):
        self.calls.append("start")
        return self

    def poll(self):
        self._looks -= "kill" in self.calls
        return None if self._looks else -signal.SIGKILL

    def release(self, process):
        self.calls.append("release")


def test_a_run_is_asked_to_end_once_and_killed_once(tmp_path):
    place = Slow()
    sweeping = Sweeping(tmp_path, place=place, stop_seconds=0.0)
    stop_when(sweeping, lambda: place.calls)
    sweeping.runner.run()
    assert place.calls == ["start", "interrupt", "kill", "release"]
    assert [line for line in sweeping.lines if "killed" in line] == [
        "a.b=1, seed 0 has not ended after 0 s: it is killed"
    ]


IGNORES = """
import signal, subprocess, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


def test_a_kill_ends_a_run_that_ignores_sigterm_and_what_it_has_started(tmp_path):
    log = tmp_path / "log.txt"
    process = RunProcess(["-c", IGNORES], str(log))
    try:
        wait_until(lambda: log.read_text().endswith("\n"))
        child = psutil.Process(int(log.read_text()))
        process.interrupt()
        assert process.poll() is None
    finally:
        process.kill()
    process.kill()  # of a process that has ended
    assert process.poll() == -signal.SIGKILL
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    sweeping = Sweeping(tmp_path)
    (tmp_path / "runs").write_text("no folder")
    with pytest.raises(SaveError, match="a run in .* cannot start: Not a directory"):
        sweeping.runner.run()


def test_what_runs_in_a_node_does_without_tensorflow():
    code = "import sys, alf.studies.placement, alf.studies.trials; assert 'tensorflow' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": ROOT}, check=True, timeout=300
    )


def test_a_run_of_a_bad_trial_is_ended_and_the_others_go_on(tmp_path):
    """The run of seed 0 in the first trial is good, that in the second one is bad and would not end."""
    arguments = lambda run: make_arguments(ends={0: "is bad"} if run.trial else None)(run)  # noqa: E731
    pruner = dict(pruner="MedianPruner", pruner_interval=100, pruner_arguments={"n_startup_trials": 1})
    good = Sweeping(tmp_path, seeds=(0,), place=Machine([CORE], 1), arguments=arguments, **pruner)
    good.runner.run()
    assert [status for _, _, status in good.statuses()] == ["finished", "pruned"]
    assert good.lines[-1] == "is pruned a.b=2, seed 0: 0 at 200 env steps"  # as it saves
    again = Sweeping(tmp_path, seeds=(0,), arguments=arguments, **pruner)
    again.runner.run()
    assert [status for _, _, status in again.statuses()] == ["finished", "pruned"] and again.lines == []


class Failing:
    """A study with two runs that wait, of which one raises an error when it is watched."""

    def __init__(self, folder, error):
        self._error = error
        make = make_arguments(600.0)
        self._runs = [SweepRun(0, {}, seed, str(folder / "runs" / "0" / str(seed))) for seed in (0, 1)]
        self._runs = [run._replace(arguments=make(run)) for run in self._runs]
        self._folder = folder

    def next_run(self):
        return self._runs.pop() if self._runs else None

    def watch(self, run):
        if len(read_events(self._folder)) == 2:
            raise self._error
        return False

    def end(self, run, status, error):
        pytest.fail(error)


@pytest.mark.parametrize("error", [SaveError("the disk is full"), KeyboardInterrupt()], ids=repr)
def test_an_error_ends_all_runs_which_are_saved_before_it_is_raised(tmp_path, error):
    with pytest.raises(type(error)):
        Runner(Failing(tmp_path, error), Machine([CORE] * 2, 1), [], print).run()
    assert [what for what, _ in read_events(tmp_path)] == ["starts", "starts", "ends", "ends"]


OWNER = """
import sys, time
from alf.studies.placement import RunProcess
from tests.studies.stand_ins import PROGRAM

process = RunProcess(["-c", PROGRAM, sys.argv[1], "600", "0", "well", "1"], sys.argv[1] + "/log.txt")
time.sleep(600)
"""


def test_runs_are_saved_when_the_sweep_is_killed(tmp_path):
    path = tmp_path / "runs" / "0" / "0"
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(path)], env={**os.environ, "PYTHONPATH": ROOT})
    try:
        wait_until(lambda: len(read_events(tmp_path)) == 1)
    finally:
        owner.kill()
        owner.wait()
    wait_until(lambda: (path / "done.json").exists() and "INTERRUPTED" in (path / "done.json").read_text())


def test_a_terminals_signal_is_not_for_the_runs(tmp_path):
    process = RunProcess(["-c", "import time; time.sleep(60)"], str(tmp_path / "log.txt"))
    try:
        assert os.getsid(process._process.pid) != os.getsid(0)
        assert process.poll() is None
        process.interrupt()
        wait_until(lambda: process.poll() is not None)
        assert process.poll() == -signal.SIGTERM
    finally:
        process.kill()


@pytest.mark.parametrize(
    "status, log, error",
    [
        (1, "a\nerror: one\nerror: two\nlast\n", "two"),
        (1, "Traceback\n  line\nKeyError: 3\n\n", "KeyError: 3"),
        (1, "Traceback\nKeyError: 3\nraised by environment 0\n", "KeyError: 3 (raised by environment 0)"),
        (-9, "error: one\n", "its process was ended by SIGKILL"),
        (255, "error: one\n", "its process in the cluster could not start, or was lost"),
        (3, "\n", "exit status 3, and its log is empty"),
        (3, None, "exit status 3, and its log is empty"),
    ],
    ids=["error lines", "traceback", "note", "signal", "lost", "empty log", "no log"],
)
def test_why_a_run_failed(tmp_path, status, log, error):
    path = tmp_path / "log.txt"
    if log is not None:
        path.write_text("error: of a start before\n" + log)
    assert find_error(status, str(path), len("error: of a start before\n")) == error
