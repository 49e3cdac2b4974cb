# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The state of a git repository: its commit, and the changes since.

Git runs no program that the configuration of the repository names: who unpacks a folder does not expect that.
"""

import contextlib
import os
import subprocess
import threading
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


def read_git_state(folders, max_bytes=_MAX_BYTES):
    """Reads the state of the repository of the first folder that is in one.

    Args:
        folders: list of paths.
        max_bytes: a longer diff is cut after so many bytes; its last line says so.

    Returns:
        `GitState`, or None if no folder is in a repository with a commit, or git is missing or too slow.
    """
    for folder in folders:
        # One call for both, so that they belong together.
        found = read_git(folder, "rev-parse", "--show-toplevel", "HEAD")
        if found is None or found.count(b"\n") != 2:
            continue
        root, commit = os.fsdecode(found).splitlines()
        # Submodules have a configuration of their own, so git does not look into them.
        options = ["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--no-color"]
        diff = read_git(root, "diff", *options, "HEAD", size=max_bytes, config=_find_filters(root))
        return None if diff is None else GitState(root, commit, diff)
    return None


def _find_filters(root):
    """Returns the settings that switch off the filters of a repository's own configuration, a dict.

    Filters of the user's configuration, for example of git-lfs, stay.
    """
    arguments = "-z", "--show-scope", "--name-only", "--get-regexp", r"^filter\."
    fields = (read_git(root, "config", *arguments) or b"").split(b"\0")
    pairs = zip(fields[::2], fields[1::2])
    own = [os.fsdecode(name) for scope, name in pairs if scope in (b"local", b"worktree")]
    return {name: "false" if name.endswith(".required") else "" for name in own}


def read_git(folder, *arguments, size=1 << 16, config=None):
    """Returns the output of a git command in a folder, or None if it fails or takes too long.

    The result is bytes. It is cut after `size` bytes, with a last line that says so. `config` is a dict of
    settings, which win over all files.
    """
    # Without optional locks it writes nothing in the repository.
    command = ["git", "--no-optional-locks", "-C", folder, *arguments]
    # By the environment, because a name in `-c NAME=VALUE` cannot have a "=", as the name of a filter may.
    settings = {"core.fsmonitor": "false", **(config or {})}
    first = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
    # Without protocols it fetches no objects that a partial clone lacks.
    env = {"GIT_CONFIG_COUNT": str(first + len(settings)), "GIT_ALLOW_PROTOCOL": "none"}
    for i, (name, value) in enumerate(settings.items(), first):
        env |= {f"GIT_CONFIG_KEY_{i}": name, f"GIT_CONFIG_VALUE_{i}": value}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    try:
        with subprocess.Popen(command, env={**os.environ, **env}, **pipes) as process:
            # `read` has no time-out: the timer ends git, which closes the pipe, which ends `read`.
            timer = threading.Timer(_GIT_SECONDS, process.kill)
            timer.start()
            try:
                # One byte more than is kept tells a text that is too long from one that just fits.
                text = process.stdout.read(size + 1)
                if len(text) > size:
                    return text[:size] + f"\n[cut: the diff has more than {size:,} bytes]\n".encode()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GIT_SECONDS)
            finally:
                # git still writes if the text was cut; `with` would wait for it for ever.
                timer.cancel()
                process.kill()
    except OSError:
        return None
    return text if process.returncode == 0 else None
