# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Errors that users can mend. Commands print their message without a traceback."""

import builtins
import concurrent.futures
import importlib
import os
import shlex
from types import ModuleType
from typing import Any

# TF-Agents has no extra: pip cannot install it together with what it requires. The file says why.
_TF_AGENTS_LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tf_agents.txt")
# Exceptions that other code would act on, or that do not say what happened.
_CONTAINED = (
    StopIteration,
    StopAsyncIteration,
    concurrent.futures.CancelledError,
    getattr(builtins, "BaseExceptionGroup", StopIteration),  # Python 3.10 has none
)
TF_AGENTS_COMMAND = f"pip install --no-deps -r {shlex.quote(_TF_AGENTS_LIST)}"


class ConfigError(ValueError):
    """A setting is wrong. The message names the setting, its value and the rule."""


class FolderError(ConfigError):
    """The folder of a run or a study cannot be used: `root_dir` in Python, `-o` of a command.

    Args:
        path: path of the folder.
        reason: text that follows the path, such as "holds a sweep: choose another root_dir".
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self._path, self._reason = path, reason

    def __str__(self) -> str:
        return f"root_dir {self._path!r} {self._reason}"

    def describe_flag(self) -> str:
        """Returns the message for a user of a command."""
        return f"{self._path!r} {self._reason.replace('another root_dir', 'another folder, -o DIR')}"


class DivergedError(ArithmeticError):
    """The loss or its gradient is not finite. The weights are still as they were before that update."""


class EnvError(RuntimeError):
    """An environment broke its contract, for example by an observation with a wrong shape.

    The message names the environment, its step and the fault.
    """


class InterruptedDriverError(RuntimeError):
    """The driver was interrupted by `Driver.interrupt`, before or while a method of it waited."""


class StallError(RuntimeError):
    """A part of a run waited longer than its time-out. The message names both."""


class LostPeerError(RuntimeError):
    """Another learner process of the same run has ended, does not answer, or makes different updates."""


class SaveError(OSError):
    """A file of a run could not be written. The message names the file and the reason."""


def contain(error: BaseException, name: str) -> BaseException:
    """Returns an exception that can be raised safely in place of `error`.

    SystemExit, StopIteration and the like become an `EnvError`, because other code on their way would act on
    them; so do groups of exceptions, and exceptions whose text cannot be made. All others are returned
    unchanged.

    Args:
        error: exception of the user's code.
        name: text, the source of the error, such as "environment 3".
    """
    try:
        text, _ = repr(error), str(error)
        is_right = isinstance(error, Exception)
    except Exception:  # by a method of the user's class
        text, is_right = describe_error(error), False
    if is_right and not isinstance(error, _CONTAINED):
        return error
    contained = EnvError(f"{name} raised {text}")
    contained.__cause__ = error
    return contained


def describe_error(error: BaseException) -> str:
    """Returns the class and the text of an exception; only the class if its `__str__` raises."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, whose text cannot be made"


def check_type(name: str, value: Any, kind: type) -> Any:
    """Returns `value`, or raises ConfigError unless it is an object of the class `kind` or a subclass."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name} is an object of {type(value).__name__}: it must be one of {kind.__name__}")
    return value


def make_part(name: str, part: Any, kind: type) -> Any:
    """Returns `part` if it is an object of class `kind`, else the object that the callable `part` makes.

    Raises:
        ConfigError: if it makes something else; `name` is the name of the setting.
    """
    return part if isinstance(part, kind) else check_type(f"what {name} makes", part(), kind)


def import_extra(module: str, extra: str) -> ModuleType:
    """Imports and returns `module`, or raises ConfigError that says how to install ALF's extra `extra`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ConfigError(f'the package {package} is not installed: pip install "alf-tf[{extra}]"') from error
