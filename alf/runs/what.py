# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What to train, as the first argument of the commands and of `alf.train` names it."""

import importlib
import os
import re
import sys
from typing import Any, NamedTuple

from alf.config.gin_files import CONFIG_FILE, EXAMPLES, find_gin_file
from alf.errors import ConfigError


class What(NamedTuple):
    """What arguments name.

    Attributes:
        env: the name of `alf.environments.load`, a text or a callable; None without an environment.
        gin_files: list of paths; that of the run, if a run is named.
        run: path of a run's directory, or None.
        label: text for the name of a new run, such as "CartPole-v1".
    """

    env: Any
    gin_files: list
    run: str | None
    label: str


def find_what(*names: Any) -> What:
    """Returns what the arguments of a command name: an environment, gin files, or a run.

    An environment is an id, "module:Class", "FILE.py:Class" or a callable, which gets its name if another
    process can import it; a gin file is FILE.gin, "alf:NAME.gin" or one of ALF's tasks, "alf:TASK"; a run is
    the path of its directory. Beside gin files there may be an environment, which takes the place of theirs.

    Raises:
        ConfigError: if a name is none of these, or there are several environments or runs.
    """
    envs: list[Any] = []
    gin_files, runs, labels = [], [], []
    for name in map(_name_callable, names):
        path = os.path.expanduser(name) if isinstance(name, (str, os.PathLike)) else ""
        if path.startswith(EXAMPLES) or path.endswith(".gin"):
            find_gin_file(path)
            gin_files.append(path)
            labels.append(os.path.basename(path.removeprefix(EXAMPLES)).removesuffix(".gin"))
        elif path and os.path.isfile(os.path.join(path, CONFIG_FILE)):
            runs.append(path)
        else:
            envs.append(_find_env(path) if path else name)
            labels.append(str(path or getattr(name, "__name__", "env")).removesuffix("/"))
    if len(names) > 1 and (runs or len(envs) > 1):
        kind = "run" if runs else "environment"
        raise ConfigError(f"unexpected argument {str(names[-1])!r}: name one {kind}")
    gin_files += [os.path.join(run, CONFIG_FILE) for run in runs]
    return What(envs[0] if envs else None, gin_files, runs[0] if runs else None, "_".join(labels))


def _name_callable(env):
    """Returns "module:Class" for a callable that another process can import by this name; else `env`."""
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", "")
    found = getattr(sys.modules.get(module), name, None) if module != "__main__" else None
    return f"{module}:{name}" if callable(env) and found is env else env


def _find_env(name):
    """Returns the name of an environment; "module:Class" for "FILE.py:Class", whose folder it lets import."""
    file, colon, attribute = name.rpartition(":")
    if colon and file.endswith(".py"):
        return f"{_let_import(file)}:{attribute}"
    is_id = re.search(r"-v\d+$", name)
    if os.path.isdir(name) and not is_id:
        raise ConfigError(f"the folder {name!r} has no run: there is no {CONFIG_FILE}")
    if name.startswith((".", "/")):
        raise ConfigError(
            f"there is no {name!r}: name an environment, FILE.gin, alf:TASK or the folder of a run"
        )
    return name


def _let_import(path):
    """Lets this process import a file as a module, and returns the name of the module."""
    if not os.path.isfile(path):
        raise ConfigError(f"there is no file {path!r}")
    path = os.path.realpath(path)
    folder, name = os.path.dirname(path), os.path.basename(path).removesuffix(".py")
    # In front: other modules of this name are not meant.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    module = sys.modules.get(name)
    found = path if module is None else getattr(module, "__file__", None)
    if found is None or os.path.realpath(found) != path:
        raise ConfigError(f"{path} cannot be imported as {name!r}, which is {found} here: rename the file")
    return name
