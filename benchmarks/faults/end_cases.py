# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Ends of a run: signals, environments that hang or exit, two runs in one directory."""

import dataclasses
import json
import random
import signal
import time

import psutil

from benchmarks.faults.case import SLOW_STEPS, Cases, Expected, Outcome, observe, train_with_fault
from benchmarks.faults.training import SIGNAL_STATUS

_CASES = Cases("ends")
CASES = _CASES.cases


@_CASES.add("signals", "SIGTERM, SIGINT, SIGHUP at random moments of start, training and saving")
def _send_at_random(lab):
    rng = random.Random(0)
    total = Outcome(happened="saved, status 128 + the signal's number", seconds=0.0, steps_lost=0)
    for i in range(lab.options.get("signals", 9)):
        signum = list(SIGNAL_STATUS)[i % 3]
        training = lab.start("workers", ["StopCriteria.max_seconds = 60"], root_dir=lab.folder / f"run-{i}")
        delay = rng.uniform(0.2, 12.0)
        time.sleep(delay)
        sent = training.send(signum, to_all=signum != signal.SIGTERM)
        training.wait_for_end()
        outcome = observe(training, injected=sent)
        status = _shell_status(training)
        name = f"{signal.Signals(signum).name} after {delay:.1f} s"
        total.expect(status == SIGNAL_STATUS[signum], f"{name}: status {status}")
        trained = training.num_env_steps() > 1000
        total.expect(not trained or outcome.saved, f"{name}: nothing was saved")
        total.expect(not trained or outcome.steps_lost <= 200, f"{name}: {outcome.steps_lost} steps lost")
        total.expect(not training.left_processes(), f"{name}: processes are left")
        total.seconds = max(total.seconds, outcome.seconds)
        total.steps_lost = max(total.steps_lost, outcome.steps_lost if trained else 0)
    return total


def _shell_status(training):
    """The exit status as a shell shows it: 128 plus the number of a signal that has ended the process."""
    return 128 - training.status if training.status < 0 else training.status


@_CASES.add("sigterm_while_hanging", "SIGTERM while an environment hangs", "impala")
@_CASES.add("sigterm_while_worker_hangs", "SIGTERM while an environment hangs in a worker", "workers")
def _signal_while_hanging(lab, config):
    fault = {"kind": "hang", "where": "step", "when": True}
    training = lab.train_until_saved(config, ["StopCriteria.max_seconds = 60"], fault=fault)
    training.inject()
    training.wait_until(lambda: training.events("fault"), 30, "the fault")
    time.sleep(1.0)
    sent = training.send(signal.SIGTERM)
    training.wait_for_end(60)
    # `stop_timeout`, and the 10 s that the process may take to end after that.
    outcome = Expected(143, lost=500, saved=True, within=15.0).check(training, sent)
    saved = max(path.stat().st_mtime for path in (lab.root_dir / "checkpoints").glob("ckpt-*"))
    outcome.details["saved_after"] = round(saved - sent, 2)
    outcome.expect(0 <= saved - sent < 2.0, f"saved {saved - sent:.1f} s after the signal")
    lab.continue_run(outcome, config)
    return outcome


@_CASES.add("ctrl_c_twice", "Ctrl-C twice within 0.3 s")
def _interrupt_twice(lab):
    training = lab.train_until_saved("impala", ["StopCriteria.max_seconds = 60"])
    sent = training.send(signal.SIGINT, to_all=True)
    time.sleep(0.1)
    training.send(signal.SIGINT, to_all=True)
    training.wait_for_end()
    outcome = Expected(None, lost=200, saved=True, within=10.0).check(training, sent)
    # Where everything is done within 0.1 s, the second one ends the process.
    outcome.expect(_shell_status(training) == 130, f"status {training.status}")
    done = json.loads((lab.root_dir / "done.json").read_text())["status"]
    outcome.expect(done == "INTERRUPTED", f"done.json says {done}")
    lab.continue_run(outcome)
    return outcome


_EVALUATES = [
    "Trainer.evaluator = @Evaluator",
    "Evaluator.interval_seconds = 0.5",
    "Evaluator.place = 'process'",
    "eval/alf.environments.load.counts_steps = False",
]
_IN_EVALUATION = ["alf.environments.load.is_faulty = False", "eval/alf.environments.load.is_faulty = True"]


@_CASES.add("group_sigterm", "SIGTERM to all processes of the group: `timeout`", signal.SIGTERM)
@_CASES.add("group_sighup", "SIGHUP to all processes of the group: a closed terminal", signal.SIGHUP)
@_CASES.add("group_sigint", "SIGINT to all processes of the group: Ctrl-C", signal.SIGINT)
def _signal_group(lab, signum):
    """With workers, and in the middle of an evaluation in a process."""
    params = [*_EVALUATES, "eval/alf.environments.load.step_seconds = 0.05", "StopCriteria.max_seconds = 60"]
    training = lab.train_until_saved("workers", params)
    training.wait_until(training.evaluations, 40, "a process of the evaluation")
    sent = training.send(signum, to_all=True)
    training.wait_for_end()
    outcome = Expected(SIGNAL_STATUS[signum], saved=True, within=15.0, lost=200).check(training, sent)
    done = json.loads((lab.root_dir / "done.json").read_text())["status"]
    outcome.expect(done == "INTERRUPTED", f"done.json says {done}")
    lab.continue_run(outcome, "workers")
    return outcome


@_CASES.add("evaluation_killed", "kill -9 of the process of an evaluation, once", 1)
@_CASES.add("evaluation_killed_always", "the same, always", None)
def _kill_evaluation(lab, times):
    fault = {"kind": "segfault", "where": "step", "times": times, "at": 5}
    params = [*_EVALUATES, *_IN_EVALUATION, f"StopCriteria.max_seconds = {15 if times else 60}"]
    training = lab.run("impala", params, fault=fault)
    lost = "process of the evaluation has ended with status .*"
    expected = (
        Expected(0, f"{lost}restart 1 of 3") if times else Expected(1, f"{lost}max_restarts=3 is reached")
    )
    outcome = dataclasses.replace(expected, saved=True).check(training)
    outcome.expect(training.events("fault"), "the fault did not happen")
    lab.continue_run(outcome, "impala", [*_EVALUATES, *_IN_EVALUATION])
    return outcome


_SCRIPT = """
import sys
import alf
import benchmarks.faults.envs

root_dir = sys.argv[-1].partition("=")[2]
settings = dict(num_envs=4, num_workers=0, root_dir=root_dir)
alf.train("Faulty-v0", algorithm="impala", steps=10**8, **settings)
"""


@_CASES.add("interrupt_in_python", "Ctrl-C in alf.train of a script")
def _interrupt_script(lab):
    training = lab.start(script=_SCRIPT)
    training.wait_until(lambda: training.num_env_steps() > 2000, 60, "steps")
    sent = training.send(signal.SIGINT)
    training.wait_for_end()
    message = r"^KeyboardInterrupt: stopped by SIGINT .*; it is saved in \S+ckpt-\d+\. The same call goes on"
    outcome = Expected(None, message, saved=True, within=15.0).check(training, sent)
    outcome.expect(_shell_status(training) == 130, f"status {training.status}")
    outcome.expect(
        outcome.steps_lost <= 2000, f"{outcome.steps_lost} steps lost"
    )  # unrolls that were not full
    again = lab.start(script=_SCRIPT)
    again.wait_until(lambda: again.num_env_steps() > 500, 60, "steps")
    again.send(signal.SIGINT)
    again.wait_for_end()
    outcome.expect(again.restored_steps and again.steps_lost() <= 2000, "the same call does not go on")
    return outcome


@_CASES.add("exit_process", "os._exit(7), or a crash, of an environment in this process")
def _exit_process(lab):
    fault = {"kind": "end_process", "where": "step", "when": True}
    training = lab.train_until_saved("impala", fault=fault)
    training.inject()
    training.wait_for_end()
    outcome = Expected(7, saved=True).check(training)
    outcome.happened = "ends at once, with what the last checkpoint has"
    lab.continue_run(outcome)
    return outcome


@_CASES.add("sigterm_at_start_with_copies", "SIGTERM during the start, with parameter_update_period")
def _signal_at_start(lab):
    params = ["DriverSettings.parameter_update_period = 4", "StopCriteria.max_seconds = 60"]
    training = lab.start("impala", params)
    training.wait_for_line("tensorboard --logdir")
    sent = training.send(signal.SIGTERM)
    training.wait_for_end()
    return Expected(143, within=10.0).check(training, sent)


def _add_exit_cases():
    for where, title in (("step", "step"), ("reset", "reset"), ("make", "the constructor")):
        for workers in (0, 1, "auto"):
            fault = {"kind": "sys_exit", "where": where, "times": None, "at": 1 if where == "make" else 3}
            expected = Expected(1, r"^error: .*SystemExit", within=15.0)
            params = [f"alf.environments.load.num_workers = {workers!r}", SLOW_STEPS]
            shown = f"sys.exit(0) in {title}, num_workers = {workers}"
            _CASES.add(f"exit_{where}_{workers}", shown, fault, expected, "impala", params)(train_with_fault)


_add_exit_cases()


@_CASES.add("close_raises", "close() raises at the end of a finished run", "key_error", "impala")
@_CASES.add("close_hangs", "close() hangs at the end of a finished run", "hang", "impala")
@_CASES.add("close_raises_worker", "the same in a worker: close() raises", "key_error", "workers")
def _fail_in_close(lab, kind, config):
    fault = {"kind": kind, "where": "close"}
    training = lab.run(config, ["StopCriteria.num_iterations = 20"], fault=fault)
    message = r"did not stop as it should: .*(KeyError.* in close|is still closing)|when it closed them"
    outcome = Expected(0, message, saved=True).check(training)
    # An environment that hangs keeps the other one of its batch of two from it.
    closed, expected = len(training.events("close")), 3 if kind == "hang" else 4
    outcome.expect(closed == expected, f"{closed} of 4 environments were closed, not {expected}")
    return outcome


@_CASES.add("spaces_close_hangs", "close() of the environment that is made to read the spaces hangs", "hang")
@_CASES.add("spaces_close_raises", "the same raises", "key_error")
def _fail_in_first_close(lab, kind):
    params = ["alf.environments.load.num_workers = 'auto'", "StopCriteria.num_iterations = 20"]
    training = lab.run("impala", params, fault={"kind": kind, "where": "close"})
    outcome = Expected(0, "(?i)clos", saved=True).check(training)
    outcome.expect(training.events("fault"), "the fault did not happen")
    return outcome


@_CASES.add("forked_helper", "an environment has forked a helper, and the run is finished", "impala")
@_CASES.add("forked_helper_worker", "the same in a worker", "workers")
def _fork_helper(lab, config):
    fault = {"kind": "fork_helper", "where": "make", "times": None}
    training = lab.run(config, ["StopCriteria.num_iterations = 20"], fault=fault)
    outcome = Expected(0, saved=True, within=5.0).check(training, _find_last_iteration(training))
    outcome.expect(training.events("started"), "no helper was started")
    return outcome


@_CASES.add("evaluation_hangs", "an environment of the evaluation hangs, and the run is finished")
def _hang_in_evaluation(lab):
    params = ["Trainer.evaluator = @Evaluator", "Evaluator.interval_seconds = 0.5"]
    params += ["alf.environments.load.is_faulty = False", "eval/alf.environments.load.is_faulty = True"]
    fault = {"kind": "hang", "where": "step"}
    training = lab.run("impala", [*params, "StopCriteria.max_seconds = 3"], fault=fault)
    outcome = Expected(0, "evaluation did not close within", saved=True).check(training)
    outcome.expect(training.events("fault"), "the fault did not happen")
    outcome.seconds = round(training.ended - _find_last_iteration(training), 2)
    # 5 s for the evaluation, and some for the end of the process.
    outcome.expect(outcome.seconds < 8.0, f"the run ended {outcome.seconds} s after its last iteration")
    return outcome


def _find_last_iteration(training):
    """When the log told of the last train iteration; a run says so before it ends its parts."""
    line = training.find_line("since the first train step")
    return line[0] if line else training.started


@_CASES.add("two_runs", "a second run in the same root_dir, and a third after kill -9 of the first")
def _start_twice(lab):
    params = ["StopCriteria.max_seconds = 60"]
    first = lab.train_until_saved("impala", params)
    second = lab.run("impala", params)
    outcome = Expected(2, r"(?i)\bin use\b").check(second, second.started)
    first.send(signal.SIGKILL)
    first.wait_for_end()
    third = lab.run("impala", ["StopCriteria.max_seconds = 1"])
    outcome.expect(third.status == 0, f"the third does not start: {third.last_line()}")
    outcome.expect(third.find_restored(), "the third does not continue")
    return outcome


@_CASES.add("child_of_killed_worker", "kill -9 of a worker whose environment started a process", False)
@_CASES.add("child_of_killed_run", "kill -9 of a run whose environments started processes", True)
def _kill_with_children(lab, kills_owner):
    fault = {"kind": "start_process", "where": "make", "times": None}
    training = lab.train_until_saved("workers", ["StopCriteria.max_seconds = 60"], fault=fault)
    started = training.events("started")
    if kills_owner:
        killed_at, victims = training.send(signal.SIGKILL), [event["child"] for event in started]
    else:
        pid = started[0]["pid"]
        victims = [event["child"] for event in started if event["pid"] == pid]
        psutil.Process(pid).kill()
        killed_at = time.time()
    deadline = time.time() + 5.0
    while (alive := [pid for pid in victims if _is_alive(pid)]) and time.time() < deadline:
        time.sleep(0.01)
    ended = time.time()
    if not kills_owner:
        training.send(signal.SIGTERM)
    training.wait_for_end()
    outcome = observe(training, injected=killed_at)
    outcome.happened = "the processes end with the worker" if not alive else "processes live on"
    outcome.seconds = round(ended - killed_at, 2)
    outcome.expect(not alive, f"{len(alive)} of {len(victims)} processes live on")
    return outcome


def _is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
