# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Paths that users name, and files that are written completely or not at all."""

import contextlib
import os
import tempfile

from alf.errors import ConfigError, SaveError


def find_path(path):
    """Returns the absolute path of a path that a user names; `~` is the home directory."""
    return os.path.abspath(os.path.expanduser(path))


@contextlib.contextmanager
def replace_file(path):
    """Context manager that yields a binary file, which becomes `path` when the block ends without an error.

    Until then its name ends in ".tmp". An older file or link of that name is removed, and a link is never
    followed.

    Raises:
        OSError: if the file cannot be written. The old file at `path` stays.
    """
    unfinished = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.remove(unfinished)
    try:
        # "x" and not "w": that would write through a link that somebody has put there meanwhile.
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # before the rename, or a crash could leave an empty file at `path`
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        raise


@contextlib.contextmanager
def replace_folder(what, path, names):
    """Context manager that yields a new folder, which becomes `path` when the block ends without an error.

    Args:
        what: text, the name of the argument that is `path`, for errors.
        path: path that the user names.
        names: set of the names of all that an older folder at `path` may have. One that has anything else is
            not replaced: that would delete files that ALF has not written.

    Raises:
        ConfigError: if there is such a folder, a link or a file, or the new folder cannot be written. The old
            one stays.
    """
    path = find_path(path)
    parent, name = os.path.split(path)
    try:
        if os.path.lexists(path):
            if os.path.islink(path) or not os.path.isdir(path):
                raise ConfigError(f"{what} {path!r} is no folder: it is not replaced")
            others = sorted(set(os.listdir(path)) - names)
            if others:
                raise ConfigError(
                    f"{what} {path!r} has {others[0]!r}, which ALF has not written: it is not replaced"
                )
        os.makedirs(parent, exist_ok=True)
        # Beside `path`, because a rename works only within a file system. A kill leaves only this hidden
        # folder.
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=parent) as temporary:
            folder = os.path.join(temporary, "new")
            os.mkdir(folder)
            yield folder
            # At no time is there a half-written folder at `path`. The old one goes with the temporary folder,
            # after the new one has its place.
            if os.path.lexists(path):
                os.rename(path, os.path.join(temporary, "old"))
            os.rename(folder, path)
    except OSError as error:
        raise ConfigError(f"{what} {path!r} cannot be written: {error.strerror or error}") from error


def write_file(path, content):
    """Writes a file completely, or leaves the old one as it was and raises SaveError.

    Args:
        path: text.
        content: text or bytes.
    """
    try:
        with replace_file(path) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error.strerror or error}") from None
