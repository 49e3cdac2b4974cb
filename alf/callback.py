# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Callback: the interface of code that a training run calls at its beginning, its end, and in between."""

import contextlib
import difflib
import inspect
from typing import Any

from absl import logging

from alf.config.hints import translate
from alf.config.settings import Role
from alf.core.user_calls import user_call
from alf.errors import ConfigError, InterruptedDriverError, describe_error


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

    def on_evaluation(self, trainer: Any, figures: dict[str, float]) -> None:
        """Is called after each evaluation, with the figures that TensorBoard shows.

        These are "eval/return_mean", "eval/return_min", "eval/length_mean", "eval/num_episodes" and so on.
        """

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Returns the callback itself: gin copies its values, and who made a callback looks at it later."""
        return self


# From each method that a run calls to the number of its arguments.
_HOOKS = {
    name: len(inspect.signature(method).parameters) - 1
    for name, method in vars(Callback).items()
    if name.startswith(("on_", "get_", "set_"))
}


def check_hooks(callback):
    """Raises ConfigError if a run would never call a method of a callback, or with other arguments.

    Args:
        callback: object or class. Of the methods on_NAME, a run calls those that `Callback` has.
    """
    is_class = inspect.isclass(callback)
    owner = (callback if is_class else type(callback)).__name__
    for name in dir(callback):
        found = inspect.getattr_static(callback, name)
        if isinstance(found, property) or not (name in _HOOKS or name.startswith(("on_", "_on_"))):
            continue
        method = getattr(callback, name)
        if name in _HOOKS:
            # Of a function of the class itself, because Python tells no signature of a method without `self`.
            is_own = not is_class and name in getattr(callback, "__dict__", ())
            is_plain = inspect.isfunction(found) and not is_own
            given = ", ".join(("self", *list(inspect.signature(getattr(Callback, name)).parameters)[1:]))
            check_takes(
                f"{owner}.{name}",
                found if is_plain else method,
                _HOOKS[name] + is_plain,
                f"define {name}({given})",
            )
        elif callable(method) and (hint := translate(name) or _find_hook(name)):
            raise ConfigError(f"{owner}.{name}: a run calls no such method of a callback{hint}")


def _find_hook(name):
    """Returns the end of a message about a method that is no hook; "" if it is private."""
    if name.startswith("_"):
        return ""
    close = difflib.get_close_matches(name, _HOOKS, n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(close)} ?" if close else f"; it calls {', '.join(_HOOKS)}"


def check_takes(name, function, num_arguments, remedy, **named):
    """Raises ConfigError if a function of the user's cannot be called with what a run passes.

    Args:
        name: of the function, for the message.
        function: what is called. Other objects than callables are refused, too.
        num_arguments: int, positional arguments.
        remedy: the end of the message.
        **named: arguments by name, of any value.
    """
    try:
        inspect.signature(function).bind(*[None] * num_arguments, **named)
    except ValueError:  # Python cannot tell the signature
        pass
    except TypeError as error:
        raise ConfigError(f"{name} cannot be called ({error}): {remedy}") from None


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
