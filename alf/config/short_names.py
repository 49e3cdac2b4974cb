# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Finds the settings that a user means by short names, such as "learning_rate" or "gamma"."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from alf.config import registry
from alf.config.hints import explain, find_used_macros, suggest_settings, translate
from alf.config.kinds import show
from alf.config.registry import complete, name_binding
from alf.config.settings import settings_of
from alf.config.translations import find_translations
from alf.config.values import FlagValue, read_value
from alf.errors import ConfigError, argument, is_command, known_arguments

# "seed" means the seed of the run, and not the seed of a part.
_OF_RUN = (
    "alf.training.Experiment",
    "alf.training.StopCriteria",
    "alf.environments.load",
    "alf.training.Trainer",
)
# What is not said by a setting, and names that mean one thing in ALF and another one in most other libraries.
# "--NAME" is what a user writes, also in Python.
_UNCLEAR = {
    "batch_size": "--num_envs (environments) or --mini_batch_size (of an update)",
    "checkpoint": "--initial_checkpoint (weights for a new run); a run itself goes on from its newest one",
    "decay": "--RMSprop.rho (of squared gradients), --AdamW.weight_decay or a schedule as --learning_rate",
    "entropy": "--entropy_weight (of the loss) or --target_entropy (of SAC)",
    "env": "the environment itself, as in `alf train CartPole-v1`",
    "root_dir": "--root_dir=DIR",
}


def find_full_names(
    settings: Mapping[str, Any],
    used: Collection[str],
    list_arguments: Callable[[], Collection[str]] = lambda: (),
) -> dict[str, Any]:
    """Returns `settings` by the names that gin files have for them (`find_full_name`).

    Args:
        settings: dict from names to values, of which each `FlagValue` is read.
        used: passed to `find_full_name`.
        list_arguments: callable () -> the names of the arguments of the environment's constructor, which a
            wrong name may mean.

    Raises:
        ConfigError: for all names that are wrong, also misspelt flags; for a value that is wrong or missing.
    """
    found, wrong, names = {}, [], {}
    settings = {name: _read(name, value) for name, value in settings.items()}
    macros = registry.find_macros(settings)
    for name, value in settings.items():
        shown = "VALUE" if isinstance(value, FlagValue) else value
        try:
            full = name if name in macros else find_full_name(name, used, shown)
            first = names.setdefault(registry.complete(full), name)
            if first != name:
                wrong.append(
                    f"{argument(first)} and {argument(name)} are the same setting, {full}: write one"
                )
            found[full] = value
        except ConfigError as error:
            if name in list_arguments():
                full = argument(f"load.{name}", show(value) if shown is value else shown)
                wrong.append(f"{argument(name)} is an argument of the environment: write {full}")
                continue
            meant = difflib.get_close_matches(name, known_arguments(), n=1, cutoff=0.75)
            kind = "flag" if is_command() else "argument"
            hint = f": there is no such {kind}; did you mean {argument(meant[0])} ?" if meant else ""
            wrong.append(f"{argument(name)}{hint}" if hint else str(error))
    if wrong:
        raise ConfigError("; ".join(wrong))
    # Only now: a name that is wrong is the better reason.
    for name, value in settings.items():
        if isinstance(value, FlagValue):
            raise ConfigError(f"--{name} has no value: write --{name}=VALUE")
    return found


def _read(name, value):
    """Reads the value of a setting, if it is a `FlagValue` with a text."""
    if not isinstance(value, FlagValue) or value.text is None:
        return value
    try:
        return read_value(value.text)
    except ConfigError as error:
        raise ConfigError(f"--{name}={value.text}: {error}") from None


def find_full_name(name: str, used: Collection[str], value: Any = "VALUE") -> str:
    """Returns the name in gin files of the setting that a short name means.

    A short name is the last part of a setting's name, or what another library calls a setting that means the
    same. A name with a dot, and a macro of gin's configuration, is returned as it is. A name may have scopes.

    Args:
        name: text, such as "learning_rate", "gamma", "Adam.learning_rate" or "eval/max_episode_steps".
        used: full names of settings of the run, such as those of its preset. Other settings of their classes
            are meant before those of other classes.
        value: of the setting, for errors.

    Raises:
        ConfigError: if there is no such setting, or several.
    """
    macros = find_used_macros() | {scope for scope, owner in registry.list_bindings() if owner == "gin.macro"}
    if name in macros:
        return name
    if "." in name:
        return _check(name, value)
    scope, slash, name = name.rpartition("/")
    if name in _UNCLEAR:
        text = re.sub(r"--([\w.]+)(?:=(\w+))?", lambda found: argument(*found.groups()), _UNCLEAR[name])
        raise ConfigError(f"{argument(name)} is not clear: write {text}")
    owners = dict.fromkeys([*_OF_RUN, *map(_owner, used)])
    translated = [complete(x.setting) for x in find_translations(name) if x.setting and not x.text]
    found = _list_settings(name, owners) or sorted({x for x in translated if _owner(x) in owners})
    is_used, found = bool(found), found or _list_settings(name, registry.find_own())
    if not found:
        raise ConfigError(f"{argument(name)}: there is no such setting{suggest_settings(name)}")
    known = find_translations(name)
    # The user may as well mean what the other library does.
    if not is_used and any(x.setting is None or complete(x.setting) not in found for x in known):
        own = " or ".join(argument(_shorten(x)) for x in found)
        raise ConfigError(f"{argument(name)} is not clear: write {own}{translate(name)}")
    chosen = [x for x in found if x in used] or [x for x in found if _owner(x) in _OF_RUN][:1] or found
    # `used` has no order.
    names = sorted(scope + slash + _shorten(x) for x in chosen)
    if len(names) > 1:
        raise ConfigError(f"{argument(name)} is not clear: write {' or '.join(map(argument, names))}")
    return names[0]


def _check(name, value):
    """Returns the name of a binding; raises ConfigError if gin knows none of that name."""
    try:
        try:
            registry.check_name(name)
        except ValueError:
            # Only then, because the import takes seconds.
            if not registry.import_tf_agents():
                raise
            registry.check_name(name)
    except (KeyError, ValueError) as error:
        text = argument(name, value if isinstance(value, str) else show(value))
        raise ConfigError(f"{argument(name)}: {explain(error, text)}") from None
    return name


def _list_settings(name, owners):
    """Returns the full names of the settings `name` of some configurables."""
    return [f"{owner}.{name}" for owner in owners if name in settings_of(owner)]


def _shorten(full_name):
    return name_binding("", _owner(full_name), full_name.rpartition(".")[2])


def _owner(full_name):
    return full_name.rpartition("/")[2].rpartition(".")[0]
