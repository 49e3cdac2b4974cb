# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Compares configurations: dicts from the names of bindings to the texts of their values.

A configuration of an older version lacks the settings that are newer. What it lacks has its default value.
"""

import re
from collections.abc import Callable

from alf.config import registry
from alf.config.registry import complete
from alf.config.renames import renew
from alf.config.settings import Role, find_role, find_setting
from alf.errors import ConfigError

Config = dict[str, str]
_SHOWN = 5  # differences in an error
_ALGORITHM = re.compile(r"(?:.*[./])?(\w+Algorithm)\.\w+")


def parse_settings(config: str) -> Config:
    """Reads the text of a gin file without its comments: a dict from the names of bindings to values.

    Bindings of older versions get their present names.
    """
    # Gin indents the lines that continue a value.
    statements = re.sub(r"\\?\n +", " ", config).splitlines()
    pairs = [line.split("=", 1) for line in statements if "=" in line and not line.startswith("#")]
    return renew({name.strip(): " ".join(value.split()) for name, value in pairs})


def find_default(name: str) -> str | None:
    """Returns the text of a setting's default by the name of a binding; None if it is unknown."""
    setting = find_setting(name)
    if setting is None or not setting.has_default:
        return None
    gin_name = registry.find_gin_name(setting.default) if callable(setting.default) else None
    return f"@{gin_name}" if gin_name else repr(setting.default)


def find_algorithms(config: Config) -> list[str]:
    """Returns the names of the algorithms whose settings a configuration has, sorted: ["PPOAlgorithm"]."""
    names = {match[1] for name in config if (match := _ALGORITHM.fullmatch(name))}
    return sorted(names)


def find_differences(ours: Config, theirs: Config, matters: Callable[[Role], bool]) -> list[str]:
    """Returns texts "NAME is VALUE here, VALUE there" of the settings that differ, sorted.

    Args:
        ours, theirs: configurations.
        matters: callable (`Role`) -> whether a difference in a setting of this role counts.
    """
    theirs = renew(theirs)  # of a file that may be older
    shown = {complete(name): name for name in [*theirs, *ours]}
    ours, theirs = ({complete(name): text for name, text in x.items()} for x in (ours, theirs))
    own, others = (" and ".join(find_algorithms(x)) for x in (ours, theirs))
    # With the defaults of two algorithms no setting differs.
    is_other = bool(own and others and own != others)
    found = [f"the algorithm is {own} here, {others} there"] * is_other
    for name in sorted(shown):
        here, there = (x.get(name, find_default(name)) for x in (ours, theirs))
        if here != there and matters(find_role(name)):
            found.append(f"{shown[name]} is {here} here, {there} there")
    return found


def check_same(what: str, ours: Config, theirs: Config, matters: Callable[[Role], bool]) -> None:
    """Raises ConfigError that shows the differences of two configurations, if there are any.

    Arguments are as in `find_differences`; `what` begins the message, "root_dir 'x' holds a run".
    """
    found = find_differences(ours, theirs, matters)
    if found:
        raise ConfigError(f"{what} of another config ({'; '.join(found[:_SHOWN])}): choose another root_dir")
