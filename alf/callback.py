# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Callback: the user's code that runs at moments of a training run."""

from typing import Any

from absl import logging

from alf.config.settings import Role


class Callback:
    """Is called at moments of a training run; a subclass overrides the methods that it needs.

    All calls come from the thread that trains, which waits meanwhile. `Trainer.stop` ends the run well. An
    error that a method raises ends the run as any other error does. See `Trainer` for the attributes of
    `trainer`.

    In gin: `Trainer.callbacks = (@MyCallback(),)`, where MyCallback is decorated with `@gin.configurable`.
    """

    # Settings of callbacks are like `Trainer.callbacks`: a run may go on with others.
    settings_role = Role.ADJUSTABLE

    def on_check(self, trainer: Any) -> None:
        """Before anything is written or restored; ConfigError if the run has not what the callback needs."""

    def on_begin(self, trainer: Any) -> None:
        """Before the first train iteration; what a checkpoint has is restored."""

    def on_iter_begin(self, trainer: Any) -> None:
        """Before each train iteration, once it is sure that the run goes on."""

    def on_train_iter(self, trainer: Any, summary: dict[str, Any]) -> None:
        """After each train iteration.

        `summary` is what `Learner.train` returned: a dict of float32 scalars, empty if no update was due.
        """

    def on_evaluation(self, trainer: Any, evaluation: Any) -> None:
        """After each evaluation, with its `alf.evaluation.evaluator.Evaluation`."""

    def on_checkpoint(self, trainer: Any, path: str) -> None:
        """After each checkpoint, with its path, which ends in "ckpt-N"."""

    def on_end(self, trainer: Any, reason: str) -> None:
        """Once, at the end of `Trainer.train`, after the last checkpoint.

        `reason` is the text that `train` returns. After an error it is the error's type and text, and an
        error that `on_end` itself raises is only in the log.
        """

    def on_close(self, trainer: Any) -> None:
        """After `on_end`, and where a trainer is closed without training: gives back what the callback holds.

        May be repeated, and come without `on_begin`.
        """


def call_back(callbacks, name, *args):
    """Calls one method of each callback; the log says which one raised an error."""
    for callback in callbacks:
        try:
            getattr(callback, name)(*args)
        except Exception:
            logging.error("%s.%s of Trainer.callbacks raised an error", type(callback).__name__, name)
            raise


def end_callbacks(callbacks, trainer, reason, raises=True):
    """Calls `on_end` of each callback, also after one has raised an error; raises the first error, or not."""
    errors = []
    for callback in callbacks:
        try:
            callback.on_end(trainer, reason)
        except Exception as error:
            logging.error("%s.on_end of Trainer.callbacks raised %r", type(callback).__name__, error)
            errors.append(error)
    if errors and raises:
        raise errors[0]
