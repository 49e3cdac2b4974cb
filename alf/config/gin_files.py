# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Where gin files are: those of ALF itself, and those that others include.

"alf:NAME.gin" is the gin file NAME.gin of ALF's examples, wherever ALF is installed. An included file is in
the current directory, or else beside the file that includes it.
"""

import contextlib
import difflib
import os
import sys

import alf
from alf.config import registry
from alf.config.hints import check_file, find_used_macros
from alf.errors import ConfigError

CONFIG_FILE = "operative_config.gin"  # in the directory of a run
EXAMPLES = "alf:"  # the prefix; alone it stands for the folder in `run.json`

_folders = []  # of the gin files that are being read; the innermost one is last
_macros = []  # sets, see `collect_used_macros`


def find_examples():
    """The folder of ALF's examples, a path: inside the installed package, or beside it in the source tree."""
    package = os.path.dirname(os.path.realpath(alf.__file__))
    inside = os.path.join(package, "examples")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "examples")


def list_examples():
    """The names of the gin files that ALF brings, a sorted list; empty if it was installed without them."""
    folder = find_examples()
    return sorted(x for x in os.listdir(folder) if x.endswith(".gin")) if os.path.isdir(folder) else []


def find_gin_file(path):
    """Returns the path of a gin file that a user names; ConfigError if there is none.

    `path` is a path, or "alf:NAME.gin".
    """
    found = os.path.expanduser(_without_prefix(path))
    if not os.path.isfile(found):  # gin would say so too, after a line of its own
        raise ConfigError(f"--gin_file: there is no file {path!r}")
    return found


def look_beside_includes():
    """Lets gin find included files beside the file that includes them. More than one call is as one."""
    registry.read_files_with(_open, _can_find)


def _without_prefix(path):
    """Returns the path of "alf:NAME.gin", any other path as it is; ConfigError if ALF has no such file."""
    if not path.startswith(EXAMPLES):
        return path
    found = os.path.join(find_examples(), path.removeprefix(EXAMPLES))
    if not os.path.isfile(found):
        close = difflib.get_close_matches(path.removeprefix(EXAMPLES), list_examples(), n=3, cutoff=0.75)
        hint = f"; did you mean {' or '.join(EXAMPLES + name for name in close)} ?" if close else ""
        hint = hint or f", but {', '.join(list_examples()) or 'none at all'}"
        raise ConfigError(f"ALF has no gin file {path!r}{hint}")
    return found


@contextlib.contextmanager
def collect_used_macros():
    """Context with a set: the names of the macros that bindings used at the end of a file that is read in it.

    A file that includes another one may replace the bindings that use macros of the other one.
    """
    _macros.append(set())
    try:
        yield _macros[-1]
    finally:
        _macros.pop()


@contextlib.contextmanager
def _open(path):
    found = _find(path)
    check_file(found)
    folder = os.path.dirname(os.path.abspath(found))
    if folder not in sys.path:  # the file may import modules beside it
        sys.path.insert(0, folder)
    _folders.append(folder)
    try:
        with open(found, encoding="utf-8-sig") as file:  # some editors begin a file with a mark
            yield file
        for used in _macros:
            used |= find_used_macros()
    finally:
        _folders.pop()


def _can_find(path):
    if _find(path) is None:  # gin would say so too, after a line of its own
        folders = ["the current directory", *map(repr, _folders[-1:])]
        raise ConfigError(f"there is no file {path!r} in {' or '.join(folders)}")
    return True


def _find(path):
    """The path of the file, or None if there is none."""
    path = os.path.expanduser(_without_prefix(path))
    beside = [os.path.join(folder, path) for folder in _folders[-1:]]
    return next(filter(os.path.isfile, [path, *beside]), None)
