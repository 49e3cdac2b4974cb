# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Workers that die, hang or are stopped, when they start and in training."""

import signal
import time

from benchmarks.faults.case import Cases, Expected, train_with_fault
from benchmarks.faults.envs import EPISODE_STEPS
from benchmarks.faults.training import last_value

_CASES = Cases("workers")
CASES = _CASES.cases

_STEP_TIMEOUT = 3.0  # seconds
_LIMITS = [f"WorkerSettings.step_timeout = {_STEP_TIMEOUT}", "WorkerSettings.start_timeout = 6.0"]


def _add_start_cases():
    kinds = {"segfault": "a segmentation fault", "hang": "a hang", "end_process": "an exit"}
    for kind, title in kinds.items():
        for times, often in ((1, "once"), (None, "always")):
            fault = {"kind": kind, "where": "make", "times": times}
            if times:
                params = [*_LIMITS, "StopCriteria.num_iterations = 20"]
                expected = Expected(0, r"worker process .*(restart|again)", within=30.0)
            else:
                params, expected = _LIMITS, Expected(1, "^error: .*worker process", within=60.0)
            add = _CASES.add(
                f"make_{kind}_{often}",
                f"{title} in the constructor, {often}",
                fault,
                expected,
                "workers",
                params,
            )
            add(train_with_fault)


_add_start_cases()


@_CASES.add("kill_worker", "kill -9 of a worker in training", signal.SIGKILL)
@_CASES.add("stop_worker", "SIGSTOP of a worker in training", signal.SIGSTOP)
def _lose_worker(lab, signum):
    training = lab.train_until_saved("workers", _LIMITS)
    training.workers()[-1].send_signal(signum)
    lost = time.time()
    training.wait_for_line("worker process .*restart", _STEP_TIMEOUT + 10)
    training.wait_for_end()
    bound = 5.0 + (_STEP_TIMEOUT if signum == signal.SIGSTOP else 0.0)
    return Expected(0, "worker process .*restart 1 of", saved=True, within=bound).check(training, lost)


@_CASES.add("too_many_restarts", "more kills of workers within restart_period than max_restarts")
def _lose_too_many(lab):
    params = [*_LIMITS, "WorkerSettings.max_restarts = 1", "StopCriteria.max_seconds = 30"]
    training = lab.train_until_saved("workers", params)
    lost = time.time()
    for _ in range(40):  # kills go on until the run ends; both pools of workers count their own restarts
        if training.ended:
            break
        for worker in training.workers():
            worker.kill()
        time.sleep(0.5)
    training.wait_for_end()
    return Expected(1, "^error: .*max_restarts", saved=True).check(training, lost)


@_CASES.add("exit_worker", "os._exit(7) of an environment in a worker, once")
def _exit_worker(lab):
    fault = {"kind": "end_process", "where": "step", "at": 200}
    training = lab.run("workers", [*_LIMITS, "StopCriteria.max_seconds = 5"], fault=fault)
    outcome = Expected(0, "worker process .*restart 1 of", saved=True, within=10.0).check(training)
    outcome.expect(training.events("fault"), "the fault did not happen")
    return outcome


@_CASES.add("fork_returns", "an environment forks, and the child returns from its step", "impala")
@_CASES.add("fork_returns_workers", "the same in workers", "workers")
def _fork_and_return(lab, config):
    fault = {"kind": "fork_and_return", "where": "step", "at": 30, "times": 6}
    training = lab.run(config, ["StopCriteria.num_iterations = 400"], fault=fault)
    outcome = Expected(0, saved=True).check(training)
    outcome.expect(training.events("started"), "no process was forked")
    length = last_value(training.root_dir, "metrics/AverageEpisodeLength")
    outcome.expect(length == EPISODE_STEPS, f"episodes have {length} steps, not {EPISODE_STEPS}")
    return outcome


@_CASES.add("all_hang", "three workers hang at once")
def _hang_all(lab):
    fault = {"kind": "hang", "where": "step", "when": True, "times": 3}
    sizes = ["Experiment.num_groups = 1", "Experiment.num_envs = 3"]
    params = [*_LIMITS, *sizes, "alf.environments.load.num_workers = 3", "WorkerSettings.max_restarts = 6"]
    training = lab.train_until_saved("workers", params, fault=fault)
    injected = training.inject()
    training.wait_until(lambda: len(training.events("fault")) == 3, 30, "three hangs")
    training.wait_until(lambda: len(_restarts(training)) >= 3, 40, "three restarts")
    noticed = _restarts(training)[2][0] - injected
    training.wait_for_end()
    outcome = Expected(0, "worker process .*restart", saved=True).check(training, injected)
    outcome.seconds = round(noticed, 2)
    outcome.expect(noticed < 2 * _STEP_TIMEOUT, f"all were noticed after {noticed:.1f} s")
    return outcome


def _restarts(training):
    return [entry for entry in list(training.lines) if "worker process" in entry[1] and "restart" in entry[1]]


@_CASES.add("json_in_cwd", "a file json.py in the current directory")
def _put_json_beside(lab):
    folder = lab.folder / "cwd"
    folder.mkdir(parents=True)
    mark = folder / "executed"
    (folder / "json.py").write_text(
        f"import os, sys\nos.close(os.open({str(mark)!r}, os.O_CREAT))\nsys.exit(9)\n"
    )
    training = lab.start("workers", ["StopCriteria.num_iterations = 5"], cwd=folder, console_script=True)
    training.wait_for_end()
    outcome = Expected(0, saved=True).check(training)
    outcome.expect(not mark.exists(), "json.py was executed")
    return outcome
