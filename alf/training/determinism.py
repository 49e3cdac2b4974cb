# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Determinism: the callback of a run that repeats bit for bit."""

import os
from typing import Any

from alf.callback import Callback
from alf.errors import ConfigError, EnvError
from alf.learner import Learner
from alf.replay import OneTimeReplayer
from alf.runs.digests import DIGESTS_FILE, compute_digest, is_noted
from alf.runs.progress_file import ProgressFile
from alf.training.stop_criteria import StopCriteria


class Determinism(Callback):
    """Refuses what cannot repeat, and writes digests of the weights (`alf.runs.digests`).

    Args:
        stop_criteria: `StopCriteria` of the run.
    """

    def __init__(self, stop_criteria: StopCriteria) -> None:
        self._stop_criteria = stop_criteria
        self._file: Any = None

    def on_check(self, trainer: Any) -> None:
        remedy = _find_remedy(trainer.driver, trainer.learner, trainer.checkpoints, self._stop_criteria)
        if remedy is not None:
            raise ConfigError(f"Experiment.deterministic is True: {remedy}")
        if not trainer.driver.reseed(0):
            raise ConfigError("Experiment.deterministic is True, but an environment has no seed()")

    def on_begin(self, trainer: Any) -> None:
        begins_at = trainer.counters["env_steps"] if trainer.restored else None
        self._file = ProgressFile(os.path.join(trainer.root_dir, DIGESTS_FILE), begins_at)

    def on_train_iter(self, trainer: Any, summary: dict[str, Any]) -> None:
        if trainer.driver.num_restarts:
            raise EnvError(
                "a worker process was replaced, so its environments began new episodes: start the run again; "
                "it continues from its last checkpoint, with the result that it would have had"
            )
        iterations, env_steps, seconds = trainer.position
        if is_noted(iterations):
            digest = compute_digest(trainer.learner.list_learned())
            self._file.write(env_steps, seconds, {"iterations": iterations, "digest": digest})


def _find_remedy(driver, learner, checkpoints, stop_criteria):
    """Returns a text that says which setting cannot repeat, and what it must be; None without one."""
    if not isinstance(learner, Learner):
        return "Experiment.policies must be None"
    if not driver.repeats:
        return "DriverSettings.mode must be 'lockstep' or 'overlap', and Experiment.num_collectors 0"
    if learner.peers.count > 1:
        return "Experiment.strategy must be None"
    if stop_criteria.max_seconds is not None:
        return "StopCriteria.max_seconds must be None, because the clock does not repeat"
    if stop_criteria.target_eval_return is not None:
        return "StopCriteria.target_eval_return must be None, because an evaluation may end at any time"
    if checkpoints.interval_steps is None:
        return (
            "Checkpoints.interval_steps must be set, such as 100_000: the environment steps between two "
            "checkpoints, where the environments begin new episodes"
        )
    is_buffer = hasattr(learner.replayer, "save")
    if is_buffer and not checkpoints.replay_buffer:
        return "Checkpoints.replay_buffer must be True, or a run that continues has no experience"
    if not is_buffer and type(learner.replayer) is not OneTimeReplayer:
        return f"exp_replayer must be 'one_time' or a replay buffer, not {learner.replayer.name!r}"
    return None
