# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Compares configurations, dicts from the names of bindings to the texts of their values.

A setting that a configuration lacks has its default.
"""

import re
from collections.abc import Callable

from alf.config.registry import complete
from alf.config.settings import Role, find_role, find_setting
from alf.errors import FolderError

Config = dict[str, str]
_SHOWN = 5  # the largest number of differences in an error
_ALGORITHM = re.compile(r"(?:.*[./])?(\w+Algorithm)\.\w+")


def parse_settings(config: str) -> Config:
    """Reads the bindings in the text of a gin file: a dict from name to the text of the value."""
    # Gin breaks long values into lines, of which it indents all but the first.
    statements = re.sub(r"\\?\n +", " ", config).splitlines()
    # The headings that gin writes are comments, underlined by "=".
    pairs = [line.split("=", 1) for line in statements if "=" in line and not line.startswith("#")]
    return {name.strip(): " ".join(value.split()) for name, value in pairs}


def find_default(name: str) -> str | None:
    """Returns the text of a setting's default by the name of its binding, None if it is unknown."""
    setting = find_setting(name)
    return None if setting is None else setting.default_text


def find_algorithms(config: Config) -> list[str]:
    """Returns the sorted names of the algorithms whose settings are in a configuration: ["PPOAlgorithm"]."""
    names = {match[1] for name in config if (match := _ALGORITHM.fullmatch(name))}
    return sorted(names)


def find_differences(ours: Config, theirs: Config, matters: Callable[[Role], bool]) -> list[str]:
    """Lists the settings that differ as texts "NAME is VALUE here, VALUE there", sorted.

    Args:
        ours, theirs: configurations.
        matters: callable (`Role`) -> bool, whether a difference in a setting of this role counts.
    """
    # Two runs may write the same setting by a short and by a long name.
    shown = {complete(name): name for name in [*theirs, *ours]}
    ours, theirs = ({complete(name): text for name, text in x.items()} for x in (ours, theirs))
    own, others = (" and ".join(find_algorithms(x)) for x in (ours, theirs))
    # Two algorithms with default settings would not differ in any setting below.
    is_other = bool(own and others and own != others)
    found = [f"the algorithm is {own} here, {others} there"] * is_other
    for name in sorted(shown):
        here, there = (x.get(name, find_default(name)) for x in (ours, theirs))
        if here != there and matters(find_role(name)):
            found.append(f"{shown[name]} is {here} here, {there} there")
    return found


def check_same(
    folder: str, holds: str, ours: Config, theirs: Config, matters: Callable[[Role], bool], remedy: str = ""
) -> None:
    """Raises FolderError if two configurations differ.

    Args:
        folder: path of the work whose configuration is `theirs`.
        holds: text, such as "holds a run".
        ours, theirs, matters: passed to `find_differences`.
        remedy: text, what else the user may do, the end of the error.
    """
    found = find_differences(ours, theirs, matters)
    if found:
        differences = "; ".join(found[:_SHOWN])
        rule = f"choose another root_dir{remedy}"
        raise FolderError(folder, f"{holds} of another config ({differences}): {rule}")
