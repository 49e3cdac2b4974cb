# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Checkpoints: the callback that saves a run."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal

from absl import logging

from alf.callback import Callback
from alf.config.kinds import NonNegativeFloat, PositiveInt
from alf.config.settings import Role, configurable
from alf.errors import DivergedError, InterruptedDriverError, SaveError, describe_error
from alf.runs.checkpointer import Checkpointer, LoopCounts

_FIRST_SECONDS = 10.0  # until the first checkpoint of a new run


@configurable("alf.training", role=Role.EXECUTION)
class Checkpoints(Callback):
    """Saves a run from time to time and at its end. A continued run starts from the newest checkpoint.

    Args:
        interval: seconds between two checkpoints. The first one comes after 10 seconds at the latest.
        interval_steps: environment steps learned from between two checkpoints, in place of `interval`. A run
            with `Experiment.deterministic` needs it.
        max_to_keep: checkpoints kept.
        replay_buffer: True, False or "compressed": whether a checkpoint holds the replay buffer, in a
            separate file that is written while training goes on. "compressed" makes the file smaller, 13 to
            60 times with the images of Atari games. That takes 2 s of a core for each GB of images. Floats
            are not compressed.

    Attributes:
        interval_steps: the argument.
        checkpointer: `Checkpointer`; None before `open`.
    """

    def __init__(
        self,
        interval: NonNegativeFloat = 300.0,
        max_to_keep: PositiveInt = 3,
        replay_buffer: bool | Literal["compressed"] = False,
        interval_steps: PositiveInt | None = None,
    ) -> None:
        self._interval, self._max_to_keep = interval, max_to_keep
        self.replay_buffer, self.interval_steps = replay_buffer, interval_steps
        self.checkpointer: Any = None
        self._saved_at: Any = None  # time of the training loop
        self._is_due, self._env_steps = False, 0

    def open(self, folder: str, driver: Any, learner: Any, counts: LoopCounts) -> str | None:
        """Restores the newest checkpoint in a folder; returns its path, or None without checkpoints."""
        self.checkpointer = Checkpointer(
            folder, driver, learner, counts, self.replay_buffer, self._max_to_keep
        )
        return self.checkpointer.restore()

    def save(self, trainer: Any, is_last: bool = False) -> str:
        """Writes a checkpoint and returns its path.

        In a run with `Experiment.deterministic` the environments begin new episodes, as they do in a run that
        continues from this checkpoint.
        """
        if trainer.driver.deterministic and not is_last:
            # Before the save: what the driver drops here does not count.
            trainer.driver.reseed(trainer.counters["iterations"])
        return self.checkpointer.save(is_last)

    def on_begin(self, trainer: Any) -> None:
        self._saved_at = trainer.now

    def on_iter_begin(self, trainer: Any) -> None:
        self._env_steps = trainer.position.num_env_steps
        # A run that is killed soon must not begin anew.
        interval = self._interval if self.checkpointer.newest else min(self._interval, _FIRST_SECONDS)
        # Before the iteration, because the first one takes long: it compiles.
        self._is_due = trainer.now - self._saved_at >= interval
        if self._is_due:
            self._saved_at = trainer.now

    def on_train_iter(self, trainer: Any, summary: dict[str, Any]) -> None:
        size = self.interval_steps
        if size is not None:
            # Of all runs in the directory: a run that continues saves where it would have saved without.
            self._is_due = trainer.position.num_env_steps // size > self._env_steps // size
        if not self._is_due:
            return
        with trainer.driver.clocks.learner.stage("checkpoints"):
            try:
                # After the update: counters, weights and replay buffer are of the same iteration then.
                trainer.save()
            except SaveError as error:  # of a full disk, for example; a later save may succeed
                logging.error("%s", error)

    def on_end(self, trainer: Any, reason: str) -> None:
        if trainer.driver.deterministic and not trainer.finished:
            # A run without this stop begins no episodes here.
            logging.info("the run continues from its last checkpoint, and repeats the steps since then")
            return
        with trainer.driver.clocks.learner.stage("checkpoints"):
            # A SaveError ends this run with an error: there is no later save that may succeed.
            trainer.save(is_last=True)

    @contextlib.contextmanager
    def saving_after_error(self, trainer: Any) -> Iterator[None]:
        """Context of a train iteration, and of the end of a run: saves after an error, if weights are finite.

        Also after an error of an update: it is counted, and the weights changed, only if it was made.
        """
        try:
            yield
        except BaseException as error:  # such as sys.exit() in a callback, or a second Ctrl-C
            # After `Trainer.interrupt` the run ends as it should, and saves then.
            ends = trainer.is_interrupted and isinstance(error, InterruptedDriverError)
            if self._is_worth(trainer) and not (ends or isinstance(error, DivergedError)):
                try:
                    trainer.save(is_last=True)
                    self.checkpointer.wait_for_replay_buffer()  # or the process might end before
                except Exception as failure:  # the first error matters more
                    logging.error("%s", describe_error(failure))
            raise

    def save_beside(self, trainer: Any) -> str | None:
        """Saves while the training thread hangs in a call of user code; returns the path, None without one.

        It calls no callback, which may be the one that hangs: their states are those of the last checkpoint.
        """
        if not self._is_worth(trainer):
            return None
        return self.checkpointer.save(is_last=True, asks_callbacks=False)

    def _is_worth(self, trainer):
        """Whether there is something to save before an end that is no end of an iteration."""
        # Before the first update there is nothing to lose, and a run without checkpoints may begin again with
        # other settings. Several learner processes end at different iterations.
        learner = trainer.learner
        is_alone = int(learner.progress.updates) > 0 and learner.peers.count == 1
        return is_alone and not trainer.driver.deterministic  # as in `on_end`
