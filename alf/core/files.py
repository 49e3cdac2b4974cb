# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Paths that users name, and files that are there as a whole or not at all."""

import contextlib
import os

from alf.errors import ConfigError, SaveError


def find_path(setting, path):
    """Returns the absolute path that a user names; `~` is the home directory.

    ConfigError names the `setting` if this is no path, or one that TensorFlow cannot open.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ConfigError(f"{setting} is {path!r}: it must be a path")
    try:
        found = os.path.abspath(os.path.expanduser(path))
        found.encode()
    except FileNotFoundError:
        raise ConfigError(f"{setting} is {path!r}: the current directory was removed") from None
    except UnicodeEncodeError:
        raise ConfigError(f"{setting} is {path!r}: the name of each folder must be UTF-8") from None
    if "\0" in found:
        raise ConfigError(f"{setting} is {path!r}: a path has no zero byte")
    return found


@contextlib.contextmanager
def replace_file(path):
    """Gives a binary file to write, which becomes `path` when the block ends without an error.

    Until then its name ends in ".tmp". What has that name before, a link for instance, is removed and not
    followed. OSError is raised if the file cannot be written.
    """
    unfinished = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.remove(unfinished)
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(unfinished)
        raise


def write_file(path, content):
    """Writes a file, which is replaced; SaveError is raised if that fails, and what was there stays.

    `content` is a text, or bytes.
    """
    try:
        with replace_file(path) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error.strerror or error}") from None
