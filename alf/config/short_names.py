# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Finds the setting that a user means by a short name, such as "learning_rate" or "gamma"."""

from collections.abc import Collection

from alf.config import registry
from alf.config.hints import suggest_settings
from alf.config.registry import complete, name_binding
from alf.config.settings import settings_of
from alf.config.translations import find_translations
from alf.errors import ConfigError

# "seed" means the seed of the run, and not the seed of a part.
_OF_RUN = (
    "alf.training.Experiment",
    "alf.training.StopCriteria",
    "alf.environments.load",
    "alf.training.Trainer",
)
# Names that mean one thing in ALF and another one in most other libraries.
_UNCLEAR = {"batch_size": "--num_envs (environments) or --mini_batch_size (of an update)"}


def find_full_name(name: str, used: Collection[str]) -> str:
    """Returns the name in gin files of the setting that a short name means.

    A short name is the last part of a setting's name, or what another library calls a setting that means the
    same. A name with a dot is returned as it is.

    Args:
        name: text, such as "learning_rate", "gamma" or "Adam.learning_rate".
        used: full names of settings of the run, such as those of its preset. Other settings of their classes
            are meant before those of other classes.

    Raises:
        ConfigError: if there is no such setting, or several.
    """
    if "." in name:
        return name
    if name in _UNCLEAR:
        raise ConfigError(f"--{name} is not clear: write {_UNCLEAR[name]}")
    owners = dict.fromkeys([*_OF_RUN, *map(_owner, used)])
    translated = [complete(x.setting) for x in find_translations(name) if x.setting and not x.text]
    found = (
        _list_settings(name, owners)
        or sorted({x for x in translated if _owner(x) in owners})
        or _list_settings(name, registry.find_own())
    )
    if not found:
        raise ConfigError(f"--{name}: there is no such setting{suggest_settings(name)}")
    chosen = [x for x in found if x in used] or [x for x in found if _owner(x) in _OF_RUN][:1] or found
    names = sorted(name_binding("", _owner(x), x.rpartition(".")[2]) for x in chosen)  # `used` has no order
    if len(names) > 1:
        raise ConfigError(f"--{name} is not clear: write {' or '.join(f'--{x}' for x in names)}")
    return names[0]


def _list_settings(name, owners):
    """Returns the full names of the settings `name` of some configurables."""
    return [f"{owner}.{name}" for owner in owners if name in settings_of(owner)]


def _owner(full_name):
    return full_name.rpartition("/")[2].rpartition(".")[0]
