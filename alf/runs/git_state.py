# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The state of a git repository: its commit, and the changes since."""

import os
import subprocess
from typing import NamedTuple

_GIT_SECONDS = 10.0  # for one call of git
_MAX_BYTES = 4 << 20  # of a diff


class GitState(NamedTuple):
    """The state of a repository.

    Attributes:
        root: its folder, a path.
        commit: the hash, 40 or 64 digits.
        diff: bytes, the output of `git diff HEAD`: the changes of tracked files, and the names of changed
            binary files.
    """

    root: str
    commit: str
    diff: bytes


def read_git_state(folders):
    """Reads the state of the repository of the first folder that is in one.

    Args:
        folders: list of paths.

    Returns:
        `GitState`, or None if no folder is in a repository with a commit, or git is missing or too slow. A
        long diff is cut; its last line says so.
    """
    for folder in folders:
        # One call for both, so that they belong together.
        found = _read_git(folder, "rev-parse", "--show-toplevel", "HEAD")
        if found is None or found.count(b"\n") != 2:
            continue
        root, commit = os.fsdecode(found).splitlines()
        options = ["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--no-color"]
        diff = _read_git(root, "diff", *options, "HEAD")
        if diff is not None and len(diff) > _MAX_BYTES:
            diff = diff[:_MAX_BYTES] + f"\n[cut: the diff has more than {_MAX_BYTES:,} bytes]\n".encode()
        return None if diff is None else GitState(root, commit, diff)
    return None


def _read_git(folder, *arguments):
    """Returns the output of a git command in a folder, bytes; None if it fails or takes too long."""
    # It writes nothing in the repository, and starts no monitor of its files.
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=", "-C", folder, *arguments]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(command, check=True, timeout=_GIT_SECONDS, **pipes).stdout
    except (OSError, subprocess.SubprocessError):
        return None
