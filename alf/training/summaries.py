# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Summaries: the callback that writes TensorBoard's files and `progress.csv`.

docs/metrics.md has all names.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from alf.callback import Callback, check_takes
from alf.config.kinds import NonNegativeFloat, show
from alf.config.settings import Role, configurable
from alf.core.user_calls import user_call
from alf.drivers.metrics import read_number
from alf.training.machine import MachineMeter
from alf.training.profile import Iterations, Profile
from alf.training.progress import count_policy_steps
from alf.training.stages import StageMeter
from alf.training.summary_writer import SummaryWriter, write_histogram
from alf.training.trackers import TrackerName, make_tracker


@configurable("alf.training", role=Role.EXECUTION)
class Summaries(Callback):
    """Writes summaries from time to time and at the end of a run.

    Args:
        interval: seconds between two summaries.
        custom: callable (trainer) that the training thread calls at each summary, or None. It may write to
            TensorBoard with `tf.summary.scalar`, `tf.summary.histogram` and so on. An error that it raises
            ends the run, but OSError and errors of TensorFlow become a warning that names them. If it has an
            argument `rollout`, it also gets the last experience that the learner has observed,
            `Learner.rollout`; with several policies a dict of these by name.
        track: "wandb" or "mlflow", which gets the same figures (`WandbTracker`, `MlflowTracker`), or a
            callable () -> `Callback`; None: none.
        profile: "FROM:TO", train iterations of which TensorFlow's profiler writes a trace for TensorBoard's
            tab Profile, both included and counted from 1; None: none.

    Attributes:
        writer: `SummaryWriter`; None before the run begins.
        stages: `StageMeter` of the driver's threads.
    """

    def __init__(
        self,
        interval: NonNegativeFloat = 2.0,
        custom: Callable[..., None] | None = None,
        track: TrackerName | Callable[[], Callback] | None = None,
        profile: Iterations | None = None,
    ) -> None:
        self._interval, self._custom = interval, custom
        self._tracker = None if track is None else make_tracker(track)
        self._profile = None if profile is None else Profile(profile)
        self._takes_rollout = custom is not None and "rollout" in inspect.signature(custom).parameters
        if custom is not None:
            rollout = {"rollout": None} if self._takes_rollout else {}
            remedy = "it gets the trainer, and the rollout if it has an argument of this name"
            check_takes(f"Summaries.custom: {show(custom)}", custom, 1, remedy, **rollout)
        self.writer: Any = None
        self.stages: Any = None
        self._machine: Any = None
        self._summary: dict[str, Any] = {}  # of the last updates
        self._longest_step = 0.0
        self._written_at = self._written_iteration = None  # time and iteration of the last summary

    def on_begin(self, trainer: Any) -> None:
        # Here, because it measures from its construction on, and the start of a run may take minutes.
        self._machine = MachineMeter()
        env_steps = trainer.counters["env_steps"] if trainer.restored else None
        self.writer = SummaryWriter(trainer.summary_path, env_steps)
        self.writer.describe(trainer.summary_step, trainer.operative_config)
        self._written_at, self._written_iteration = trainer.now, trainer.counters["iterations"]

    def on_check(self, trainer: Any) -> None:
        if self._tracker is not None:
            # As one of the user's, which also learn how a run failed, and whose state is saved.
            trainer.add_callback(self._tracker)
        if self._takes_rollout:
            trainer.learner.keep_rollout()
        # The last summary may come soon after the one before.
        shortest, progress = 0.5 * self._interval, trainer.learner.progress
        # Not in `on_begin`: `Progress` has its turn before and shows these stages.
        self.stages = StageMeter(trainer.driver.clocks, lambda: int(progress.updates), shortest)

    def on_train_iter(self, trainer: Any, summary: dict[str, Any]) -> None:
        self._summary = summary or self._summary  # the last one, if no update was made
        if self._profile is not None:
            self._profile.end(trainer.position.num_iterations)

    def on_iter_begin(self, trainer: Any) -> None:
        # Here, because this is not called after the last iteration: `on_end` writes the last values.
        is_due = trainer.now - self._written_at >= self._interval
        if is_due and trainer.position.num_iterations != self._written_iteration:
            self._write(trainer)
        if self._profile is not None:
            self._profile.begin(trainer.summary_path, trainer.position.num_iterations)

    def on_end(self, trainer: Any, reason: str) -> None:
        if self._profile is not None:
            self._profile.warn_of_none(trainer.position.num_iterations)
        if trainer.counters["iterations"] != self._written_iteration:
            self._write(trainer)

    def on_close(self, trainer: Any) -> None:
        if self._profile is not None:
            self._profile.close()
        if self.writer is not None:
            self.writer.close()

    def show(self, trainer: Any, step: int, env_steps: int, values: dict[str, Any]) -> None:
        """Writes values to TensorBoard and `progress.csv`, and gives them to all callbacks.

        Args:
            trainer: the `Trainer`.
            step, env_steps, values: the arguments of `SummaryWriter.write`.
        """
        self.writer.write(step, env_steps, trainer.position.max_seconds, values)
        trainer.call_back("on_summary", step, values)

    def measure(self, trainer: Any) -> dict[str, Any]:
        """Returns the values to show, a dict by name of scalars and one text."""
        values = {f"metrics/{name}": read_number(metric) for name, metric in trainer.metrics.items()}
        # Averages over episodes are NaN until the first episode has ended.
        values = {name: value for name, value in values.items() if not math.isnan(value)}
        values |= {f"train/{name}": value for name, value in self._summary.items()}
        progress = trainer.progress
        policies = {f"{name}/": both for name, both in progress.policies.items()}
        for name, both in {"": (progress.trained, progress.collected), **policies}.items():
            for kind, steps in zip(("", "collected_"), both, strict=True):
                prefix, rates = f"throughput/{name}{kind}steps_per_second_", steps.rates().items()
                values |= {f"{prefix}{window}": rate for window, rate in rates}
        values |= self.stages.measure(trainer.collects)
        # As with the stages, the last figure stays if no step has ended.
        self._longest_step = trainer.driver.clocks.take_longest_step() or self._longest_step
        if trainer.collects and self._longest_step:
            values["time/environments/longest_step"] = self._longest_step
        values |= self._machine.measure()
        values |= {f"queues/{name}": size for name, size in trainer.driver.queue_sizes().items()}
        values |= {f"replay/{name}": n for name, n in trainer.learner.replay_counts().items()}
        steps = count_policy_steps(trainer.learner)
        values |= {f"train/{name}/env_steps": count for name, count in steps.items()}
        if trainer.driver.num_broadcasts:
            values["train/weight_broadcasts"] = trainer.driver.num_broadcasts
        values["environments/worker_restarts"] = trainer.driver.num_restarts
        values["train/iterations"] = trainer.counters["iterations"]
        return values

    def _write(self, trainer):
        self._written_at, self._written_iteration = trainer.now, trainer.counters["iterations"]
        step = trainer.summary_step
        self.show(trainer, step, trainer.position.num_env_steps, self.measure(trainer))
        for name, values in trainer.learner.histograms().items():
            self.writer.show(step, functools.partial(write_histogram, name, values))
        if self._custom is not None:
            rollout = {"rollout": trainer.learner.rollout} if self._takes_rollout else {}
            with user_call("Summaries.custom"):
                write = functools.partial(self._custom, trainer, **rollout)
                self.writer.show(step, write, source="Summaries.custom")
