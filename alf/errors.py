# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Errors that a user can mend, and the checks of settings that raise them.

The command line prints the message of such an error without a traceback.
"""

import math
import numbers
from collections.abc import Iterable
from operator import ge, gt, le
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


def check_int(name: str, value: Any, at_least: int = 1, optional: bool = False) -> Any:
    """Returns `value`; raises ConfigError unless it is an integer (no bool) that is large enough.

    None is right too if it is `optional`.
    """
    if value is None and optional:
        return value
    is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    _check_size(name, value)
    if not is_int or value < at_least:
        end = ", or None" if optional else ""
        raise ConfigError(f"{name} is {value!r}: it must be an integer, at least {at_least}{end}")
    return value


def check_number(
    name: str,
    value: Any,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    optional: bool = False,
    whole: bool = False,
) -> Any:
    """Returns `value`; raises ConfigError unless it is a finite number (no bool) in the bounds.

    None is right too if it is `optional`. A `whole` number may be written as 1e6, unlike that of `check_int`.
    """
    if value is None and optional:
        return value
    _check_size(name, value)
    bounds: Any = (("at least", at_least, ge), ("above", above, gt), ("at most", at_most, le))
    checks = [(text, bound, holds) for text, bound, holds in bounds if bound is not None]
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    is_right = is_number and all(holds(value, bound) for _, bound, holds in checks)
    if not is_right or (whole and value != int(value)):
        rules = " and".join(f" {text} {bound}" for text, bound, _ in checks)
        kind = "a whole number" if whole else "a number"
        raise ConfigError(f"{name} is {value!r}: it must be {kind}{rules}{', or None' if optional else ''}")
    return value


def _check_size(name, value):
    if isinstance(value, numbers.Integral) and abs(value) >= 2**63:  # TensorFlow has no such integers
        raise ConfigError(f"{name} is {value!r}: an integer must be below 2^63")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> Any:
    """Returns `value`; raises ConfigError unless it is one of several texts."""
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name} is {value!r}: it must be one of {', '.join(map(repr, choices))}")
    return value


def check_type(name: str, value: Any, kind: type) -> Any:
    """Returns `value`; raises ConfigError unless it is an object of the class `kind` or of a subclass."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name} is an object of {type(value).__name__}: it must be one of {kind.__name__}")
    return value


def check_bool(name: str, value: Any, optional: bool = False) -> Any:
    """Returns `value`; raises ConfigError unless it is True or False, or optionally None."""
    if not isinstance(value, bool) and not (optional and value is None):
        raise ConfigError(f"{name} is {value!r}: it must be True or False{', or None' if optional else ''}")
    return value
