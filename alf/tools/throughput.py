# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures how fast a driver collects experience and how fast a learner learns from it."""

import contextlib
import os
import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import tensorflow as tf
from absl import logging

from alf.algorithms import AlgorithmName
from alf.config.kinds import AtLeast, PositiveInt
from alf.config.parsing import check_dead_bindings, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.config.settings import checked
from alf.core.annotations import FilePath
from alf.data_structures import count_transitions
from alf.drivers import OfflineDriver
from alf.drivers.stage_clock import STORE, TRAIN
from alf.errors import ConfigError, argument, rendered_shortly
from alf.runs.presets import make_parts, read_what
from alf.runs.saved_run import SavedRun
from alf.runs.what import find_what
from alf.training.machine import cpu_seconds
from alf.training.progress_bar import ProgressBar, Throughput
from alf.training.run_report import EpisodeFigures
from alf.training.stages import StageMeter
from alf.training.stop_criteria import Position, StopCriteria
from alf.version import __version__

_WARM_UP = 0.2  # the length of the warm-up, as a fraction of the measured time
_MOST_UNTIL_COMPILED = 20.0  # seconds of a wait for the updates that XLA compiles: some runs make few
_STAGES_SECONDS = 2.0  # seconds between two updates of the bottleneck in the display


class Speed(NamedTuple):
    """A measured amount of work and its time.

    Attributes:
        env_steps, updates: ints.
        seconds: float, wall time.
        cpu_seconds: float, CPU time of all threads and of the worker processes.
    """

    env_steps: int
    updates: int
    seconds: float
    cpu_seconds: float

    def describe(self):
        """Returns a dict of numbers to show."""
        return {
            "env_steps": self.env_steps,
            "seconds": self.seconds,
            "env_steps_per_second": self.env_steps / self.seconds,
            "updates_per_second": self.updates / self.seconds,
            "cpu_cores_used": self.cpu_seconds / self.seconds,
        }


@checked
@rendered_shortly()
def benchmark(
    *what: FilePath | Callable[..., Any],
    algorithm: AlgorithmName | Callable[..., Any] | None = None,
    steps: PositiveInt | None = None,
    measure_seconds: Annotated[float, AtLeast(0.1)] = 20.0,
    sample_only: bool = False,
    checkpoint: str | int | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Measures the speed of a run, as `alf benchmark` does: first the environments and actors, then training.

        alf.benchmark("CartPole-v1", algorithm="ppo", num_envs=64)["training"]["env_steps_per_second"]

    Nothing is written. Gin's configuration is the same afterwards.

    Args:
        *what, algorithm, steps, **settings: what to train, as for `alf.train`; beside an environment there
            may be "FILE.gin".
        measure_seconds: float, seconds of each of the two measurements, at least 0.1.
        sample_only: bool, whether to leave out training.
        checkpoint: "newest", "best", a train iteration, or a path, for the policy of a run; None: "newest".

    Returns:
        dict of numbers and texts. "sampling" and "training" (None with `sample_only`) have
        "env_steps_per_second", "updates_per_second", "cpu_cores_used", "bottleneck" and others.

    Raises:
        ConfigError: if a setting is wrong.
    """
    named = find_what(*what)
    if named.run is None and checkpoint is not None:
        name = argument("checkpoint")
        raise ConfigError(f"{name} is {checkpoint!r}: it needs the folder of the run that has it")
    saved = SavedRun(named.run) if named.run else None
    with contextlib.ExitStack() as stack:
        with own_config(), wrong_calls_are_config_errors():
            bindings = read_what(named, algorithm, steps, settings)
            if saved is not None:
                saved.check_modules()
            driver, learner = make_parts()
            stack.callback(driver.stop)
            check_dead_bindings(bindings)
        source: dict[str, Any] = {
            "what": [str(x) for x in what],
            "settings": [f"{name} = {value!r}" for name, value in bindings.items()],
        }
        if saved is not None:
            source["checkpoint"] = saved.restore(learner.policy, checkpoint or "newest")
        result = measure_parts(driver, learner, measure_seconds, sample_only)
        stack.pop_all()
    try:
        driver.stop()
    except Exception:  # the measurement is not lost
        logging.exception("the environments could not be closed")
    versions = {"cores": os.cpu_count(), "alf": __version__, "tensorflow": tf.__version__}
    return {**source, **result, **versions}


def measure_parts(driver, learner, seconds, sample_only=False):
    """Measures sampling without learning, then training. Shows the progress like a run.

    Graphs that run for the first time, and a warm-up, are not measured.

    Args:
        driver: `Driver`, not started; the caller stops it.
        learner: `Learner` or `LearnerGroup`.
        seconds: float, the length of each of the two measurements.
        sample_only: bool, whether to leave out training.

    Returns:
        dict. "sampling" and "training" are results of `Speed.describe`, with the "bottleneck" and the
        "time_share" of a `StageMeter`; "training" is None with `sample_only`. "num_episodes" and
        "average_return" are about all episodes that ended.
    """
    if isinstance(driver, OfflineDriver):
        raise ConfigError("Experiment.num_envs is 0: there is no environment whose speed could be measured")

    learner.synchronize()
    driver.start()
    training = None
    # Environments and actors alone: the batches are taken from the queue, and nobody learns from them.
    with contextlib.closing(_Display(driver, learner, seconds)) as display:
        while not sample(driver):  # the first call traces the graphs; steps of it are not comparable
            pass
        measure(learner, lambda: sample(driver), _WARM_UP * seconds)
        sampling = _measure_stages(driver, learner, lambda: sample(driver), seconds, display)
    if not sample_only:
        # Another display, because its rates begin anew.
        iterate = TrainIteration(driver, learner)
        with contextlib.closing(_Display(driver, learner, seconds)) as display:

            def learn():
                steps, display.summary = iterate()
                return steps

            # Until the first update, which traces the graph, and until XLA has compiled the updates.
            deadline = time.monotonic() + _MOST_UNTIL_COMPILED
            while not display.summary or (learner.compiles_later and time.monotonic() < deadline):
                learn()
            measure(learner, learn, _WARM_UP * seconds)
            training = _measure_stages(driver, learner, learn, seconds, display)
    metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    average = metrics["AverageReturn"]
    return {
        "sampling": sampling,
        "training": training,
        "num_episodes": metrics["NumberOfEpisodes"],
        "average_return": None if average != average else average,  # JSON has no NaN
    }


def sample(driver):
    """Drops what one call of `Driver.collect` gives; returns the number of environment steps in it."""
    return sum(count_transitions(experience.step_type.numpy()) for experience in driver.collect())


class TrainIteration:
    """Makes train iterations as a run does, without callbacks and files.

    Args:
        driver: `Driver` that runs.
        learner: `Learner` or `LearnerGroup`.
    """

    def __init__(self, driver, learner):
        self._driver, self._learner = driver, learner
        self._env_steps = self._count_env_steps()

    def __call__(self):
        """Makes one train iteration. Returns the environment steps that it learned from, and the summary."""
        clock = self._driver.clocks.learner
        for experience in self._driver.collect():
            self._learner.observe(experience)
            clock.lap(STORE)
        summary = self._learner.train()
        clock.lap(TRAIN)
        # One read for each iteration, as in a run: it takes 1 % of the iterations of small networks.
        before, self._env_steps = self._env_steps, self._count_env_steps()
        return self._env_steps - before, summary

    def _count_env_steps(self):
        return int(self._learner.progress.env_steps)


def measure(learner, iterate, seconds, show=None):
    """Calls a function again and again, and measures the `Speed`.

    Args:
        learner: `Learner`, whose updates are counted.
        iterate: callable () -> int, environment steps.
        seconds: float, how long.
        show: callable (steps, seconds), called after each call with its steps and the time so far; or None.
    """
    # The CPU time is the whole process's, with its worker processes, because threads share the work.
    updates, cpu, start = int(learner.progress.updates), cpu_seconds(), time.perf_counter()
    total = passed = 0
    while passed < seconds:
        steps = iterate()
        total += steps
        passed = time.perf_counter() - start
        if show is not None:
            show(steps, passed)
    return Speed(total, int(learner.progress.updates) - updates, passed, cpu_seconds() - cpu)


def _measure_stages(driver, learner, iterate, seconds, display):
    """Measures speed and stages. Returns a dict of numbers to show."""
    stages = _make_stage_meter(driver, learner)
    speed = measure(learner, iterate, seconds, display.show)
    stages.measure()
    return {**speed.describe(), "bottleneck": stages.bottleneck, "time_share": stages.shares}


def _make_stage_meter(driver, learner):
    return StageMeter(driver.clocks, lambda: int(learner.progress.updates))


class _Display:
    """Shows the progress of a measurement like the progress of a run.

    Attributes:
        summary: dict, the last summary of the learner, or None.
    """

    def __init__(self, driver, learner, seconds):
        self._driver = driver
        metrics = {metric.name: metric for metric in driver.get_metrics()}
        self._throughput, self._collected, self._steps, self.summary = Throughput(), Throughput(), 0, None
        self._env_steps = metrics["EnvironmentSteps"]
        # The first call adds nothing: steps from before this measurement do not count.
        self._collected.count_up_to(self._env_steps.result())
        self._stages, self._measured = _make_stage_meter(driver, learner), 0.0
        criteria, episodes = StopCriteria(max_seconds=seconds), EpisodeFigures(metrics)
        self._bar = ProgressBar(self._throughput, self._collected, criteria, episodes, self._stages)

    def show(self, steps, seconds):
        self._throughput.add(steps)
        self._collected.count_up_to(self._env_steps.result())
        self._steps += steps
        if seconds - self._measured >= _STAGES_SECONDS:
            self._stages.measure()
            self._measured = seconds
        self._bar.update(Position(0, self._steps, seconds), self.summary)

    def close(self):
        self._bar.close()
