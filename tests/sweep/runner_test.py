# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How many runs go on at a time, that none runs twice, what fails, and what a signal does; by counting."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import alf.sweep.sweep  # noqa: F401  (its settings have roles)
from alf.errors import ConfigError, SaveError
from alf.sweep.outcome import LOG_FILE
from alf.sweep.processes import Machine, RunProcess
from alf.sweep.runner import Runner
from alf.sweep.searches import FixedSearch
from alf.sweep.study import SweepStudy
from tests.sweep.stand_ins import count_most_at_a_time, make_arguments, read_events, wait_until

ROOT = str(Path(__file__).resolve().parent.parent.parent)
CORES = os.sched_getaffinity(0)  # before any test
CORE = min(CORES)
TRIALS = [{"a.b": "1"}, {"a.b": "2"}]


class Sweeping:
    """A sweep of `TRIALS` and some seeds in a folder, with the stand-in program."""

    def __init__(self, folder, seeds=(0, 1, 2), place=None, seconds=0.0, ends=None, together=1, **settings):
        search = FixedSearch(TRIALS)
        self.study = SweepStudy(str(folder), {"a.b": "0"}, list(seeds), search, "AverageReturn", "last")
        self.study.open()
        self.lines, self.changes = [], 0
        arguments = make_arguments(seconds, ends, together)
        place = place or Machine([CORE] * 3, 1)
        self.runner = Runner(self.study, place, arguments, [], self.lines.append, self._on_change, **settings)

    def _on_change(self):
        self.changes += 1

    def statuses(self):
        return [
            (run.settings["a.b"], run.seed, self.study.outcomes[run.path].status) for run in self.study.runs
        ]


def test_every_run_is_made_once_and_never_again(tmp_path):
    sweeping = Sweeping(tmp_path)
    sweeping.runner.run()
    expected = [(trial["a.b"], seed, "finished") for trial in TRIALS for seed in (0, 1, 2)]
    assert sweeping.statuses() == expected and sweeping.changes == 6
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
    Sweeping(tmp_path, seeds=(0,), place=Machine([CORE], 1, gpus=["0"])).runner.run()
    assert read_logs(tmp_path) == [f"cores [{CORE}] GPUs 0,3\n"] * 2
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

    monkeypatch.setattr("alf.sweep.processes.RunProcess", start)
    monkeypatch.setattr("os.sched_setaffinity", lambda _, cores: affinity.append(cores))
    machine = Machine([3, 4, 5, 6, 7], 2, gpus=["x", "y", "z"], run_gpus=1)
    first, second = machine.start([], ""), machine.start([], "")
    assert not machine.has_room()
    machine.release(first)
    assert machine.has_room()
    machine.start([], "")
    machine.release(second)
    assert machine.has_room()
    machine.start([], "")
    assert affinity[::2] == [[3, 4], [5, 6], [3, 4], [5, 6]] and gpus == [["x"], ["y"], ["z"], ["x"]]


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
    sweeping = Sweeping(tmp_path, seeds=(1,))
    sweeping.runner._make_arguments = lambda run: ["-c", "raise KeyError('another one')"]
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


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    sweeping = Sweeping(tmp_path)
    (tmp_path / "runs").write_text("no folder")
    with pytest.raises(SaveError, match="a run in .* cannot start: Not a directory"):
        sweeping.runner.run()


def test_what_runs_in_a_node_does_without_tensorflow():
    code = "import sys, alf.sweep.cluster, alf.sweep.searches; assert 'tensorflow' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": ROOT}, check=True, timeout=300
    )


OWNER = """
import sys, time
from alf.sweep.processes import RunProcess
from tests.sweep.stand_ins import PROGRAM

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


REST = dict(objective="AverageReturn", value="last")


def change(config=None, seeds=(0, 1), trials=TRIALS, **others):
    search = FixedSearch(trials)
    return dict(config=config or {"a.b": "0"}, seeds=list(seeds), search=search, **others)


def start_runs(folder, **arguments):
    """Makes a sweep, asks for all its runs, and makes their folders; yields those of checkpoints."""
    study = SweepStudy(str(folder), **arguments, **REST)
    study.open()
    while (run := study.next_run()) is not None:
        os.makedirs(run.path)
        yield Path(run.path, "checkpoints")


def make_started(folder, **arguments):
    """Makes a sweep of which one run has saved a checkpoint, and another one has finished."""
    first, *_, last = start_runs(folder, **arguments)
    (first / "ckpt-3.complete").parent.mkdir()
    (first / "ckpt-3.complete").touch()
    last.with_name("done.json").write_text('{"status": "SUCCESS"}')
    return first, last.with_name("done.json")


DIFFERENT = {
    "config": (change({"a.b": "1"}), r"holds a sweep of another config \(a.b is 1 here, 0 there\)"),
    "binding": (change({"a.b": "0", "c.d": "2"}), r"\(c.d is 2 here, None there\)"),
    "criterion": (
        change({"a.b": "0", "StopCriteria.num_iterations": "2"}),
        r"\(StopCriteria.num_iterations is 2 here, None there\)",
    ),
    "seeds": (change(seeds=(1, 2)), "--seeds is 1, 2: the sweep in .* also has 0; name all of them"),
    "trials": (change(trials=TRIALS[1:]), "the sweep there has tried a.b=1, which is not asked for now"),
}


@pytest.mark.parametrize("arguments, message", DIFFERENT.values(), ids=DIFFERENT)
def test_another_sweep_in_the_folder_is_one_line(tmp_path, arguments, message):
    make_started(tmp_path, **change())
    before = (tmp_path / "sweep.json").read_text()
    with pytest.raises(ConfigError, match=message):
        SweepStudy(str(tmp_path), **arguments, **REST)
    assert (tmp_path / "sweep.json").read_text() == before


@pytest.mark.parametrize("arguments", [x for x, _ in DIFFERENT.values()], ids=DIFFERENT)
def test_a_sweep_in_which_nothing_was_trained_begins_anew(tmp_path, arguments):
    """A wrong first attempt does not stand in the way of the right one."""
    before = list(start_runs(tmp_path, **change()))
    before[0].mkdir()  # an empty folder is no checkpoint
    study = SweepStudy(str(tmp_path), **arguments, **REST)
    study.open()
    while study.next_run() is not None:
        pass
    state = json.loads((tmp_path / "sweep.json").read_text())
    assert state["config"] == arguments["config"] and state["seeds"] == arguments["seeds"]
    trials = [trial["settings"] for trial in state["trials"]]
    assert arguments["search"].ask(trials) is None and len(trials) == arguments["search"].count


def test_what_does_not_change_a_run_may_change(tmp_path):
    make_started(tmp_path, **change({"Checkpoints.max_to_keep": "3", "Sweep.num_samples": "2"}))
    config = {"Checkpoints.max_to_keep": "1", "Sweep.num_samples": "5"}
    study = SweepStudy(str(tmp_path), **change(config, seeds=(0, 1, 2)), **REST)
    study.open()
    assert study.count == 6
    assert sorted(outcome.status for outcome in study.outcomes.values()) == ["finished"] + ["waiting"] * 5


GOOD = {"config": {"a.b": "0"}, "seeds": [0, 1], "trials": [{"settings": {"a.b": "1"}}]}
DAMAGED = {
    "empty": b"",
    "half": b"{",
    "binary": b"\xff\x00\xfe",
    "deep": b"[" * 100_000,
    "list": b"[]",
    "null": b"null",
    "keys": b'{"config": {}}',
    "config": {**GOOD, "config": []},
    "config's text": {**GOOD, "config": {"a.b": 0}},
    "seeds": {**GOOD, "seeds": None},
    "a text as seed": {**GOOD, "seeds": ["0"]},
    "a negative seed": {**GOOD, "seeds": [-1]},
    "a bool as seed": {**GOOD, "seeds": [True]},
    "trials": {**GOOD, "trials": {}},
    "a trial": {**GOOD, "trials": [None]},
    "no settings": {**GOOD, "trials": [{}]},
    "settings": {**GOOD, "trials": [{"settings": [1]}]},
    "a number as setting": {**GOOD, "trials": [{"settings": {"a.b": 1}}]},
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_state_is_one_line(tmp_path, content):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    (tmp_path / "sweep.json").write_bytes(content)
    with pytest.raises(
        ConfigError,
        match=r"^.*/sweep.json cannot be read: .*; put a good copy of it there, or choose another root_dir$",
    ):
        SweepStudy(str(tmp_path), **change(), **REST)
    assert (tmp_path / "sweep.json").read_bytes() == content


def test_a_damaged_part_is_named(tmp_path):
    (tmp_path / "sweep.json").write_text(json.dumps(DAMAGED["a number as setting"]))
    with pytest.raises(ConfigError, match=r"its content\['trials'\]\[0\]\['settings'\]\['a.b'\] is wrong;"):
        SweepStudy(str(tmp_path), **change(), **REST)


@pytest.mark.parametrize("kept", [0, 1], ids=["checkpoint", "finished"])
def test_runs_without_their_state_are_not_taken_for_those_of_another_sweep(tmp_path, kept):
    paths = make_started(tmp_path, **change())
    shutil.rmtree(paths[1 - kept], ignore_errors=True), Path(paths[1 - kept]).unlink(missing_ok=True)
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(ConfigError, match="sweep.json cannot be read: it is missing, but runs/ has runs; "):
        SweepStudy(str(tmp_path), **change(), **REST)


class RecordingSearch(FixedSearch):
    """Notes what it is told."""

    def __init__(self, trials):
        super().__init__(trials)
        self.told = []

    def tell(self, trial, objective):
        self.told.append(objective)


def test_the_search_is_told_the_mean_of_a_trial_once_all_its_runs_are_over(tmp_path):
    search = RecordingSearch(TRIALS)
    study = SweepStudy(str(tmp_path), {}, [1, 2], search, "AverageReturn", "last")
    study.open()
    for i, end in enumerate(("finished", "finished", "finished", "failed")):
        run = study.next_run()
        os.makedirs(run.path)
        text = f"env_steps,seconds,metrics/AverageReturn\n100,1,50\n200,2,{10 * i}\n"
        Path(run.path, "progress.csv").write_text(text)
        study.report(run, end)
    assert search.told == [5.0, None] and study.next_run() is None
