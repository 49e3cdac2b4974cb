# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Damaged checkpoints, numbers that are not finite, files that cannot be written."""

import pathlib
import shutil
import signal
import time

import numpy as np
import tensorflow as tf

from benchmarks.faults.case import Cases, Expected, train_with_fault
from benchmarks.faults.training import are_weights_sane, find_checkpoints, number_of, read_weights

_CASES = Cases("checkpoints")
CASES = _CASES.cases


def _make_run(lab, config="impala", iterations=6):
    """Makes a finished run with several checkpoints; returns their paths, the newest last."""
    params = [f"StopCriteria.num_iterations = {iterations}", "Checkpoints.interval = 0.0"]
    training = lab.run(config, params)
    found = find_checkpoints(lab.root_dir)
    if training.status or len(found) < 2:
        raise RuntimeError(f"no run to damage: {training.last_line()}")
    return found


def _flip(path):
    """Flips a byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _data_file(checkpoint):
    (path,) = pathlib.Path(checkpoint).glob("weights.data-*")
    return path


def _index_file(checkpoint):
    return pathlib.Path(checkpoint, "weights.index")


def _state_file(checkpoint):
    return pathlib.Path(checkpoint, "state.json")


@_CASES.add("data_truncated", "the newest checkpoint's data file is cut off", _data_file, None)
@_CASES.add("data_flipped", "a byte of the newest checkpoint's data file is wrong", _data_file, _flip)
@_CASES.add("index_flipped", "a byte of the newest checkpoint's index is wrong", _index_file, _flip)
@_CASES.add("index_missing", "the newest checkpoint's index is missing", _index_file, pathlib.Path.unlink)
@_CASES.add("state_flipped", "a byte of the newest checkpoint's state.json is wrong", _state_file, _flip)
@_CASES.add("data_missing", "the newest checkpoint's data file is missing", _data_file, pathlib.Path.unlink)
def _damage_newest(lab, find, damage):
    *_, before, newest = _make_run(lab)
    path = find(newest)
    if damage is None:
        path.write_bytes(path.read_bytes()[:-100])
    else:
        damage(path)
    names = [f"ckpt-{number_of(name)}" for name in (newest, before)]
    expected = Expected(message=rf"(?=.*{names[0]}\b)(?=.*{names[1]}\b)")
    training = lab.run("impala", [f"StopCriteria.num_iterations = {number_of(newest) + 3}"])
    outcome = expected.check(training)
    restored = training.find_restored()
    outcome.expect(restored == before, f"continues from {restored} instead of {before}")
    return outcome


@_CASES.add("states_lost", "all `state.json` are lost: somebody has copied only the weights")
def _lose_states(lab):
    _make_run(lab)
    folder = lab.root_dir / "checkpoints"
    for path in folder.glob("ckpt-*/state.json"):
        path.unlink()
    before = sorted(folder.rglob("*"))
    training = lab.run("impala", ["StopCriteria.num_iterations = 9"])
    outcome = Expected(2, r"ckpt-\d+ is damaged: state.json: ").check(training)
    outcome.expect(sorted(folder.rglob("*")) == before, "files have changed")
    return outcome


@_CASES.add("weights_nan", "the newest checkpoint is whole, but a weight in it is NaN")
def _write_nan(lab):
    newest = _make_run(lab)[-1]
    tensors = read_weights(newest)
    name = next(name for name in tensors if "kernel" in name and "optimizer" not in name)
    tensors[name] = np.full_like(tensors[name], np.nan)
    tf.raw_ops.SaveV2(
        prefix=f"{newest}/weights",
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    training = lab.run("impala", [f"StopCriteria.num_iterations = {number_of(newest) + 3}"])
    return Expected(2, "not finite").check(training)


@_CASES.add("root_dir_renamed", "somebody renames the root_dir of a run that trains")
def _rename_root_dir(lab):
    training = lab.train_until_saved("impala", ["StopCriteria.max_seconds = 30"])
    moved = lab.root_dir.with_name("moved")
    lab.root_dir.rename(moved)
    renamed = time.time()
    training.wait_for_end()
    outcome = Expected(1, "no checkpoint was saved").check(training, renamed)
    outcome.steps_lost = None  # the checkpoints are elsewhere
    outcome.expect(not (lab.root_dir / "checkpoints").exists(), "checkpoints were written in a new root_dir")
    shutil.rmtree(lab.root_dir, ignore_errors=True)
    moved.rename(lab.root_dir)
    lab.continue_run(outcome)
    return outcome


@_CASES.add("finished_again", "a finished run is started again")
def _start_again(lab):
    _make_run(lab)

    def snapshot():
        paths = [lab.root_dir, *lab.root_dir.rglob("*")]
        return {x: (x.stat().st_mtime_ns, x.is_file() and x.read_bytes()) for x in paths}

    before = snapshot()
    outcome = Expected().check(lab.run("impala", ["StopCriteria.num_iterations = 6"]))
    changed = sorted(path.name for path, entry in snapshot().items() if before.get(path) != entry)
    outcome.expect(not changed, f"files were written again: {changed}")
    return outcome


@_CASES.add("buffer_fails", "the replay buffer cannot be written", None)
@_CASES.add("buffer_fails_sigterm", "the same, and SIGTERM", signal.SIGTERM)
def _block_buffer(lab, signum):
    folder = lab.root_dir / "checkpoints" / "replay_buffer.npz.tmp"
    (folder / "in_the_way").mkdir(parents=True)
    training = lab.train_until_saved("dqn", ["StopCriteria.max_seconds = 4"])
    if signum:
        training.send(signum)
    training.wait_for_end()
    expected = Expected(1, "^error: the replay buffer could not be saved", saved=True)
    outcome = expected.check(training, training.started)
    outcome.expect(outcome.steps_lost <= 200, f"{outcome.steps_lost} steps lost, more than 200")
    shutil.rmtree(folder, ignore_errors=True)
    lab.continue_run(outcome, "dqn")
    return outcome


@_CASES.add("buffer_slow_sigterm", "the replay buffer takes 5 s to write, and SIGTERM")
def _slow_buffer(lab):
    process = {"slow_replace": ["replay_buffer.npz", 5.0]}
    training = lab.train_until_saved("dqn", process=process)
    sent = training.send(signal.SIGTERM)
    training.wait_until(lambda: not training.steps_lost() or training.ended, 60, "the save")
    training.wait_for_end()
    outcome = Expected(143, "stopped by SIGTERM after", lost=200, saved=True).check(training, sent)
    lab.continue_run(outcome, "dqn")
    return outcome


@_CASES.add("buffer_deleted", "the replay buffer's file is deleted between two runs")
def _delete_buffer(lab):
    _make_run(lab, "dqn", 60)
    (lab.root_dir / "checkpoints" / "replay_buffer.npz").unlink(missing_ok=True)
    training = lab.run("dqn", ["StopCriteria.num_iterations = 90"])
    return Expected(0, r"(?i)(replay.?buffer|npz).*(no |not|missing|empty|without)", saved=True).check(
        training
    )


def _add_number_cases():
    titles = {"nan_reward": "NaN as reward", "nan_observation": "NaN in an observation"}
    titles["infinite_reward"] = "an infinite reward"
    for kind, title in titles.items():
        word = "observation" if "observation" in kind else "reward"
        message = rf"(?i)^error: (?=.*env)(?=.*{word}).*"
        expected = Expected(1, message, within=10.0, lost=100_000, saved=True, continues=True)
        for config in ("impala", "dqn", "sac"):
            fault = {"kind": kind, "where": "step"}
            name, shown = f"{kind}_{config}", f"{title}, {config.upper()}"
            _CASES.add(name, shown, fault, expected, config, first_saved=True)(train_with_fault)
    clipping = ["Experiment.data_transformers = (@RewardClipping,)"]
    fault = {"kind": "infinite_reward", "where": "step"}
    expected = Expected(1, r"(?i)^error: (?=.*env)(?=.*reward).*", saved=True, continues=True)
    add = _CASES.add(
        "infinite_reward_clipped",
        "an infinite reward, IMPALA with RewardClipping",
        fault,
        expected,
        "impala",
        clipping,
        first_saved=True,
    )
    add(train_with_fault)


_add_number_cases()


@_CASES.add("diverges", "a learning rate of 1e30")
def _diverge(lab):
    # A checkpoint holds the learning rate, too: the run has this one from its start.
    params = ["Adam.learning_rate = 1e30", "Checkpoints.interval = 0.0"]
    training = lab.run("impala", params)
    outcome = Expected(1, "learning_rate").check(training, training.started)
    for path in find_checkpoints(lab.root_dir):
        outcome.expect(are_weights_sane(path), f"{path} holds numbers from which no run can continue")
    return outcome
