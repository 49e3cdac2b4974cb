# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SweepStudy: which runs it goes on with, other sweeps, damaged files, what Optuna is told, pruning."""

import json
import os
import shutil
from pathlib import Path

import optuna
import pytest

from alf.config import registry
from alf.errors import ConfigError, SaveError
from alf.studies import table
from tests.studies.stand_ins import make_sweep_study

registry.import_settings()  # they have roles

GRID = {"a.b": ["1", "2"]}


def change(config=None, seeds=(0, 1), grid=GRID, **settings):
    return dict(config=config or {"a.b": "0"}, seeds=list(seeds), grid=grid, **settings)


def start_runs(folder, **arguments):
    """Makes a sweep, asks for all its runs, and makes their folders; yields those of checkpoints."""
    study = make_sweep_study(folder, **arguments)
    while (run := study.next_run()) is not None:
        os.makedirs(run.path)
        yield Path(run.path, "checkpoints")


def list_states(folder):
    """The states of Optuna's trials, and their values, as anybody can read them."""
    journal = optuna.storages.journal.JournalFileBackend(str(folder / "optuna.log"))
    study = optuna.load_study(study_name="sweep", storage=optuna.storages.JournalStorage(journal))
    return [(trial.state.name, trial.value) for trial in study.get_trials()]


def make_started(folder, **arguments):
    """Makes a sweep of which one run has saved a checkpoint, and another one has finished."""
    first, *_, last = start_runs(folder, **arguments)
    (first / "ckpt-3").mkdir(parents=True)
    last.with_name("done.json").write_text('{"status": "SUCCESS"}')
    return first, last.with_name("done.json")


DIFFERENT = {
    "config": (change({"a.b": "1"}), r"holds a sweep of another config \(a.b is 1 here, 0 there\)"),
    "binding": (change({"a.b": "0", "c.d": "2"}), r"\(c.d is 2 here, None there\)"),
    "criterion": (
        change({"a.b": "0", "StopCriteria.num_iterations": "2"}),
        r"\(StopCriteria.num_iterations is 2 here, None there\)",
    ),
    "seeds": (change(seeds=(1, 2)), "seeds is 1, 2: the sweep in .* also has 0; name all of them"),
    "trials": (change(grid={"a.b": ["2"]}), "the sweep there has tried a.b=1, which is not asked for now"),
}


@pytest.mark.parametrize("arguments, message", DIFFERENT.values(), ids=DIFFERENT)
def test_another_sweep_in_the_folder_is_one_line(tmp_path, arguments, message):
    make_started(tmp_path, **change())
    before = (tmp_path / "sweep.json").read_text()
    with pytest.raises(ConfigError, match=message):
        make_sweep_study(tmp_path, **arguments)
    assert (tmp_path / "sweep.json").read_text() == before


@pytest.mark.parametrize("arguments", [x for x, _ in DIFFERENT.values()], ids=DIFFERENT)
def test_a_sweep_in_which_nothing_was_trained_begins_anew(tmp_path, arguments):
    """A wrong first attempt does not stand in the way of the right one."""
    before = list(start_runs(tmp_path, **change()))
    before[0].mkdir()  # an empty folder is no checkpoint
    study = make_sweep_study(tmp_path, **arguments)
    while study.next_run() is not None:
        pass
    state = json.loads((tmp_path / "sweep.json").read_text())
    assert state == {"config": arguments["config"], "seeds": arguments["seeds"]}
    assert [run.settings["a.b"] for run in study.runs[::2]] == arguments["grid"]["a.b"]
    assert list_states(tmp_path) == [("RUNNING", None)] * len(arguments["grid"]["a.b"])


def test_what_does_not_change_a_run_may_change(tmp_path):
    make_started(tmp_path, **change({"Checkpoints.max_to_keep": "3", "Sweep.num_samples": "2"}))
    config = {"Checkpoints.max_to_keep": "1", "Sweep.num_samples": "5"}
    study = make_sweep_study(tmp_path, **change(config, seeds=(0, 1, 2)))
    assert study.count == 6
    assert sorted(outcome.status for outcome in study.outcomes.values()) == ["finished"] + ["waiting"] * 5


DAMAGED = {
    "empty": b"",
    "half": b"{",
    "binary": b"\xff\x00\xfe",
    "deep": b"[" * 100_000,
    "list": b"[]",
    "null": b"null",
    "keys": b'{"config": {}}',
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_state_is_one_line(tmp_path, content):
    (tmp_path / "sweep.json").write_bytes(content)
    remedy = "put a good copy of it there, or choose another root_dir"
    message = f"^root_dir .* is damaged: sweep.json cannot be read: .*; {remedy}$"
    with pytest.raises(ConfigError, match=message):
        make_sweep_study(tmp_path, **change())
    assert (tmp_path / "sweep.json").read_bytes() == content


@pytest.mark.parametrize("content", [b"{}\n", b"[]\n", b'{"op_code":0}\n', b"\xff\x00\n{}\n"], ids=str)
def test_damaged_trials_are_one_line(tmp_path, content):
    make_started(tmp_path, **change())
    (tmp_path / "optuna.log").write_bytes(content)
    with pytest.raises(
        ConfigError, match=r"^.* optuna.log cannot be read: \w+Error: .*; put a good copy of it"
    ):
        make_sweep_study(tmp_path, **change())
    assert (tmp_path / "optuna.log").read_bytes() == content


def test_a_line_that_was_not_written_as_a_whole_is_dropped(tmp_path):
    """After a full disk, or where the sweep was killed as it wrote."""
    make_started(tmp_path, **change())
    with open(tmp_path / "optuna.log", "ab") as file:
        file.write(b'{"op_code":4,"worker')
    os.symlink("nowhere", tmp_path / "optuna.log.lock")  # it was killed as it wrote
    study = make_sweep_study(tmp_path, **change(seeds=(0, 1, 2)))
    while (run := study.next_run()) is not None:
        finish(run, 3.0)
        study.end(run, 0, "")
    assert len(study.runs) == 6 and list_states(tmp_path) == [("COMPLETE", 3.0), ("FAIL", None)]
    make_sweep_study(tmp_path, **change(seeds=(0, 1, 2)))


@pytest.mark.parametrize("kept", [0, 1], ids=["checkpoint", "finished"])
@pytest.mark.parametrize("name", ["sweep.json", "optuna.log"])
def test_runs_without_their_state_are_not_taken_for_those_of_another_sweep(tmp_path, kept, name):
    paths = make_started(tmp_path, **change())
    shutil.rmtree(paths[1 - kept], ignore_errors=True), Path(paths[1 - kept]).unlink(missing_ok=True)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError, match=f"{name} cannot be read: it is missing, but there are runs; "):
        make_sweep_study(tmp_path, **change())


UNWRITTEN = {
    "optuna.log": lambda study: study.next_run(),
    "sweep.csv": table.write_tables,
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_a_file_that_cannot_be_written_is_one_line(tmp_path, name):
    study = make_sweep_study(tmp_path, **change())
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    with pytest.raises(SaveError, match=f"^.*/{name} cannot be written: Is a directory$"):
        UNWRITTEN[name](study)


def write_progress(run, *returns):
    os.makedirs(run.path, exist_ok=True)
    lines = [f"{100 * i},{i},{value}\n" for i, value in enumerate(returns, 1)]
    Path(run.path, "progress.csv").write_text("env_steps,seconds,metrics/BalancedReturn\n" + "".join(lines))


def test_the_search_is_told_the_mean_of_a_trial_once_all_its_runs_are_over(tmp_path):
    study = make_sweep_study(tmp_path, **change(seeds=(1, 2)))
    for i, status in enumerate((0, 0, 0, 1)):
        run = study.next_run()
        write_progress(run, 50, 10 * i)
        study.end(run, status, "" if status == 0 else "it broke")
    assert study.next_run() is None
    assert list_states(tmp_path) == [("COMPLETE", 5.0), ("FAIL", None)]


def finish(run, *returns):
    write_progress(run, *returns)
    Path(run.path, "done.json").write_text('{"status": "SUCCESS"}')


def test_a_trial_that_goes_on_after_its_end_is_another_one_for_optuna(tmp_path):
    """With more seeds, and with runs that had failed. One whose end was not written down is told again."""
    study = make_sweep_study(tmp_path, **change(seeds=(1,)))
    first, second = study.next_run(), study.next_run()
    finish(first, 4.0)
    study.end(first, 0, "")
    study.end(second, 1, "it broke")
    assert list_states(tmp_path) == [("COMPLETE", 4.0), ("FAIL", None)]
    study = make_sweep_study(tmp_path, **change(seeds=(1, 2)))
    assert list_states(tmp_path)[2:] == [("RUNNING", None)] * 2
    runs = [study.next_run() for _ in range(3)]
    assert [(run.trial, run.seed) for run in runs] == [(0, 2), (1, 1), (1, 2)] and study.next_run() is None
    for value, run in enumerate(runs):
        finish(run, value)
    study.end(runs[0], 0, "")
    assert list_states(tmp_path)[2:] == [("COMPLETE", 2.0), ("RUNNING", None)]
    make_sweep_study(tmp_path, **change(seeds=(1, 2)))
    assert list_states(tmp_path)[2:] == [("COMPLETE", 2.0), ("COMPLETE", 1.5)]
    assert len(list_states(tmp_path)) == 4


PRUNER = dict(pruner="MedianPruner", pruner_interval=100, pruner_arguments={"n_startup_trials": 1})


@pytest.fixture
def at_once(monkeypatch):
    """Progress is read each time."""
    monkeypatch.setattr("alf.studies.sweep_study._WATCH_SECONDS", 0.0)


def test_a_bad_trial_is_pruned_and_stays_so(tmp_path, at_once):
    study = make_sweep_study(tmp_path, **change(**PRUNER))
    good, other = study.next_run(), study.next_run()
    finish(good, 1.0, 2.0, 3.0)
    finish(other, 3.0, 4.0, 5.0)
    assert not study.watch(good) and not study.watch(other)
    study.end(good, 0, ""), study.end(other, 0, "")
    bad, waiting = study.next_run(), study.next_run()
    write_progress(bad, 9.0)
    assert not study.watch(bad), "its first step is the better one"
    write_progress(bad, 9.0, 1.0)
    write_progress(waiting, 0.0)  # it has not come so far: the trial is not judged there
    assert not study.watch(bad)
    write_progress(bad, 0.5, 0.5, 0.5)
    write_progress(waiting, 0.0, 0.0, 0.0)
    again = make_sweep_study(tmp_path, **change(**PRUNER))
    assert not again.watch(good), "its trial is over"


def test_a_trial_that_has_ended_is_not_pruned(tmp_path, at_once):
    study = make_sweep_study(tmp_path, **change(seeds=(0,), **PRUNER))
    for value in (5.0, 1.0):
        run = study.next_run()
        finish(run, value, value)
        study.end(run, 0, "")
    assert list_states(tmp_path) == [("COMPLETE", 5.0), ("COMPLETE", 1.0)]


def test_both_runs_of_a_pruned_trial_end(tmp_path, at_once):
    study = make_sweep_study(tmp_path, **change(seeds=(0, 1, 2), **PRUNER))
    for _ in range(3):
        run = study.next_run()
        finish(run, 5.0, 5.0)
        study.watch(run)
        study.end(run, 0, "")
    first, second = study.next_run(), study.next_run()
    write_progress(first, 1.0)
    assert study.watch(first) and study.watch(second) and study.next_run() is None
    study.end(first, None, ""), study.end(second, None, "")
    statuses = [outcome.status for outcome in study.outcomes.values()]
    assert statuses == ["finished"] * 3 + ["pruned"] * 2 + ["waiting"]
    assert list_states(tmp_path) == [("COMPLETE", 5.0), ("PRUNED", 1.0)]
    again = make_sweep_study(tmp_path, **change(seeds=(0, 1, 2, 3), **PRUNER))
    run = again.next_run()
    assert (run.trial, run.seed) == (0, 3) and again.next_run() is None
    assert [x.status for x in again.outcomes.values()] == ["finished"] * 3 + ["waiting"] + ["pruned"] * 4
