# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures how fast a driver collects experience and how fast a learner learns from it."""

import contextlib
import time
from typing import NamedTuple

from alf.data_structures import count_transitions
from alf.drivers import OfflineDriver
from alf.drivers.stage_clock import STORE, TRAIN
from alf.errors import ConfigError
from alf.training.machine import cpu_seconds
from alf.training.progress_bar import ProgressBar, Throughput
from alf.training.run_report import EpisodeFigures
from alf.training.stages import StageMeter
from alf.training.stop_criteria import Position, StopCriteria

_WARM_UP = 0.2  # the length of the warm-up, as a fraction of the measured time
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


def benchmark(driver, learner, seconds, sample_only=False):
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
        with contextlib.closing(_Display(driver, learner, seconds)) as display:

            def learn():
                steps, display.summary = collect_and_train(driver, learner)
                return steps

            while not display.summary:  # until the first update, which traces the learner's graph
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
    return sum(int(count_transitions(experience.step_type)) for experience in driver.collect())


def collect_and_train(driver, learner):
    """Makes one train iteration. Returns the environment steps that it learned from, and the summary."""
    before = int(learner.progress.env_steps)
    for experience in driver.collect():
        learner.observe(experience)
        driver.clocks.learner.lap(STORE)
    summary = learner.train()
    driver.clocks.learner.lap(TRAIN)
    return int(learner.progress.env_steps) - before, summary


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
