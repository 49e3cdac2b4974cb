# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Case: a fault and what is expected of it. Lab: where cases train."""

import dataclasses
import functools
import itertools
import re
import time
from collections.abc import Callable

from benchmarks.faults.training import HungError, Server, Training, find_checkpoints, number_of

COMMON = """
import benchmarks.faults.batched
import benchmarks.faults.calls
Experiment.seed = 0
Experiment.unroll_length = 4
Checkpoints.interval = 0.3
StopCriteria.max_seconds = 10
Adam.learning_rate = 1e-3
"""
_LOAD = """
alf.environments.load.name = "Faulty-v0"
alf.environments.load.num_workers = 0
Experiment.num_envs = """
_TWO, _FOUR = f"{_LOAD}2\n", f"{_LOAD}4\n"
_BATCHED = "Experiment.env = @RefillingEnvironment"
_OFF_POLICY = """
Experiment.num_groups = 1
Experiment.data_transformers = (@ObservationNormalizer, @RewardClipping)
Experiment.exp_replayer = "uniform"
UniformReplayer.capacity = 2000
ReplayLearner.mini_batch_size = 8
ReplayLearner.initial_collect_steps = 50
ReplayLearner.replay_ratio = 0.25
Checkpoints.replay_buffer = True
"""
CONFIGS = {
    "impala": _FOUR
    + """
Experiment.num_groups = 2
ActorCriticNetwork.fc_layer_params = (8,)
UnrollLearner.optimizer = @Adam()
""",
    "dqn": _TWO
    + _OFF_POLICY
    + """
Experiment.policy = @alf.EpsilonGreedyPolicy
Experiment.algorithm = @DqnAlgorithm
alf.EpsilonGreedyPolicy.epsilon = 0.1
ReplayLearner.mini_batch_length = 2
QValueNetwork.fc_layer_params = (8,)
ReplayLearner.optimizer = @Adam()
""",
    "sac": _TWO
    + _OFF_POLICY
    + """
alf.environments.load.continuous = True
Experiment.policy = @SacPolicy
Experiment.algorithm = @SacAlgorithm
PolicyNetwork.fc_layer_params = (8,)
CriticsNetwork.fc_layer_params = (8,)
ReplayLearner.optimizer = {"actor": @Adam(), "critic": @Adam(), "alpha": @Adam()}
""",
}
CONFIGS["workers"] = CONFIGS["impala"].replace("num_workers = 0", "num_workers = 2")
CONFIGS["batched"] = CONFIGS["impala"].replace(_FOUR, _BATCHED)
CONFIGS["batched_dqn"] = CONFIGS["dqn"].replace(_TWO, _BATCHED)
CONFIGS["league"] = (
    CONFIGS["batched"].replace("RefillingEnvironment", "RefillingGame")
    + """
Experiment.policies = @League()
League.num_opponents = 2
League.snapshot_interval = 4
League.draw_interval = 1
"""
)
# Environments that take their time, so that a worker's trial run is no faster than a message to it.
SLOW_STEPS = "alf.environments.load.step_seconds = 0.002"


@dataclasses.dataclass
class Outcome:
    """What happened in a case.

    Attributes:
        happened: short text.
        status: exit status of the training with the fault, or None.
        last_line: the line of stderr that tells of the fault, or its last one.
        saved: number of the newest checkpoint that can be read, or None.
        seconds: from the fault to the message that names it, or to the end; None if it does not apply.
        steps_lost: environment steps that no checkpoint holds; None if it does not apply.
        problems: list of texts: what is not as expected.
        details: dict of further figures.
    """

    happened: str = ""
    status: int | None = None
    last_line: str = ""
    saved: int | None = None
    seconds: float | None = None
    steps_lost: int | None = None
    problems: list = dataclasses.field(default_factory=list)
    details: dict = dataclasses.field(default_factory=dict)

    def expect(self, condition, problem):
        """Notes the problem unless the condition holds."""
        if not condition:
            self.problems.append(problem)


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a case expects of a training with a fault. None means that anything is right.

    Attributes:
        status: exit status.
        message: regular expression. If the status is 1 or 2, the last line of stderr must match it, begin
            with "error: " and come without a traceback. Else any line of stderr must match it.
        traceback: whether there is a traceback instead, as of an exception of the user's; any line may match.
        within: seconds from the fault to the message.
        lost: environment steps that no checkpoint holds, at most.
        saved: whether there is a checkpoint at the end.
        continues: whether a healthy training must continue from the newest checkpoint.
    """

    status: int | None = 0
    message: str | None = None
    within: float | None = None
    lost: int | None = None
    saved: bool | None = None
    continues: bool = False
    traceback: bool = False

    def check(self, training, injected=None):
        """Returns the `Outcome` of a training that has ended. `injected`: the time of the fault."""
        outcome = observe(training, self.message, injected)
        status, message = training.status, self.message
        if self.status is not None:
            outcome.expect(status == self.status, f"exit status {status} instead of {self.status}")
        if self.traceback:
            outcome.expect(training.has_traceback(), "there is no traceback")
        if self.status in (1, 2) and not self.traceback:
            line = training.last_line()
            outcome.expect(line.startswith("error: "), f"the last line is no error: {line[:200]!r}")
            outcome.expect(not training.has_traceback(), "there is a traceback")
            if message:
                outcome.expect(
                    re.search(message, line), f"the last line does not match {message!r}: {line[:200]!r}"
                )
        elif message:
            outcome.expect(training.find_line(message), f"no line matches {message!r}")
        if self.within is not None:
            late = outcome.seconds is None or outcome.seconds > self.within
            outcome.expect(not late, f"noticed after {outcome.seconds} s, more than {self.within}")
        if self.lost is not None:
            outcome.expect(
                outcome.steps_lost <= self.lost, f"{outcome.steps_lost} steps lost, not {self.lost}"
            )
        if self.saved is not None:
            outcome.expect((outcome.saved is not None) == self.saved, f"saved checkpoint: {outcome.saved}")
        left = training.left_processes()
        outcome.expect(not left, f"processes are left: {left}")
        return outcome


def observe(training, message=None, injected=None):
    """Returns the `Outcome` of a training that has ended, without problems."""
    faults = training.events("fault")
    if injected is None and faults:
        injected = faults[0]["time"]
    found = training.find_line(message) if message else None
    noticed, line = found or (training.ended, training.last_line())
    saved = find_checkpoints(training.root_dir)
    return Outcome(
        happened=_describe_status(training.status),
        status=training.status,
        last_line=line,
        saved=number_of(saved[-1]) if saved else None,
        seconds=round(noticed - injected, 2) if injected and noticed else None,
        steps_lost=training.steps_lost(),
    )


def _describe_status(status):
    return "runs on" if status == 0 else f"ends, status {status}"


@dataclasses.dataclass(frozen=True)
class Case:
    """A fault and what is expected of it.

    Attributes:
        group: one word: "checkpoints", "ends", ...
        name: unique; words joined by "_".
        title: what the fault is, for the table.
        run: callable (`Lab`) -> `Outcome`.
    """

    group: str
    name: str
    title: str
    run: Callable

    def outcome(self, lab):
        """Runs the case; what hangs or raises is a problem, too."""
        start = time.monotonic()
        try:
            outcome = self.run(lab)
        except HungError as error:
            outcome = Outcome(happened="unlike expected", problems=[str(error)])
        outcome.details["case_seconds"] = round(time.monotonic() - start, 1)
        return outcome


class Cases:
    """The cases of a group, in order; `add` is a decorator of functions from `Lab` to `Outcome`."""

    def __init__(self, group):
        self._group = group
        self.cases = []

    def add(self, name, title, *args, **kwargs):
        """Adds a case that calls the function with a `Lab`, `args` and `kwargs`."""

        def decorate(function):
            run = functools.partial(_call, function, args, kwargs)
            self.cases.append(Case(self._group, name, title, run))
            return function

        return decorate


def _call(function, args, kwargs, lab):
    return function(lab, *args, **kwargs)


class Lab:
    """Trains in a folder of its own, and ends all processes that it has started.

    Args:
        folder: `pathlib.Path`.
        make_server: callable () -> `Server` for trainings with `warm`.
        options: dict of what the command line says: kills, soak_minutes, signals.
    """

    def __init__(self, folder, make_server=Server, options=None):
        self.folder = folder
        self.root_dir = folder / "run"
        self.options = options or {}
        self._make_server = make_server
        self._numbers = itertools.count()
        self._trainings = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for training in self._trainings:
            training.__exit__()

    def start(self, config="impala", params=(), gin_files=None, warm=False, root_dir=None, **kwargs):
        """Starts a `Training` of a configuration, "impala" say, with more gin bindings; see `Training`."""
        number = next(self._numbers)
        if gin_files is None:
            path = self.folder / f"{config}.gin"
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(COMMON + CONFIGS[config])
            gin_files = [path]
        args = ["train", *map(str, gin_files), *(f"--{param}" for param in params)]
        if warm:
            kwargs["server"] = self._make_server()
        training = Training(self.folder / f"training-{number}", root_dir or self.root_dir, args, **kwargs)
        self._trainings.append(training)
        return training

    def run(self, *args, **kwargs):
        """Starts a training and waits for its end."""
        training = self.start(*args, **kwargs)
        training.wait_for_end()
        return training

    def train_until_saved(self, *args, **kwargs):
        """Starts a training and waits until it has saved a checkpoint."""
        training = self.start(*args, **kwargs)
        before = set(find_checkpoints(training.root_dir))
        training.wait_until(lambda: set(find_checkpoints(training.root_dir)) - before, 60, "a checkpoint")
        return training

    def continue_run(self, outcome, config="impala", params=(), iterations=3):
        """Continues the run in the root_dir without a fault, and notes what is wrong in `outcome`."""
        found = find_checkpoints(self.root_dir)
        if not found:
            outcome.problems.append("there is no checkpoint to continue from")
            return None
        params = [*params, f"StopCriteria.num_iterations = {number_of(found[-1]) + iterations}"]
        training = self.run(config, params)
        outcome.expect(training.status == 0, f"cannot be continued: {training.last_line()}")
        restored = training.find_restored()
        outcome.expect(restored == found[-1], f"continues from {restored} instead of {found[-1]}")
        if training.status == 0 and restored == found[-1]:
            outcome.happened += ", can be continued"
        return training


def train_with_fault(lab, fault, expected, config="impala", params=(), first_saved=False, **kwargs):
    """Trains with a fault until the end, and continues without it if that is expected.

    With `first_saved` the fault waits for the first checkpoint.
    """
    if first_saved:
        training = lab.train_until_saved(config, params, fault={**fault, "when": True}, **kwargs)
        training.inject()
    else:
        training = lab.start(config, params, fault=fault, **kwargs)
    training.wait_for_end()
    outcome = expected.check(training)
    if fault.get("kind") and fault.get("where"):
        outcome.expect(training.events("fault"), "the fault did not happen")
    if expected.continues:
        lab.continue_run(outcome, config, params)
    return outcome
