# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Paths that users name, and files that are written completely or not at all."""

import contextlib
import os

from alf.errors import SaveError


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
