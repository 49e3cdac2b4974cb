# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Callbacks, summaries and losses that hang or raise, and errors whose text is long or cannot be made."""

import signal

from benchmarks.faults.case import Cases, Expected, train_with_fault
from benchmarks.faults.training import find_checkpoints

_CASES = Cases("calls")
CASES = _CASES.cases

_CALLBACK = "Trainer.callbacks = (@benchmarks.faults.calls.FaultyCallback(),)"
_LOSS = "Experiment.algorithm = @benchmarks.faults.calls.FaultyImpala"
# The settings of each place, and how ALF names a call there.
_PLACES = {
    "on_train_iter": ([_CALLBACK], "FaultyCallback.on_train_iter of Trainer.callbacks"),
    "get_state": ([_CALLBACK], "get_state of FaultyCallback/0"),
    "on_end": ([_CALLBACK], "FaultyCallback.on_end of Trainer.callbacks"),
    "on_close": ([_CALLBACK], "FaultyCallback.on_close of Trainer.callbacks"),
    "summary": (
        ["Summaries.custom = @benchmarks.faults.calls.FaultySummary()", "Summaries.interval = 0.0"],
        "Summaries.custom",
    ),
    "loss": ([_LOSS], "an update of the learner"),
}
_ONLY_LAST = "Checkpoints.interval = 1000.0"  # what is saved was saved because of the error
# How the line names an error, by its kind.
_ERRORS = {
    "sys_exit": ("sys.exit(0)", r"^error: .*sys\.exit\(0\)"),
    "cancelled": ("CancelledError", "CancelledError"),
    "group": ("a group of exceptions", "several"),
    "long_error": ("an error with a text of 100 kB", "ValueError: x+$"),
    "error_without_text": ("an error whose text cannot be made", "NoTextError"),
}


@_CASES.add("hang_on_train_iter", "SIGTERM while on_train_iter of a callback hangs", "on_train_iter")
@_CASES.add("hang_get_state", "SIGTERM while get_state of a callback hangs", "get_state")
@_CASES.add("hang_on_end", "SIGTERM while on_end of a callback hangs", "on_end")
@_CASES.add("hang_on_close", "SIGTERM while on_close of a callback hangs", "on_close")
@_CASES.add("hang_summary", "SIGTERM while Summaries.custom hangs", "summary")
@_CASES.add("hang_loss", "SIGTERM while a py_function of the loss hangs", "loss")
def _signal_while_hanging(lab, where):
    settings, name = _PLACES[where]
    params = [*settings, "Monitoring.stall_timeout = 4.0", "Monitoring.on_stall = 'warn'"]
    params += ["Monitoring.signal_timeout = 2.0"]
    params += ["StopCriteria.max_seconds = 2"] * (where in ("on_end", "on_close"))
    fault = {"kind": "hang", "where": where, "when": True}
    training = lab.train_until_saved("impala", params, fault=fault)
    training.inject()
    training.wait_for_line(f"{name} has not returned for .*stall_timeout", 40)
    sent = training.send(signal.SIGTERM)
    training.wait_for_end(60)
    # An update has twice its usual time; a hanging one may have changed half of the weights.
    message = f"^error: stopped by SIGTERM: {name} .*; {'not ' if where == 'loss' else ''}saved"
    outcome = Expected(143, message, within=20.0, saved=True).check(training, sent)
    outcome.expect(training.find_line(r'File ".*envs.py", line \d+,? in _hang'), "its stack was not printed")
    if where != "loss":
        newest = find_checkpoints(lab.root_dir)[-1]
        outcome.expect(newest in outcome.last_line, f"{newest} is not named")
        outcome.expect(outcome.steps_lost <= 200, f"{outcome.steps_lost} steps lost, more than 200")
    lab.continue_run(outcome, "impala", settings)
    return outcome


def _add_error_cases():
    calls = {
        "on_train_iter": ("on_train_iter of a callback", ("sys_exit", "error_without_text")),
        "on_end": ("on_end of a callback", ("sys_exit", "error_without_text")),
        "summary": ("Summaries.custom", ("sys_exit",)),
        "loss": ("a py_function of the loss", ("long_error", "error_without_text")),
    }
    for where, (place, kinds) in calls.items():
        for kind in kinds:
            title, name = _ERRORS[kind]
            fault = {"kind": kind, "where": where, "at": 20 if where in ("on_train_iter", "loss") else 1}
            params = [*_PLACES[where][0], _ONLY_LAST, "StopCriteria.num_iterations = 60"]
            # Such an error does not pass through TensorFlow as it is: its stand-in is one line.
            is_own = kind == "long_error" or (kind == "error_without_text" and where != "loss")
            expected = Expected(1, name, within=15.0, saved=True, traceback=is_own)
            add = _CASES.add(
                f"{kind}_{where}", f"{title} in {place}", fault, expected, "impala", params, warm=True
            )
            add(train_with_fault)
    for config, place in (("impala", "in the training process"), ("workers", "in a worker")):
        for kind in ("long_error", "error_without_text", "cancelled", "group"):
            title, name = _ERRORS[kind]
            fault = {"kind": kind, "where": "step", "at": 200}
            is_own = kind == "long_error"  # all others mean something to Python, or cannot be shown
            message = name if is_own else rf"^error: environment \d, step \d+ raised .*{name}"
            expected = Expected(1, message, within=15.0, saved=True, traceback=is_own)
            name, title, params = f"{kind}_step_{config}", f"{title} in a step, {place}", [_ONLY_LAST]
            _CASES.add(name, title, fault, expected, config, params, warm=True)(train_with_fault)


_add_error_cases()


@_CASES.add("get_state_raises", "get_state of a callback raises", "key_error")
@_CASES.add("get_state_without_text", "get_state of a callback raises what has no text", "error_without_text")
@_CASES.add("get_state_no_json", "get_state of a callback returns a set", "set")
def _break_get_state(lab, kind):
    fault = {"kind": kind, "where": "get_state", "times": None}
    training = lab.run("impala", [_CALLBACK, "StopCriteria.num_iterations = 40"], fault=fault, warm=True)
    message = r"without the state of FaultyCallback/0: its get_state\(\) failed"
    outcome = Expected(0, message, saved=True).check(training)
    lab.continue_run(outcome, "impala", [_CALLBACK])
    return outcome
