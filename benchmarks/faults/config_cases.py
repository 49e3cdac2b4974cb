# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Wrong files of the user's, full disks, seeds of continued runs, and environments that stall."""

import io
import json
import pickle
import signal
import time
import zipfile

import numpy as np

from benchmarks.faults.case import Cases, Expected, observe, train_with_fault
from benchmarks.faults.training import find_checkpoints

_CONFIG, _STALLS = Cases("config"), Cases("stalls")

_BINARY = bytes(range(256)) * 4


@_CONFIG.add("gin_bracket", "a gin file with an unclosed bracket", b"Experiment.data_transformers = (\n")
@_CONFIG.add("gin_binary", "a binary gin file", _BINARY)
def _read_bad_gin(lab, content):
    path = lab.folder / "bad.gin"
    lab.folder.mkdir(parents=True)
    path.write_bytes(content)
    return Expected(2, r"bad\.gin: ('utf-8' codec|a bracket)", saved=False).check(
        lab.run(gin_files=[path], warm=True)
    )


@_CONFIG.add("operative_config_binary", "a binary operative_config.gin in root_dir")
def _read_bad_operative_config(lab):
    lab.run("impala", ["StopCriteria.num_iterations = 6"])
    (lab.root_dir / "operative_config.gin").write_bytes(_BINARY)
    training = lab.run("impala", ["StopCriteria.num_iterations = 9"])
    return Expected(2, r"operative_config\.gin", saved=True).check(training)


@_CONFIG.add(
    "operative_config_lost", "`operative_config.gin` is lost, and the run goes on with other settings"
)
def _lose_operative_config(lab):
    lab.run("impala", ["StopCriteria.num_iterations = 6"])
    (lab.root_dir / "operative_config.gin").unlink()
    training = lab.run("impala", ["StopCriteria.num_iterations = 9", "Experiment.unroll_length = 5"])
    outcome = Expected(0, r"operative_config\.gin is missing", saved=True).check(training)
    outcome.expect(training.find_restored(), "it does not continue")
    return outcome


def _header(**changes):
    return {"format": "ALF replay buffer", "version": 1, "unroll_length": 4, "num_groups": 1, **changes}


@_CONFIG.add("buffer_header_list", "an offline buffer whose header is a list", [])
@_CONFIG.add(
    "buffer_header_lacks_spec", "an offline buffer whose header lacks its specs", _header(batch_size=2)
)
@_CONFIG.add("buffer_header_version", "an offline buffer of a version that is a text", _header(version="x"))
@_CONFIG.add(
    "buffer_header_spec", "an offline buffer whose spec is a number", _header(batch_size=2, row_spec=3)
)
@_CONFIG.add("buffer_header_deep", "an offline buffer with a spec of 5,000 levels", None)
@_CONFIG.add("buffer_pickle", "an offline buffer that holds a pickled object", pickle)
def _read_bad_buffer(lab, header):
    lab.folder.mkdir(parents=True)
    path, executed = lab.folder / "buffer.npz", lab.folder / "executed"
    file = io.BytesIO()
    if header is pickle:
        np.save(file, np.array([_Malicious(str(executed))], object), allow_pickle=True)
    else:
        text = json.dumps(header) if header is not None else "[" * 5000 + "]" * 5000
        np.save(file, np.array(text))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.npy", file.getvalue())
    params = ["Experiment.num_envs = 0", f"Experiment.offline_buffer = '{path}'"]
    outcome = Expected(2, r"buffer\.npz", saved=False).check(lab.run("dqn", params, warm=True))
    outcome.expect(not executed.exists(), "the pickled object was executed")
    return outcome


class _Malicious:
    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return open, (self._path, "w")


def _add_refused_cases():
    same = "alf.environments.load.name = 'Same-v0'"
    refused = {
        "one_object": ("one object as several environments", [same], "is another environment already"),
        "one_object_groups": (
            "one object as several environments, one in each group",
            [same, "Experiment.num_envs = 2"],
            "is another environment already",
        ),
        "nan_learning_rate": ("a learning rate of NaN", ["Adam.learning_rate = %gin.NAN"], "learning_rate"),
        "decay": ("--decay=0.99, which is RLlib's RMSprop's", ["decay=0.99"], "decay"),
        "checkpoint": ("--checkpoint, which means something else elsewhere", ["checkpoint=x"], "checkpoint"),
        "misspelt": ("a misspelt setting", ["Checkpoint.interval=5"], "Checkpoints.interval"),
    }
    for name, (title, params, message) in refused.items():
        expected = Expected(2, f"(?i)^error: .*{message}", saved=False)
        _CONFIG.add(name, title, {}, expected, "impala", params, warm=True)(train_with_fault)


_add_refused_cases()


def _add_stop_iteration_cases():
    expected = Expected(1, "^error: .*env.*StopIteration", within=10.0)
    for config, where in (("impala", "in the training process"), ("workers", "in a worker")):
        fault = {"kind": "stop_iteration", "where": "step", "at": 50}
        add = _CONFIG.add(
            f"stop_iteration_{config}", f"StopIteration in step, {where}", fault, expected, config
        )
        add(train_with_fault)


_add_stop_iteration_cases()


@_CONFIG.add("events_disk_full", "no space for TensorBoard's events")
def _fill_disk(lab):
    # Events are the only file that grows; a checkpoint of this network has less than 60 kB.
    params = ["Summaries.interval = 0.0", "StopCriteria.max_seconds = 8"]
    training = lab.run("impala", params, process={"file_bytes": 200_000})
    return Expected(0, r"(?i)(summar|event|tensorboard).*(fail|written|space|large|error)", saved=True).check(
        training
    )


@_CONFIG.add("temp_folder", "kill -9 during a save, and a new start")
def _kill_during_save(lab):
    params = ["Checkpoints.interval = 0.0", "StopCriteria.max_seconds = 60"]
    training = lab.train_until_saved("impala", params)
    folder = lab.root_dir / "checkpoints"
    training.wait_until(lambda: _spin_until_temp(folder), 30, "a save")
    killed = training.send(signal.SIGKILL)
    training.wait_for_end()
    left = list(folder.glob(".ckpt-*"))
    if not left:  # the save was over before the signal came: leave what an unlucky one leaves
        (folder / ".ckpt-99999.abcd_123" / "new").mkdir(parents=True)
        (folder / ".ckpt-99999.abcd_123" / "new" / "weights.index").write_bytes(b"x")
    outcome = observe(training, injected=killed)
    again = lab.run("impala", ["StopCriteria.max_seconds = 1"])
    outcome.expect(again.status == 0, f"does not start again: {again.last_line()}")
    outcome.happened, outcome.details["really_killed_in_save"] = "continues, no folder is left", bool(left)
    outcome.expect(not list(folder.glob(".ckpt-*")), "an unfinished checkpoint is left")
    return outcome


def _spin_until_temp(folder, seconds=0.5):
    """Looks for an unfinished save without a pause."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(folder.glob(".ckpt-*")):
            return True
    return False


@_CONFIG.add("continued_seeds", "a continued run")
def _continue_with_seeds(lab):
    first = lab.run("impala", ["StopCriteria.num_iterations = 5"])
    outcome = Expected(0, saved=True).check(first)
    second = lab.continue_run(outcome, "impala")
    if second is not None:
        seeds = [{event["seed"] for event in training.events("reset")} for training in (first, second)]
        outcome.expect(len(seeds[0]) == len(seeds[1]) == 4, f"seeds of the first resets: {seeds}")
        outcome.expect(not seeds[0] & seeds[1], f"the seeds are the same again: {seeds[0] & seeds[1]}")
        outcome.happened += ", with other seeds"
    return outcome


_TIMEOUT = ["Monitoring.stall_timeout = 3"]


@_STALLS.add("stall", "an environment in this process hangs")
def _stall(lab):
    fault = {"kind": "hang", "where": "step", "when": True}
    training = lab.train_until_saved("impala", [*_TIMEOUT, "StopCriteria.max_seconds = 60"], fault=fault)
    training.inject()
    training.wait_for_end()
    expected = Expected(1, r"^error: .*env\w*\W+\d+.*step", within=12.0, saved=True)
    outcome = expected.check(training)
    outcome.expect(training.find_line(r'File ".*", line \d+'), "no stacks were printed")
    lab.continue_run(outcome, "impala", _TIMEOUT)
    return outcome


@_STALLS.add("stopped", "all processes are stopped for longer than stall_timeout, then go on", "impala")
@_STALLS.add("stopped_workers", "the same with workers, and for longer than step_timeout", "workers")
def _stop_processes(lab, config):
    params = [*_TIMEOUT, "StopCriteria.max_seconds = 15"]
    params += ["WorkerSettings.step_timeout = 3.0"] * (config == "workers")
    training = lab.train_until_saved(config, params)
    processes = training.processes()
    for process in processes:
        process.suspend()
    time.sleep(7.0)
    steps = training.num_env_steps()
    for process in processes:
        process.resume()
    training.wait_until(lambda: training.num_env_steps() > steps + 100 or training.ended, 10, "more steps")
    training.wait_for_end()
    outcome = Expected(0, saved=True, lost=500).check(training)
    outcome.expect(training.num_env_steps() > steps + 100, "no environment has stepped again")
    restarted = training.find_line("worker process .*restart")
    outcome.expect(not restarted, f"a worker was restarted: {restarted}")
    outcome.seconds = None
    return outcome


@_STALLS.add("stall_warn", 'the same with on_stall = "warn", for 6 s')
def _warn_of_stall(lab):
    fault = {"kind": "sleep_6", "where": "step", "when": True}
    params = [*_TIMEOUT, "Monitoring.on_stall = 'warn'", "StopCriteria.max_seconds = 20"]
    training = lab.train_until_saved("impala", params, fault=fault)
    training.inject()
    training.wait_until(lambda: training.events("fault_ended"), 30, "the end of the stall")
    before = len(find_checkpoints(training.root_dir))
    training.wait_for_end()
    outcome = Expected(0, r"(?i)env\w*\W+\d+.*step", within=12.0, saved=True, lost=500).check(training)
    outcome.expect(before, "no checkpoint was there")
    return outcome


CASES = [*_CONFIG.cases, *_STALLS.cases]
