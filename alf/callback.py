# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Callback: the interface of code that a training run calls at its beginning, its end, and in between."""

import contextlib
from typing import Any

from absl import logging

from alf.config.settings import Role
from alf.core.user_calls import user_call
from alf.errors import InterruptedDriverError, describe_error


class Callback:
    """The base of callbacks of a training run. A subclass overrides the methods that it needs.

    The training thread makes all calls, and waits for each. A method may call `trainer.stop`, which ends the
    run as finished. An error that a method raises ends the run like any other error. `trainer` is the
    `Trainer`.

    In gin: `Trainer.callbacks = (@MyCallback(),)`, where MyCallback is decorated with `@gin.configurable`.
    """

    # The role of all settings of callbacks, as of `Trainer.callbacks`: a run may be continued with other
    # values.
    settings_role = Role.ADJUSTABLE

    def on_check(self, trainer: Any) -> None:
        """Is called before anything is written or restored. Raises ConfigError if the run lacks something."""

    def on_begin(self, trainer: Any) -> None:
        """Is called before the first train iteration, after a checkpoint is restored."""

    def on_iter_begin(self, trainer: Any) -> None:
        """Is called before each train iteration, if the run does not end there."""

    def on_train_iter(self, trainer: Any, summary: dict[str, Any]) -> None:
        """Is called after each train iteration.

        `summary` is the dict of float32 scalars from `Learner.train`, empty if no update was made.
        """

    def on_summary(self, trainer: Any, step: int, values: dict[str, Any]) -> None:
        """Is called after each summary, and after each evaluation, with what TensorBoard shows.

        `step` is the x axis, an int. `values` is a dict by name of numbers and texts.
        """

    def on_evaluation(self, trainer: Any, evaluation: Any) -> None:
        """Is called after each evaluation, with its `alf.evaluation.evaluator.Evaluation`."""

    def on_checkpoint(self, trainer: Any, path: str) -> None:
        """Is called after each checkpoint, with its path, which ends in "ckpt-N"."""

    def on_end(self, trainer: Any, reason: str) -> None:
        """Is called once, at the end of `Trainer.train`, after the last checkpoint.

        `reason` is the text that `train` returns. After an error of the run it is the error's type and text,
        and another error that `on_end` raises is only logged.
        """

    def get_state(self) -> Any:
        """Returns the state that checkpoints save, as JSON types; None: it has none."""
        return None

    def set_state(self, state: Any) -> None:
        """Restores the state that `get_state` returned; called before `on_begin`, if a checkpoint has one."""

    def on_close(self, trainer: Any) -> None:
        """Is called after `on_end`, or when a trainer closes without training. It releases resources.

        It may be called several times, and without `on_begin`.
        """


def calling(callback, method):
    """Returns the context of a call of a method of a callback, which is watched if it is the user's."""
    # ALF's own may take long, to save or to wait for the orders of a study, and mark the calls within.
    if type(callback).__module__.partition(".")[0] == "alf":
        return contextlib.nullcontext()
    return user_call(f"{type(callback).__name__}.{method} of Trainer.callbacks")


def call_back(callbacks, name, *args):
    """Calls one method of each callback. If a callback raises an error, the log names the callback."""
    for callback in callbacks:
        try:
            with calling(callback, name):
                getattr(callback, name)(*args)
        except (InterruptedDriverError, KeyboardInterrupt):  # while it called environments, or by Ctrl-C
            raise
        except BaseException:  # also sys.exit()
            logging.error("%s.%s of Trainer.callbacks raised an error", type(callback).__name__, name)
            raise


def end_callbacks(callbacks, trainer, reason, raises=True):
    """Calls `on_end` of each callback, also after an error. In the end raises the first error if `raises`."""
    errors = []
    for callback in callbacks:
        try:
            with calling(callback, "on_end"):
                callback.on_end(trainer, reason)
        except BaseException as error:
            logging.error(
                "%s.on_end of Trainer.callbacks raised %s", type(callback).__name__, describe_error(error)
            )
            # The others still get their call: they may have files to close.
            errors.append(error)
    if errors and raises:
        raise errors[0]
