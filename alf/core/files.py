# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Paths that users name, and files and folders that are written completely or not at all."""

import contextlib
import contextvars
import errno
import os
import shutil
import stat
import sys
import tempfile

from alf.errors import ConfigError, SaveError

_UNFINISHED = ".tmp"  # the ending of a file that is being written
_OLD = "old"  # the name of a folder that waits for its replacement
_directory: contextvars.ContextVar = contextvars.ContextVar("directory", default="")


def find_path(path):
    """Returns the absolute path of a path that a user names; `~` is the home directory.

    Raises:
        ConfigError: if the path is not UTF-8, as TensorFlow, gin and TensorBoard need it, or if Python would
            give such a path another name.
    """
    found = os.path.abspath(os.path.join(_directory.get(), os.path.expanduser(path)))
    with contextlib.suppress(UnicodeEncodeError):
        if os.fsencode(found) == found.encode():
            return found
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise ConfigError(f"the path {found!r}: Python takes names of files as {encoding}; set PYTHONUTF8=1")
    raise ConfigError(f"the path {found!r} is not UTF-8: choose another one")


@contextlib.contextmanager
def relative_to_here():
    """Context in which `find_path` takes relative paths from the directory where it begins.

    Environments are made in it, which may change the current directory.
    """
    token = _directory.set(_directory.get() or os.getcwd())
    try:
        yield
    finally:
        _directory.reset(token)


def has_pattern(path):
    """Whether a path has a character by which TensorFlow takes it as a pattern, such as a bracket."""
    return not set(path).isdisjoint("*?[\\")


@contextlib.contextmanager
def without_pattern(path):
    """Context manager that yields a path of the same folder that no one takes as a pattern.

    TensorFlow takes the path of a checkpoint as a pattern when it reads it, and knows no way to escape them.
    """
    if not has_pattern(path):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "link")
        os.symlink(path, link, target_is_directory=True)
        yield link


def open_regular(path, mode="r", **kwargs):
    """Opens a file to read it, as `open` does; raises OSError for a pipe or a device, which may never end."""

    def opener(name, flags):
        # Without this flag the call waits until another process opens the pipe to write.
        descriptor = os.open(name, flags | os.O_NONBLOCK)
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # a folder is refused by `open` itself
            return descriptor
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", name)

    return open(path, mode, opener=opener, **kwargs)


@contextlib.contextmanager
def replace_file(path):
    """Context manager that yields a binary file, which becomes `path` when the block ends without an error.

    Until then its name ends in ".tmp". An older file or link of that name is removed, and a link is never
    followed.

    Raises:
        OSError: if the file cannot be written. The old file at `path` stays.
    """
    unfinished = path + _UNFINISHED
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
def replace_folder(path):
    """Context manager that yields a new folder, which becomes `path` when the block ends without an error.

    Its content is on the disk before it gets its name, and an older folder at `path` is removed afterwards. A
    kill leaves a hidden folder beside `path`, which `clear_unfinished` removes.

    Raises:
        OSError: if the folder cannot be written. The old one stays.
    """
    parent = os.path.dirname(path)
    with _hidden_folder(path) as hidden:
        new, old = os.path.join(hidden, "new"), os.path.join(hidden, _OLD)
        os.mkdir(new)
        yield new
        for folder, _, names in os.walk(new):
            for name in [*names, ""]:  # "" is the folder itself
                _sync(os.path.join(folder, name))
        # No call replaces a folder that has files. `_hidden_folder` brings the old one back if the next one
        # fails, and `clear_unfinished` if this process is killed between the two.
        if os.path.lexists(path):
            os.rename(path, old)
        os.rename(new, path)
        _sync(parent)


def remove_folder(path):
    """Removes a folder, of which nobody ever sees a part; raises OSError if it cannot be removed."""
    with _hidden_folder(path) as hidden:
        os.rename(path, os.path.join(hidden, "removed"))


def clear_unfinished(folder):
    """Removes what a kill has left of `replace_folder`, `remove_folder` and `replace_file` in a folder."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(".") and os.path.isdir(path):
            _close_hidden(path, os.path.join(folder, name[1:].rpartition(".")[0]))
        elif name.endswith(_UNFINISHED) and os.path.isfile(path):
            os.remove(path)


@contextlib.contextmanager
def _hidden_folder(path):
    """Context manager that yields a new hidden folder beside `path`, on the same file system."""
    parent, name = os.path.split(path)
    hidden = tempfile.mkdtemp(prefix=f".{name}.", dir=parent)
    try:
        yield hidden
    finally:
        _close_hidden(hidden, path)


def _close_hidden(hidden, path):
    """Removes a hidden folder; an old folder in it that has no replacement at `path` goes back there."""
    old = os.path.join(hidden, _OLD)
    if os.path.lexists(old) and not os.path.lexists(path):
        os.rename(old, path)
    shutil.rmtree(hidden, ignore_errors=True)


def _sync(path):
    """Writes a file's content, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot do this for folders
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replace_own_folder(what, path, names):
    """Context manager like `replace_folder`, for a path that the user names.

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
    try:
        if os.path.lexists(path):
            if os.path.islink(path) or not os.path.isdir(path):
                raise ConfigError(f"{what} {path!r} is no folder: it is not replaced")
            others = sorted(set(os.listdir(path)) - names)
            if others:
                raise ConfigError(
                    f"{what} {path!r} has {others[0]!r}, which ALF has not written: it is not replaced"
                )
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with replace_folder(path) as folder:
            yield folder
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
