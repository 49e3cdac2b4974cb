# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Callbacks that send a run's settings, figures and end to Weights & Biases or to MLflow.

Both services get the names of `progress.csv`. If a run continues, its run at the service continues, too.
"""

import contextlib
import os
import re
from collections.abc import Callable
from typing import Any, Literal

from absl import logging

from alf.callback import Callback
from alf.config.parsing import first_line
from alf.config.settings import Role, configurable
from alf.core.user_calls import user_call
from alf.errors import ConfigError, import_extra
from alf.training.summary_writer import read_hyperparameters

TrackerName = Literal["wandb", "mlflow"]
_FINISH_SECONDS = 60.0  # to send what is left at the end; it is also in the folder `wandb`


class _Continues:
    """Keeps in checkpoints the id that a service gave to the run."""

    _id: str | None = None

    def get_state(self) -> str | None:
        return self._id

    def set_state(self, state: str | None) -> None:
        self._id = state


@configurable("alf.training", role=Role.EXECUTION)
class WandbTracker(_Continues, Callback):
    """Tracks a run with Weights & Biases; with WANDB_MODE=offline only in the folder `wandb` of its root_dir.

    The x axis is `env_steps`.

    Args:
        project: the project to which the run belongs.
        name: name of the run; None for the last part of its root_dir.
    """

    def __init__(self, project: str = "alf", name: str | None = None) -> None:
        self._project, self._name = project, name
        self._wandb = import_extra("wandb", "wandb")
        self._run: Any = None

    def on_begin(self, trainer: Any) -> None:
        config = {
            **read_hyperparameters(trainer.operative_config),
            "operative_config": trainer.operative_config,
        }
        with _errors_are_config_errors("WandbTracker", self._wandb.Error):
            self._run = self._wandb.init(
                project=self._project,
                name=self._name or os.path.basename(trainer.root_dir),
                id=self._id,
                resume="allow",
                dir=trainer.root_dir,
                config=config,
                settings={"finish_timeout": _FINISH_SECONDS, "finish_timeout_raises": False},
            )
        self._id = self._run.id
        # Not wandb's own step, which cannot go back to the checkpoint of a run that continues.
        self._run.define_metric("*", step_metric="env_steps")

    def on_summary(self, trainer: Any, step: int, values: dict[str, Any]) -> None:
        with _errors_are_warnings("WandbTracker"):
            self._run.log({"env_steps": step, **_numbers_of(values)})

    def on_end(self, trainer: Any, reason: str) -> None:
        if self._run is not None:
            with _errors_are_warnings("WandbTracker"):
                self._run.summary["end"] = reason

    def on_close(self, trainer: Any) -> None:
        run, self._run = self._run, None
        if run is not None:
            with _errors_are_warnings("WandbTracker"):
                run.finish(exit_code=0 if trainer.finished else 1)


@configurable("alf.training", role=Role.EXECUTION)
class MlflowTracker(_Continues, Callback):
    """Tracks a run with MLflow; the environment variable MLFLOW_TRACKING_URI says where.

    Args:
        experiment: the experiment to which the run belongs.
        name: name of the run; None for the last part of its root_dir.
    """

    def __init__(self, experiment: str = "alf", name: str | None = None) -> None:
        self._experiment, self._name = experiment, name
        self._mlflow = import_extra("mlflow", "mlflow")
        self._is_open = False

    def on_begin(self, trainer: Any) -> None:
        with _errors_are_config_errors("MlflowTracker", self._mlflow.MlflowException):
            if self._id is None:
                self._mlflow.set_experiment(self._experiment)
            name = self._name or os.path.basename(trainer.root_dir)
            run = self._mlflow.start_run(self._id, run_name=name)
            self._is_open = True
            if self._id is None:  # MLflow refuses other values later
                self._mlflow.log_params(read_hyperparameters(trainer.operative_config))
            self._mlflow.log_text(trainer.operative_config, "operative_config.gin")
        self._id = run.info.run_id

    def on_summary(self, trainer: Any, step: int, values: dict[str, Any]) -> None:
        metrics = {re.sub(r"[^\w\-. :/]", "_", name): x for name, x in _numbers_of(values).items()}
        with _errors_are_warnings("MlflowTracker"):
            # By MLflow's own thread: a server that does not answer must not stop the training thread.
            self._mlflow.log_metrics(metrics, step, synchronous=False)

    def on_end(self, trainer: Any, reason: str) -> None:
        if self._is_open:
            with _errors_are_warnings("MlflowTracker"):
                self._mlflow.set_tag("end", reason)

    def on_close(self, trainer: Any) -> None:
        is_open, self._is_open = self._is_open, False
        if is_open:
            with _errors_are_warnings("MlflowTracker"):
                self._mlflow.end_run({True: "FINISHED", False: "KILLED", None: "FAILED"}[trainer.finished])


def make_tracker(tracker: TrackerName | Callable[[], Callback]) -> Callback:
    """Makes the `Callback` that `Summaries.track` names, or that it makes."""
    named: dict[str, type[Callback]] = {"wandb": WandbTracker, "mlflow": MlflowTracker}
    return named[tracker]() if isinstance(tracker, str) else tracker()


def _numbers_of(values):
    return {name: float(x) for name, x in values.items() if not isinstance(x, str)}


@contextlib.contextmanager
def _errors_are_config_errors(name, kind):
    """Context at the beginning of a run: an error of the class `kind`, as of a missing key, ends the run."""
    try:
        with user_call(f"a call of {name}"):
            yield
    except kind as error:
        raise ConfigError(f"{name}: {first_line(error)}") from error


@contextlib.contextmanager
def _errors_are_warnings(name):
    """Context in which a tracker that fails does not end the run; one that hangs is named."""
    try:
        with user_call(f"a call of {name}"):
            yield
    except Exception as error:
        logging.warning("%s: %s", name, first_line(error))
