# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""check: finds problems of an environment, the settings for it, and its cost."""

import dataclasses
import functools
import os
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gin
import gymnasium
import numpy as np

from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.parsing import bind, check_dead_bindings, parse_config, wrong_calls_are_config_errors
from alf.config.registry import bind_arguments, complete, find_argument, own_config
from alf.config.settings import checked
from alf.core.annotations import FilePath
from alf.core.pickling import can_pickle
from alf.environments.arguments import InfoKeys
from alf.environments.load import find_env_fn, has_vector_entry, load
from alf.environments.python_env import MESSAGE_SECONDS, find_num_workers, waits
from alf.errors import ConfigError
from alf.runs.experiment import Experiment
from alf.runs.groups import split_in_groups
from alf.runs.presets import find_bindings
from alf.runs.what import find_what
from alf.tools.env_hints import find_hints
from alf.workers import EnvBatch, WorkerError, WorkerPool, WorkerSettings
from alf.workers.info import check_info_keys
from alf.workers.inspector import Inspector
from alf.workers.watched_thread import WatchedThread
from alf.workers.worker_settings import WorkerTimeout

_SIZES = ("alf.training.Experiment.num_envs", "alf.training.Experiment.num_groups")
# Arguments that `load` uses itself; the others go to the constructor of the environments.
_OF_BATCHES = ("seed", "num_workers", "render_mode", "max_random_steps")


class CallCost(NamedTuple):
    """The time of calls of `step` or `reset`, in microseconds."""

    median: float
    p95: float  # the 95 % quantile
    largest: float


@dataclasses.dataclass
class EnvReport:
    """The findings of `check`. `str(report)` is a text for people.

    Attributes:
        problems: list of texts; each problem prevents correct training.
        hints: list of texts, settings to consider for an environment that works.
        cost: dict from "step" and "reset" to `CallCost`, if there were such calls.
        num_steps: int, how many random steps were checked.
        num_episodes: int, how many episodes ended in these steps.
        num_workers: int, a good number of worker processes for a batch; "auto" for an id with its own vector
            environment; None if there was no step.
        num_workers_reason: text.
    """

    problems: list = dataclasses.field(default_factory=list)
    hints: list = dataclasses.field(default_factory=list)
    cost: dict = dataclasses.field(default_factory=dict)
    num_steps: int = 0
    num_episodes: int = 0
    num_workers: int | str | None = None
    num_workers_reason: str = ""

    def __str__(self):
        lines = [f"{self.num_steps} random steps, {self.num_episodes} episodes ended"]
        for name, texts in (("problems", self.problems), ("hints", self.hints)):
            lines.append(f"{name}:" if texts else f"{name}: none")
            lines += [f"  {text}" for text in texts]
        if self.cost:
            lines += ["cost in microseconds:", f"  {'':6}{'median':>12}{'95 %':>12}{'largest':>12}"]
            lines += [f"  {name:6}" + "".join(f"{x:12.1f}" for x in row) for name, row in self.cost.items()]
        if self.num_workers is not None:
            lines.append(
                f"alf.environments.load.num_workers = {self.num_workers!r}: {self.num_workers_reason}"
            )
        return "\n".join(lines)


@checked
def check(
    *what: FilePath | Callable[..., Any] | gymnasium.Env,
    num_steps: PositiveInt = 1000,
    max_seconds: PositiveFloat = 60.0,
    step_timeout: WorkerTimeout = 60.0,
    start_timeout: WorkerTimeout = 120.0,
    **settings: Any,
) -> EnvReport:
    """Steps an environment at random and returns its problems, hints and cost, as `alf check` does.

        report = alf.check("CartPole-v1", max_episode_steps=100)
        assert not report.problems

    The environment is the one that `alf.environments.load` would make. It steps in a worker process, or in a
    thread of this process if cloudpickle cannot pickle it. It takes `num_steps` steps, then the same steps
    again with the same seed, to compare the results. Gin's configuration is the same afterwards.

    Args:
        *what: the `name` of `load`: an id, "module:Class", "FILE.py:Class" or a callable that returns one
            environment. Or a `gymnasium.Env`, of which a copy is checked; or "FILE.gin", or "alf:TASK".
        num_steps: int, the largest number of steps.
        max_seconds: float, seconds after which it stops.
        step_timeout, start_timeout: floats, seconds that a step or reset, or the constructor, may take. If
            one takes longer, that is a problem, and the check ends.
        **settings: settings by short or full names: `max_episode_steps=100`. An argument of the constructor
            is one of `load`: `**{"load.size": 5}`.

    Raises:
        ConfigError: if a setting is wrong, or there is no such id.
    """
    named = find_what(*what)
    limits: dict[str, Any] = {"num_steps": num_steps, "max_seconds": max_seconds}
    limits |= {"step_timeout": step_timeout, "start_timeout": start_timeout}
    with own_config():
        parse_config(named.gin_files)
        bindings = find_bindings(None, None, None, settings)
        bind(bindings)
        with wrong_calls_are_config_errors():
            env, arguments = _read_arguments(named.env)
            report = check_env(env, **limits, **arguments)
        # After the check, in which the environment's constructor has read its bindings.
        check_dead_bindings([x for x in bindings if complete(x) not in _SIZES])
    return report


def _read_arguments(env):
    """Returns the name of an environment, and gin's other bindings of `load` as arguments of `check_env`.

    It is `env`, or gin's if that is None.
    """
    make_env = gin.get_bindings("Experiment").get("env", load)
    if make_env is not load and env is None:
        raise ConfigError(
            "Experiment.env is not alf.environments.load: alf check checks single environments, "
            "alf.testing.EnvironmentContract tests batched ones"
        )
    given = {} if env is None else {"name": env}
    # What gin would add to a call of `load`, without the call.
    bound = bind_arguments(functools.partial(load, **given)).keywords
    if "name" not in bound:
        raise ConfigError(
            'alf.environments.load.name is missing: write alf.environments.load.name = "CartPole-v1" in the '
            "gin file, or name the environment, too"
        )
    arguments = {key: x for key, x in bound.items() if key not in ("name", *_OF_BATCHES)}
    num_groups, num_envs = (find_argument(Experiment, name) for name in ("num_groups", "num_envs"))
    _, size = split_in_groups(load, num_groups, num_envs or None)
    return bound["name"], {**(size if num_envs else {}), **arguments}


@checked
def check_env(
    env: Any,
    num_steps: PositiveInt = 1000,
    batch_size: PositiveInt = 32,
    max_episode_steps: PositiveInt | None = None,
    info_keys: InfoKeys = (),
    seed: NonNegativeInt = 0,
    max_seconds: PositiveFloat = 60.0,
    step_timeout: WorkerTimeout = 60.0,
    start_timeout: WorkerTimeout = 120.0,
    **kwargs: Any,
) -> EnvReport:
    """Checks an environment without gin, see `check`.

    Args:
        env: as `what` of `check`, but no gin file.
        num_steps, max_seconds, step_timeout, start_timeout: as in `check`.
        batch_size: int, how many environments will step together, for `EnvReport.num_workers`.
        max_episode_steps, info_keys, **kwargs: passed to `load`.
        seed: int, the seed of the environment and of the actions.

    Raises:
        ConfigError: if a setting is wrong or there is no such id.
        TypeError: if the constructor does not accept an argument of `kwargs`.
    """
    info_keys = check_info_keys("load.info_keys", info_keys)
    is_made = isinstance(env, gymnasium.Env)
    # The callable holds the object, so cloudpickle sends a copy of it to the worker.
    name = (lambda: env) if is_made else env
    # Found in this process, so that a wrong name or setting is an error here and not a fault of the
    # environment.
    make = find_env_fn(name, max_episode_steps, info_keys, **kwargs)
    # Without restarts: the loss of the worker is what the check has found.
    settings = WorkerSettings(start_timeout=start_timeout, step_timeout=step_timeout, max_restarts=0)
    # The environment of a PettingZoo game reads the infos of its agents itself.
    keys = () if str(env).startswith("pettingzoo:") else info_keys
    make_inspector = functools.partial(Inspector, make, seed, keys)
    if can_pickle(make):
        stays = ""
        start: Any = functools.partial(WorkerPool, [make_inspector], [seed], 1, settings=settings)
    else:
        stays = "cloudpickle cannot pickle the environment"
        # An object that the caller made is not closed by the check.
        make_here = functools.partial(make_inspector, keeps=is_made)
        start = functools.partial(WatchedThread, functools.partial(EnvBatch, [make_here], [seed]), settings)
    report = EnvReport()
    seen = _inspect(start, report, num_steps, max_seconds, kwargs)
    if seen is not None and seen.step_seconds:
        _judge(report, seen, batch_size, stays, not is_made and has_vector_entry(env))
    return report


def _inspect(start, report, num_steps, max_seconds, given):
    """Adds problems to the `report`. Returns the `Inspected` environment, or None if it could not be stepped.

    `given` has the names of the constructor's arguments that come from settings.
    """
    try:
        watched = start()
    except WorkerError as loss:
        report.problems.append(f"constructor: {_without_restarts(loss)}")
        return None
    except Exception as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if isinstance(error, TypeError) and unknown and unknown[1] in given:
            raise  # the setting is wrong, not the environment
        text = error if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        report.problems.append(f"constructor: {' '.join(str(text).split())}")
        return None
    try:
        # Spaces first: what does not have sound ones cannot be stepped.
        report.problems += _call(watched, "check_spaces")
        # The steps, then the same steps again, each with half of the time.
        is_sound = not report.problems
        for repeats in (False, True) if is_sound else ():
            is_sound = is_sound and _walk(watched, report, num_steps, max_seconds / 2, repeats)
        seen = _call(watched, "inspected") if report.num_steps else None
        _end(watched, report)
        return seen
    except WorkerError as loss:
        report.problems.append(str(loss))
        return None
    finally:
        watched.close()


def _call(watched, name, *args):
    """Calls a method of the only environment; returns its result. Raises WorkerError if it is lost."""
    try:
        (result,) = watched.call(name, *args)
    except WorkerError as loss:
        raise WorkerError(_without_restarts(loss)) from None
    return result


def _without_restarts(loss):
    """Returns the text of a WorkerError without its end, which is about restarts."""
    return str(loss).partition(";")[0]


def _walk(watched, report, num_steps, max_seconds, repeats):
    """Resets and steps the environment. Returns False if it raised an exception, True otherwise.

    Raises:
        WorkerError: if the worker is lost.
    """
    _call(watched, "begin", repeats)
    next_call, deadline = "reset 1", time.monotonic() + max_seconds
    while time.monotonic() < deadline:
        try:
            # One call for each step or reset: after a hang or a crash it is known which one was the last.
            called = _call(watched, "advance")
        except WorkerError as loss:
            raise WorkerError(f"{next_call}: {loss}") from None
        report.problems += called.problems
        # After an exception the state of the environment is unknown: what follows would not be its fault.
        if called.is_broken:
            return False
        if not repeats:
            report.num_steps = called.num_steps
        if called.num_steps == num_steps or called.is_over:
            break
        next_call = called.next_call
    return True


def _end(watched, report):
    """Closes the environment and adds the problems of that to the `report`."""
    try:
        report.problems += [f"close: {problem}" for problem in _call(watched, "end")]
    except WorkerError as loss:
        report.problems.append(f"close: {loss}")


def _judge(report, seen, batch_size, stays, has_vector):
    """Adds cost, number of workers and hints to the `report`."""
    report.num_episodes = len(seen.episode_lengths)
    for name, seconds in (("step", seen.step_seconds), ("reset", seen.reset_seconds)):
        if seconds:
            micros = np.asarray(seconds) * 1e6
            numbers = np.median(micros), np.quantile(micros, 0.95), micros.max()
            report.cost[name] = CallCost(*map(float, numbers))
    # Not the mean, in which the first step, or one with a garbage collection, would count for many.
    step = report.cost["step"].median
    # The rule by which `PythonEnvironment` itself chooses.
    cpu = float(np.median(seen.step_cpu_seconds))
    report.num_workers = 0 if stays else find_num_workers(batch_size, step / 1e6, cpu)
    report.hints = find_hints(seen, batch_size, report.num_workers)
    message = f"a message to a worker {MESSAGE_SECONDS * 1e6:.0f}"
    reason = f"{batch_size} steps take {batch_size * step:.0f} microseconds, {message}"
    if report.num_workers and waits(step / 1e6, cpu):
        reason += f"; a step waits for {1 - cpu * 1e6 / step:.0%} of its time, so several workers do"
    elif report.num_workers:
        reason += f"; half of the {len(os.sched_getaffinity(0))} cores, for each of two batched environments"
    report.num_workers_reason = stays or reason
    if has_vector:
        report.num_workers = "auto"
        report.num_workers_reason = "the id has its own vector environment, which steps in this process"
