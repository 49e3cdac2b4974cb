# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Errors that a user can mend.

The command line prints the message of such an error without a traceback.
"""

from typing import Any


class ConfigError(ValueError):
    """A setting is wrong. The message names the setting, its value and what would be right."""


class DivergedError(ArithmeticError):
    """The loss or its gradient is not finite; the weights are those from before that update."""


class EnvError(RuntimeError):
    """An environment breaks its contract, for example by an observation of a wrong shape.

    The message names the environment, its step and what is wrong.
    """


class StallError(RuntimeError):
    """A part of a run waits for longer than its time-out. The message names both."""


class LostPeerError(RuntimeError):
    """Another learner process of the same run has ended, does not answer or makes other updates."""


class SaveError(OSError):
    """A file that a run must keep could not be written. The message says which, and why."""


def contain(error: BaseException, name: str) -> BaseException:
    """Returns an exception that may be raised in place of `error`, which `name`, "environment 3" say, raised.

    SystemExit, StopIteration and the like mean something to the code that they pass through: they become an
    `EnvError`. Any other exception is returned as it is.
    """
    if isinstance(error, Exception) and not isinstance(error, (StopIteration, StopAsyncIteration)):
        return error
    contained = EnvError(f"{name} raised {error!r}")
    contained.__cause__ = error
    return contained


def check_type(name: str, value: Any, kind: type) -> Any:
    """Returns `value`; raises ConfigError unless it is an object of the class `kind` or of a subclass."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name} is an object of {type(value).__name__}: it must be one of {kind.__name__}")
    return value
