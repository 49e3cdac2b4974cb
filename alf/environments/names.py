# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the name of an environment means: a class or function of a module, or an id of Gymnasium."""

import contextlib
import difflib
import glob
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import re
import warnings
from typing import Any

import gymnasium

from alf.errors import ConfigError, import_extra


def find_callable(name: Any) -> Any:
    """Returns the callable of "module:Class", the id of "dm_control:TASK"; any other `name` as it is.

    Raises:
        ConfigError: if there is no such module. Errors of the module pass through.
    """
    if isinstance(name, str) and name.startswith("dm_control:"):
        return _find_dm_control_id(name.removeprefix("dm_control:"))
    module, _, attribute = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not module or module in ("envpool", "pettingzoo") or name.startswith("pettingzoo:"):
        return name
    # A module that registers ids may also have an attribute of that name; then the id is meant.
    found = getattr(_import(module, name), attribute, None)
    return found if callable(found) and attribute not in gymnasium.registry else name


def find_spec(name: Any) -> gymnasium.envs.registration.EnvSpec:
    """Returns Gymnasium's spec of an id, or of "module:id", whose module it imports.

    Raises:
        ConfigError: if there is no such id.
    """
    module, _, env_id = str(name).rpartition(":")
    if module:
        # The import registers the id. Worker processes get the spec itself, and need not import the module.
        _import(module, name)
    elif env_id not in gymnasium.registry:
        # Gymnasium before version 1 called the functions by which packages such as MinAtar register ids.
        namespace = env_id.partition("/")[0]
        for register in importlib.metadata.entry_points(group="gymnasium.envs", name=namespace):
            register.load()()
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise ConfigError(
            f"load.name: no Gymnasium environment {name!r} ({error}){_suggest(module, env_id)}"
        ) from error


def find_newer(spec: gymnasium.envs.registration.EnvSpec) -> str | None:
    """Returns the id of the newest version of an environment; None if it is this one."""
    others = [x for x in gymnasium.registry.values() if (x.namespace, x.name) == (spec.namespace, spec.name)]
    newest = max(others, key=lambda x: x.version or 0)
    return newest.id if (newest.version or 0) > (spec.version or 0) else None


def list_arguments(name: Any) -> list[str]:
    """Returns the names of the arguments that an environment's constructor has; [] if nobody can tell."""
    with contextlib.suppress(Exception):  # only for a hint: another error tells what is wrong
        make = find_callable(name)
        if not callable(make):
            make = gymnasium.envs.registration.load_env_creator(str(find_spec(make).entry_point))
        return list(inspect.signature(make).parameters)
    return []


def _find_dm_control_id(task):
    """Returns the Gymnasium id of a task of dm_control's suite, "DOMAIN/TASK"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dm_control looks for a screen, which only its viewer needs
        for module in ("dm_control", "shimmy"):  # shimmy registers the ids if dm_control is there
            import_extra(module, "dm_control")
    return f"dm_control/{task.replace('/', '-')}-v0"


def _import(module, name):
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):  # a module that this one imports
            raise
        raise ConfigError(
            f"load.name is {name!r}: there is no module {error.name!r}: name a module that Python finds, or "
            "FILE.py:Class"
        ) from error


def _suggest(module, env_id):
    """Returns the end of a message: what is meant by an id that Gymnasium does not know."""
    if module:
        names = [x for x, found in vars(importlib.import_module(module)).items() if inspect.isclass(found)]
        close = [f"{module}:{x}" for x in difflib.get_close_matches(env_id, names)]
        return f": {module} has no {env_id!r}, and registers no such id{_offer(close)}"
    # An older id of an Atari game: "PongNoFrameskip-v4", "Pong-ramDeterministic-v4", "Pong-v0".
    game = re.fullmatch(r"(\w+?)(?:-ram)?(NoFrameskip|Deterministic)?-v\d+", env_id)
    if game and (game[2] or _is_game(game[1])):
        return f": write ALE/{game[1]}-v5"
    close = _offer(difflib.get_close_matches(env_id, list(gymnasium.registry), cutoff=0.75))
    return close or ": an id of your own needs its module in front, MODULE:ID; a class is FILE.py:CLASS"


def _offer(names):
    return f"; did you mean {' or '.join(names)} ?" if names else ""


def _is_game(name):
    """Returns whether ale-py has a game."""
    spec = importlib.util.find_spec("ale_py")  # not imported: that would register ids
    roms = glob.glob(f"{os.path.dirname(spec.origin)}/roms/*.bin") if spec and spec.origin else []
    return name.lower() in {os.path.basename(path)[: -len(".bin")].replace("_", "") for path in roms}
