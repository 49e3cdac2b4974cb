# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""check_env: what is wrong with an environment, what to set for it, and what it costs."""

import dataclasses
import functools
import os
import re
import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.settings import checked
from alf.environments.arguments import InfoKeys, WorkerTimeout
from alf.environments.load import find_env_fn, has_vector_entry
from alf.environments.python_env import MESSAGE_SECONDS, find_num_workers
from alf.errors import ConfigError
from alf.tools.env_hints import find_hints
from alf.workers import WorkerError, WorkerPool, WorkerSettings, can_pickle
from alf.workers.info import check_info_keys
from alf.workers.inspector import Inspector
from alf.workers.watched_thread import WatchedThread


class CallCost(NamedTuple):
    """What calls of `step`, or of `reset`, take in microseconds: median, 95 % quantile and largest."""

    median: float
    p95: float
    largest: float


@dataclasses.dataclass
class EnvReport:
    """What `check_env` has found. `str(report)` is a text for people.

    Attributes:
        problems: list of texts; an environment with any of them cannot be trained on as it should.
        hints: list of texts that say what to set for an environment that works.
        cost: dict from "step" and "reset" to `CallCost`; without those that never gave a result.
        num_steps: int, different random steps that were checked.
        num_episodes: int, episodes that ended in them.
        num_workers: int, worker processes that serve a batch; "auto" for an id that has its own vector
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
    """Steps an environment at random, in a worker process, and returns an `EnvReport`.

    It takes `num_steps` steps, and then the same ones again from the same seed, to compare the results. An
    environment that cloudpickle cannot pickle steps in a thread of this process: a crash is not caught there.

    Args:
        env: what `alf.environments.load` takes as its name: an id, "pettingzoo:MODULE:FUNCTION" among them,
            or a callable that returns one environment. Or a `gymnasium.Env`, of which a copy is checked.
        num_steps: int, at most this many.
        batch_size: int, environments that are to step together, for `EnvReport.num_workers`.
        max_episode_steps, info_keys, **kwargs: as in `load`.
        seed: int, of the environment and of the actions.
        max_seconds: float, seconds after which no more steps are taken.
        step_timeout, start_timeout: float, seconds that one step or reset, or the constructor, may take. One
            that takes longer is a problem, and the last one.

    Raises:
        ConfigError: if a setting is wrong, or there is no such id.
        TypeError: if the constructor does not know `max_episode_steps`, or an argument of `kwargs`.
    """
    info_keys = check_info_keys("load.info_keys", info_keys)
    is_made = isinstance(env, gymnasium.Env)
    name = (lambda: env) if is_made else env
    make, lost = find_env_fn(name, max_episode_steps, info_keys, **kwargs)
    settings = WorkerSettings(start_timeout=start_timeout, step_timeout=step_timeout, max_restarts=0)
    make_inspector = functools.partial(Inspector, make, seed, () if _is_game(env) else info_keys)
    if lost is None and can_pickle(make):
        stays = ""
        start: Any = functools.partial(WorkerPool, [make_inspector], [seed], 1, settings=settings)
    else:
        stays = f"a worker would lose {lost}" if lost else "cloudpickle cannot pickle the environment"
        start = functools.partial(WatchedThread, functools.partial(make_inspector, keeps=is_made), settings)
    report = EnvReport()
    given = {"max_episode_steps", *kwargs}
    seen = _inspect(start, report, num_steps, max_seconds, given)
    if seen is not None and seen.step_seconds:
        _judge(report, seen, batch_size, stays, not is_made and has_vector_entry(env))
    return report


def _is_game(env):
    return str(env).startswith("pettingzoo:")  # It reads the infos of its agents itself.


def _inspect(start, report, num_steps, max_seconds, given):
    """Adds to the `report` what is wrong; returns what was seen, `Inspected`, or None.

    `given` are the names of the constructor's arguments that are settings.
    """
    try:
        watched = start()
    except WorkerError as loss:
        report.problems.append(f"constructor: {str(loss).partition(';')[0]}")  # no word about restarts
        return None
    except Exception as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if isinstance(error, TypeError) and unknown and unknown[1] in given:
            raise  # not the environment is wrong, but a setting
        text = error if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        report.problems.append(f"constructor: {' '.join(str(text).split())}")
        return None
    try:
        report.problems += watched.call("check_spaces")
        is_sound = not report.problems
        for repeats in (False, True) if is_sound else ():
            is_sound = is_sound and _walk(watched, report, num_steps, max_seconds / 2, repeats)
        seen = watched.call("inspected") if report.num_steps else None
        _end(watched, report)
        return seen
    except WorkerError as loss:
        report.problems.append(str(loss))
        return None
    finally:
        watched.close()


def _walk(watched, report, num_steps, max_seconds, repeats):
    """Resets and steps the environment; returns whether it could go on. Raises WorkerError if it is lost."""
    watched.call("begin", repeats)
    next_call, deadline = "reset 1", time.monotonic() + max_seconds
    while time.monotonic() < deadline:
        try:
            progress = watched.call("advance")
        except WorkerError as loss:
            raise WorkerError(f"{next_call}: {loss}") from None
        report.problems += progress.problems
        if progress.is_broken:
            return False
        if not repeats:
            report.num_steps = progress.num_steps
        if progress.num_steps == num_steps or progress.is_over:
            break
        next_call = progress.next_call
    return True


def _end(watched, report):
    """Closes the environment; adds to the `report` what is wrong with that."""
    try:
        report.problems += [f"close: {problem}" for problem in watched.call("end")]
    except WorkerError as loss:
        report.problems.append(f"close: {loss}")


def _judge(report, seen, batch_size, stays, has_vector):
    """Adds to the `report` what follows from what was seen."""
    report.num_episodes = len(seen.episode_lengths)
    times = {"step": seen.step_seconds, "reset": seen.reset_seconds}
    report.cost = {name: _cost_of(seconds) for name, seconds in times.items() if seconds}
    step = report.cost["step"].median
    report.num_workers = 0 if stays else find_num_workers(batch_size, step / 1e6)
    report.hints = find_hints(seen, batch_size, report.num_workers)
    message = f"a message to a worker {MESSAGE_SECONDS * 1e6:.0f}"
    reason = f"{batch_size} steps take {batch_size * step:.0f} microseconds, {message}"
    if report.num_workers:
        reason += f"; half of the {len(os.sched_getaffinity(0))} cores, for each of two batched environments"
    report.num_workers_reason = stays or reason
    if has_vector:
        report.num_workers = "auto"
        report.num_workers_reason = "the id has its own vector environment, which steps in this process"


def _cost_of(seconds):
    micros = np.asarray(seconds) * 1e6
    return CallCost(float(np.median(micros)), float(np.quantile(micros, 0.95)), float(micros.max()))
