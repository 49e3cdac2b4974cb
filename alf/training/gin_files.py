# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Where gin files are looked for that others include: in the current directory, then beside those others."""

import contextlib
import os

import gin

_folders = []  # of the gin files that are being read; the innermost one is last


def look_beside_includes():
    """Lets gin find included files beside the file that includes them. More than one call is as one.

    Gin's public `register_file_reader` would come after its own reader, which does not say what it reads. Its
    version is pinned in setup.py.
    """
    reader = (_open, _can_find)
    if reader not in gin.config._FILE_READERS:
        gin.config._FILE_READERS.insert(0, reader)


@contextlib.contextmanager
def _open(path):
    found = _find(path)
    _folders.append(os.path.dirname(os.path.abspath(found)))
    try:
        with open(found, encoding="utf-8") as file:
            yield file
    finally:
        _folders.pop()


def _can_find(path):
    return _find(path) is not None


def _find(path):
    """The path of the file, or None if there is none."""
    beside = [os.path.join(folder, path) for folder in _folders[-1:]]
    return next(filter(os.path.isfile, [path, *beside]), None)
