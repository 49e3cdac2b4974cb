# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Finds gin files: ALF's examples, and files that others include; and the trained agents of ALF's tasks.

"alf:NAME.gin" is the file NAME.gin among ALF's examples, wherever ALF is installed, and "alf:TASK" one of its
tasks, such as "alf:CartPole-v1". An included file is looked for in the current directory, then beside the
file that includes it.
"""

import contextlib
import difflib
import os
import sys

import alf
from alf.config import registry
from alf.config.hints import find_used_macros
from alf.errors import ConfigError

CONFIG_FILE = "operative_config.gin"  # in the directory of a run
_TASKS = "tasks"  # a folder of the examples
EXAMPLES = "alf:"  # the prefix of ALF's examples
AGENTS = "ALF_AGENTS"  # the environment variable that names a folder of more trained agents

# Gin calls `_open` without any context, so the state of the files that are being read is here. Gin itself is
# not thread-safe either.
_files = []  # the paths of the gin files that are being read; the innermost file is last
_macros = []  # the sets of `collect_used_macros`


def find_examples():
    """Returns the path of the folder of ALF's examples, without symbolic links."""
    return os.path.join(os.path.dirname(os.path.realpath(alf.__file__)), "examples")


def list_examples():
    """Returns the sorted names of the gin files among ALF's examples; [] if they are not installed."""
    folder = find_examples()
    return sorted(x for x in os.listdir(folder) if x.endswith(".gin")) if os.path.isdir(folder) else []


def list_tasks():
    """Returns the sorted names of ALF's tasks, such as "CartPole-v1"; [] if they are not installed."""
    folder = os.path.join(find_examples(), _TASKS)
    return sorted(x.removesuffix(".gin") for x in os.listdir(folder)) if os.path.isdir(folder) else []


def find_gin_file(path):
    """Returns the path of a gin file that a user names by its path, by "alf:NAME.gin" or by "alf:TASK".

    Raises:
        ConfigError: if there is no such file.
    """
    found = os.path.expanduser(_without_prefix(path))
    if not os.path.isfile(found):
        raise ConfigError(f"there is no file {path!r}")
    return found


def find_agent(name):
    """Returns the directory of the trained agent of a task, "alf:TASK"; any other name as it is.

    A directory TASK in the folder that `$ALF_AGENTS` names comes first, then one of those that ALF brings.

    Raises:
        ConfigError: if ALF has no such task, or nobody has trained its agent.
    """
    if not str(name).startswith(EXAMPLES):
        return name
    task = os.path.basename(find_gin_file(name)).removesuffix(".gin")
    folders = [os.environ.get(AGENTS, ""), os.path.join(os.path.dirname(alf.__file__), "agents")]
    for folder in filter(None, folders):
        if os.path.isdir(found := os.path.join(folder, task)):
            return found
    raise ConfigError(
        f"ALF brings no trained agent of {name!r}: train one, `alf train {name} -o runs/{task}`, and name "
        f"runs/{task}"
    )


def look_beside_includes():
    """Makes gin look for included files also beside the file that includes them. May be called again."""
    registry.read_files_with(_open, _can_find)


def _without_prefix(path):
    """Returns the path of "alf:NAME.gin" or "alf:TASK", or any other path as it is.

    Raises:
        ConfigError: if ALF has no such file.
    """
    if not path.startswith(EXAMPLES):
        return path
    name = path.removeprefix(EXAMPLES)
    # An id may have a slash: "alf:ALE/Pong-v5".
    file = name if name.endswith(".gin") else os.path.join(_TASKS, f"{name.replace('/', '-')}.gin")
    found = os.path.join(find_examples(), file)
    if not os.path.isfile(found):
        known = [*list_examples(), *list_tasks()]
        # A high cutoff: names of examples are alike, and a wrong guess says less than the list of all.
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.75)
        hint = f"; did you mean {' or '.join(EXAMPLES + name for name in close)} ?" if close else ""
        hint = hint or f"; it has {', '.join(known) or 'none'}"
        raise ConfigError(f"ALF has no gin file {path!r}{hint}")
    return found


@contextlib.contextmanager
def collect_used_macros():
    """Context manager that yields a set, which gets the names of all macros that any file uses.

    They are collected at the end of each file, because a file may replace the bindings of a file that it
    includes: then nothing uses the macros of the included file any more, and that is not a mistake.
    """
    _macros.append(set())
    try:
        yield _macros[-1]
    finally:
        _macros.pop()


@contextlib.contextmanager
def _open(path):
    found = os.path.abspath(_find(path))
    if found in _files:
        raise ConfigError(f"{path!r} includes itself, by {_files[-1]!r}")
    folder = os.path.dirname(found)
    # It stays there after the file was read: other processes, and the run's description, get the folders of
    # the user's modules from `sys.path` (`list_own_paths`). Examples name their modules alf.examples.NAME.
    examples = os.path.realpath(found).startswith(os.path.join(find_examples(), ""))
    if folder not in sys.path and not examples:  # so that the file can import modules beside it
        sys.path.insert(0, folder)
    _files.append(found)
    try:
        with open(found, encoding="utf-8-sig") as file:  # skips the byte order mark of some editors
            yield file
        for used in _macros:
            used |= find_used_macros()
    finally:
        _files.pop()


def _can_find(path):
    # An error and not False: gin would go on to its own reader, and would only say that no reader takes the
    # file.
    if _find(path) is None:
        folders = ["the current directory", *map(repr, _list_folders())]
        raise ConfigError(f"there is no file {path!r} in {' or '.join(folders)}")
    return True


def _find(path):
    """Returns the path of a file to include, or None if there is none."""
    path = os.path.expanduser(_without_prefix(path))
    beside = [os.path.join(folder, path) for folder in _list_folders()]
    return next(filter(os.path.isfile, [path, *beside]), None)


def _list_folders():
    """Returns a list with the folder of the file that includes, or [] if there is none."""
    # The innermost file is the one that gin reads now.
    return [os.path.dirname(path) for path in _files[-1:]]
