# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gin files as they are read: where those are looked for that others include, and what each sets by itself.

An included file is looked for in the current directory, then beside the file that includes it.
"""

import contextlib
import os

import gin

from alf.training.gin_hints import check_file, find_used_macros

_folders = []  # of the gin files that are being read; the innermost one is last
_macros = []  # sets, see `collect_used_macros`


def look_beside_includes():
    """Lets gin find included files beside the file that includes them. More than one call is as one.

    Gin's public `register_file_reader` would come after its own reader, which does not say what it reads. Its
    version is pinned in setup.py.
    """
    reader = (_open, _can_find)
    if reader not in gin.config._FILE_READERS:
        gin.config._FILE_READERS.insert(0, reader)


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
    _folders.append(os.path.dirname(os.path.abspath(found)))
    try:
        with open(found, encoding="utf-8") as file:
            yield file
        for used in _macros:
            used |= find_used_macros()
    finally:
        _folders.pop()


def _can_find(path):
    return _find(path) is not None


def _find(path):
    """The path of the file, or None if there is none."""
    beside = [os.path.join(folder, path) for folder in _folders[-1:]]
    return next(filter(os.path.isfile, [path, *beside]), None)
