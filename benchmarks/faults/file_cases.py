# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Names of folders, the current directory, and files of a run that somebody else changes or replaces."""

import json
import os
import pathlib
import shutil
import time

import numpy as np

from alf.runs.progress_file import PROGRESS_FILE, read_rows
from benchmarks.faults.case import Cases, Expected
from benchmarks.faults.training import find_checkpoints, number_of

_CASES = Cases("files")
CASES = _CASES.cases

_FEW = ["StopCriteria.num_iterations = 30"]


@_CASES.add("brackets", "a folder with square brackets", "lr=[1e-3]/a[1]", {})
@_CASES.add("stars", "a folder with blanks, *, ? and a backslash", "what? a*\\", {})
@_CASES.add("letters_in_c", "letters that are not ASCII, LC_ALL=C", "\u00e9\u00fc \u4e2d", {"LC_ALL": "C"})
def _train_in(lab, name, variables):
    lab.root_dir = lab.folder / name
    outcome = Expected(0, saved=True).check(lab.run("impala", _FEW, variables=variables))
    lab.continue_run(outcome)
    return outcome


@_CASES.add("not_utf_8", "a folder whose name is not UTF-8", b"a\xff", {}, "is not UTF-8: choose another one")
@_CASES.add(
    "letters_in_ascii",
    "letters that are not ASCII, where Python takes names as ASCII",
    "\u00e9".encode(),
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "takes names of files as ascii; set PYTHONUTF8=1",
)
def _refuse_name(lab, name, variables, message):
    root_dir = lab.folder / os.fsdecode(name)
    training = lab.run("impala", _FEW, root_dir=root_dir, variables=variables)
    outcome = Expected(2, message, saved=False).check(training)
    outcome.expect(not training.num_env_steps(), "an environment was made")
    return outcome


@_CASES.add("changed_directory", "an environment changes the current directory", "impala")
@_CASES.add("changed_directory_workers", "the same in a worker", "workers")
def _change_directory(lab, config):
    lab.run(config, _FEW, root_dir=lab.folder / "first")
    fault = {"kind": "change_directory", "where": "make", "times": None}
    params = [*_FEW, "Trainer.initial_checkpoint = 'first'"]
    training = lab.run(config, params, fault=fault, root_dir="run", cwd=lab.folder)
    outcome = Expected(0, saved=True).check(training)
    outcome.expect(training.events("fault"), "the fault did not happen")
    outcome.expect((lab.root_dir / "done.json").exists(), "the run is not where the program was started")
    left = list((training.folder / "elsewhere").iterdir())
    outcome.expect(not left, f"files are in the other directory: {left}")
    return outcome


def _cut(path):
    os.truncate(path, 5)


def _write_nul(path):
    path.write_bytes(b"\0" * 50)


@_CASES.add("progress_cut", "somebody cuts `progress.csv`", PROGRESS_FILE, _cut)
@_CASES.add("progress_nul", "somebody fills `progress.csv` with zeros", PROGRESS_FILE, _write_nul)
@_CASES.add("progress_removed", "somebody removes `progress.csv`", PROGRESS_FILE, pathlib.Path.unlink)
@_CASES.add("train_removed", "somebody removes `train/`", "train", shutil.rmtree)
def _change_while_training(lab, name, change):
    training = lab.train_until_saved("impala", ["Summaries.interval = 0.2", "StopCriteria.max_seconds = 6"])
    path = lab.root_dir / name
    training.wait_until(path.exists, 30, name)
    change(path)
    changed = time.time()
    training.wait_for_end()
    told = "was removed: a new file of events begins" if name == "train" else r"progress\.csv"
    outcome = Expected(0, told, saved=True).check(training, changed)
    columns, rows = read_rows(str(lab.root_dir / PROGRESS_FILE))
    outcome.expect(columns[0] == "env_steps" and len(rows) >= 3, f"{len(rows)} rows of {columns[:2]}")
    events = [entry for entry in lab.root_dir.glob("train/*") if entry.stat().st_mtime > changed]
    outcome.expect(events, "no event was written afterwards")
    lab.continue_run(outcome)
    return outcome


_EVALUATES = [
    "Trainer.evaluator = @Evaluator",
    "Evaluator.interval_seconds = 0.3",
    "eval/alf.environments.load.counts_steps = False",
]


@_CASES.add(
    "best_nan", "the figures of the best checkpoint are NaN", b'{"figures": {"return": {"mean": NaN}}}'
)
@_CASES.add("best_no_json", "the figures of the best checkpoint are no JSON", b"{")
def _damage_best(lab, content):
    params = [*_EVALUATES, "StopCriteria.max_seconds = 3"]
    lab.run("impala", params, warm=True)
    (path,) = lab.root_dir.glob("checkpoints/best/ckpt-*/evaluation.json")
    path.write_bytes(content)
    training = lab.run("impala", params, warm=True)
    outcome = Expected(0, r"evaluation\.json is damaged: any evaluation is better", saved=True).check(
        training
    )
    outcome.expect(training.find_restored(), "it does not continue")
    (kept,) = lab.root_dir.glob("checkpoints/best/ckpt-*/evaluation.json")
    mean = json.loads(kept.read_text())["figures"]["return"]["mean"]
    outcome.expect(kept != path and np.isfinite(mean), f"the best checkpoint is {kept}, with {mean}")
    return outcome


@_CASES.add("buffer_priorities", "priorities of 1e308 in a replay buffer", "priority", 1e308)
@_CASES.add("buffer_priorities_nan", "priorities of NaN in a replay buffer", "priority", np.nan)
@_CASES.add("buffer_position", "negative positions in a replay buffer", "position", -9)
@_CASES.add("buffer_begin", "negative indices in a replay buffer", "begin", -1)
@_CASES.add("buffer_step_type", "a step type of 7 in a replay buffer", "step_type", 7)
def _damage_buffer(lab, name, value):
    prioritized = ["Experiment.exp_replayer = 'prioritized'", "PrioritizedReplayer.capacity = 2000"]
    lab.run("dqn", [*prioritized, "StopCriteria.num_iterations = 60"])
    path = lab.root_dir / "checkpoints" / "replay_buffer.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays[name] = np.full_like(arrays[name], value)
    np.savez(path, **arrays)
    training = lab.run("dqn", [*prioritized, "StopCriteria.num_iterations = 90"])
    return Expected(2, r"replay_buffer\.npz", saved=True).check(training)


def _fill_with_nan(path):
    with np.load(path) as arrays:
        weights = [arrays[f"arr_{i}"] for i in range(len(arrays.files))]
    np.savez(path, *[np.full_like(x, np.nan) if x.dtype.kind == "f" else x for x in weights])


@_CASES.add("league_nan", "a version of a league has NaN", _fill_with_nan)
@_CASES.add("league_empty", "a version of a league is empty", lambda path: os.truncate(path, 0))
@_CASES.add(
    "league_foreign", "a version of a league is another program's", lambda path: np.savez(path, x=[1])
)
def _damage_league(lab, damage):
    lab.run("league", ["StopCriteria.num_iterations = 12"])
    versions = sorted((lab.root_dir / "league").glob("*.npz"), key=lambda path: int(path.stem))
    damage(versions[0])
    training = lab.run("league", ["StopCriteria.num_iterations = 60"])
    message = rf"{versions[0].name}.*the league goes on without this version"
    outcome = Expected(0, message, saved=True).check(training)
    outcome.expect(training.find_restored(), "it does not continue")
    return outcome


@_CASES.add("fifo_run_json", "a pipe in place of `run.json`", "run.json", 0, r"run\.json cannot be read")
@_CASES.add(
    "fifo_config", "a pipe in place of `operative_config.gin`", "operative_config.gin", 2, "no regular file"
)
@_CASES.add("fifo_progress", "a pipe in place of `progress.csv`", PROGRESS_FILE, 0, None)
@_CASES.add("fifo_done", "a pipe in place of `done.json`", "done.json", 0, None)
@_CASES.add(
    "fifo_state", "a pipe in place of the newest checkpoint's state.json", "state.json", 0, "is damaged"
)
@_CASES.add(
    "fifo_index", "a pipe in place of the newest checkpoint's index", "weights.index", 0, "is damaged"
)
def _put_pipe(lab, name, status, message):
    lab.run("impala", ["Checkpoints.interval = 0.0", *_FEW], warm=True)
    newest = pathlib.Path(find_checkpoints(lab.root_dir)[-1])
    path = (newest if (newest / name).exists() else lab.root_dir) / name
    path.unlink()
    os.mkfifo(path)
    training = lab.run("impala", [f"StopCriteria.num_iterations = {number_of(str(newest)) + 5}"])
    return Expected(status, message, saved=True).check(training)


@_CASES.add("fifo_buffer", "a pipe in place of an offline buffer")
def _put_pipe_for_buffer(lab):
    lab.folder.mkdir(parents=True)
    path = lab.folder / "buffer.npz"
    os.mkfifo(path)
    params = ["Experiment.num_envs = 0", f"Experiment.offline_buffer = '{path}'"]
    return Expected(2, r"buffer\.npz", saved=False).check(lab.run("dqn", params, warm=True))
