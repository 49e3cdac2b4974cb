# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Errors that users can mend. Commands print their message without a traceback."""

import builtins
import concurrent.futures
import contextlib
import contextvars
import functools
import importlib
import os
import shlex
import sys
import traceback
from collections.abc import Collection, Iterator
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
RAISED_BY = "raised by "  # the start of the note on an exception that says which environment raised it
TF_AGENTS_COMMAND = f"pip install --no-deps -r {shlex.quote(_TF_AGENTS_LIST)}"

# Who has called ALF: the name of the command, "" in Python; and the names of its flags, or of the arguments
# beside the settings.
_Caller = tuple[str, Collection[str]]
_caller: contextvars.ContextVar[_Caller] = contextvars.ContextVar("caller", default=("", ()))


@contextlib.contextmanager
def arguments_are_flags(command: str, flags: Collection[str]) -> Iterator[None]:
    """Context of a command, whose messages name what its user writes: --seeds where Python has seeds.

    Args:
        command: name of the command. A Python function of this name has the same arguments.
        flags: names of its flags.
    """
    token = _caller.set((command, flags))
    try:
        yield
    finally:
        _caller.reset(token)


def argument(name: str, value: Any = None, owner: str = "") -> str:
    """Returns how a user writes an argument, for a message: "seeds" in Python, "--seeds" for a command.

    Args:
        name: of the argument or the setting. "root_dir" and "output" are -o of a command.
        value: text, for "seeds=0,1"; True for what is turned on, "overwrite=True" or "--overwrite".
        owner: name of a class or function that has the argument, for "Adam.epsilon"; "": no matter which.
    """
    command, flags = _caller.get()
    if not command or (owner and (owner != command or name not in flags)):
        name = f"{owner}.{name}" if owner else name
        return name if value is None else f"{name}={value}"
    if name in ("root_dir", "output"):
        return "-o" if value is None else f"-o {value}"
    return f"--{name}" if value is None or value is True else f"--{name}={value}"


def is_command() -> bool:
    """Returns whether a command has called ALF, and not a Python program."""
    return bool(_caller.get()[0])


def known_arguments() -> Collection[str]:
    """Returns what a wrong name of a setting may mean: names of flags, or of the arguments of a function."""
    return _caller.get()[1]


@contextlib.contextmanager
def arguments_of_call(names: Collection[str]) -> Iterator[None]:
    """Context of a Python function with these arguments and settings; of a command its flags stay."""
    token = _caller.set(_caller.get() if any(_caller.get()) else ("", names))
    try:
        yield
    finally:
        _caller.reset(token)


def is_installed(path: str) -> bool:
    """Returns whether a path belongs to Python or to installed packages."""
    # With a separator at the end, or /usr/local2 would count as a part of /usr/local.
    folders = [os.path.join(os.path.realpath(x), "") for x in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    return os.path.join(os.path.realpath(path), "").startswith(tuple(folders))


def render(error: BaseException) -> list[str]:
    """Returns the lines that a notebook shows of an error: messages first, each with the user's own calls.

    Frames of ALF and of installed packages would only hide them. An exception that caused the error follows
    if the user's code raised it, or a worker process.
    """
    lines = [describe_error(error), *getattr(error, "__notes__", ())]  # such as which environment it was
    lines += "".join(traceback.format_list(_own_frames(error))).splitlines()
    cause = error.__cause__
    if cause is not None and type(cause).__name__ == "RemoteTraceback":  # its text is a traceback
        return lines + ["", "in a worker process:", *str(cause).strip('\n" ').splitlines()]
    of_cause = [] if cause is None else render(cause)
    return lines + (["", "caused by", *of_cause] if len(of_cause) > 1 else [])


def _own_frames(error):
    """Lists the frames of an exception that are neither of ALF nor of installed packages."""
    alf = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
    frames = traceback.extract_tb(error.__traceback__)
    return [x for x in frames if not (x.filename.startswith(alf) or is_installed(x.filename))]


def is_notebook() -> bool:
    """Returns whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    # A terminal with IPython has no kernel, and shows no pictures.
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


@contextlib.contextmanager
def rendered_shortly() -> Iterator[None]:
    """Context, or decorator of a function, whose errors a notebook shows as it shows ALF's own (`render`)."""
    try:
        yield
    except Exception as error:
        if is_notebook():
            error._render_traceback_ = functools.partial(render, error)  # type: ignore[attr-defined]
        raise


class _AlfError(Exception):
    def _render_traceback_(self):  # IPython calls it
        return render(self)


class ConfigError(_AlfError, ValueError):
    """A setting is wrong. The message names the setting, its value and the rule, in one line."""

    def __str__(self) -> str:
        # The values of settings, such as arrays, may have several.
        return " ".join(line.strip() for line in super().__str__().splitlines())


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
        if not is_command():
            return f"root_dir {self._path!r} {self._reason}"
        # A command may have made the path by itself, or taken it from a name that is no flag.
        return f"{self._path!r} {self._reason.replace('another root_dir', 'another folder, -o DIR')}"


class DivergedError(_AlfError, ArithmeticError):
    """The loss or its gradient is not finite. The weights are still as they were before that update."""


class EnvError(_AlfError, RuntimeError):
    """An environment broke its contract, for example by an observation with a wrong shape.

    The message names the environment, its step and the fault.
    """


class InterruptedDriverError(RuntimeError):
    """The driver was interrupted by `Driver.interrupt`, before or while a method of it waited."""


class StallError(_AlfError, RuntimeError):
    """A part of a run waited longer than its time-out. The message names both."""


class LostPeerError(_AlfError, RuntimeError):
    """Another learner process of the same run has ended, does not answer, or makes different updates."""


class SaveError(_AlfError, OSError):
    """A file of a run could not be written. The message names the file and the reason."""


# Their message says all: commands print it without a traceback.
SAY_ALL = ConfigError, DivergedError, EnvError, LostPeerError, SaveError, StallError


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
    """Returns the class and the text of an exception; only the class if its `__str__` raises.

    In place of an empty text, such as an `assert` has, it names the line of the user's code.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:
        return f"{name}, whose text cannot be made"
    if text.strip():
        return f"{name}: {text}"
    own = _own_frames(error)
    return f"{name} in {own[-1].filename}, line {own[-1].lineno}" if own else name


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
