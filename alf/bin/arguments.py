# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The part of a command line that is not flags: what it is about, and settings."""

import difflib
import os
import re
import sys
from typing import NamedTuple

from alf.errors import ConfigError


class Arguments(NamedTuple):
    """What a command line has beside the flags of its subcommand.

    Attributes:
        names: list of texts: what the command is about.
        settings: dict from the names of settings to the texts of their values, None without a value: of
            --NAME=VALUE and --NAME VALUE.
    """

    names: list
    settings: dict


def split_arguments(arguments):
    """Returns the `Arguments` of a command line without flags."""
    names, settings = [], {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-"):
            names.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        # What follows is the value, unless it is a flag: "-200" is none.
        if not equals and rest and not re.match("--?[A-Za-z]", rest[0]):
            equals, value = True, rest.pop(0)
        settings[name.strip()] = value if equals else None  # also "--NAME = VALUE", a line of a gin file
    return Arguments(names, settings)


def refuse_settings(arguments, known):
    """Raises ConfigError for all flags that a subcommand, which has no settings, does not know.

    Args:
        arguments: `Arguments`.
        known: the subcommand's flags, a `flags.FlagValues`.
    """
    wrong = []
    for name in arguments.settings:
        meant = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; did you mean --{meant[0]} ?" if meant else ""
        wrong.append(f"--{name}: there is no such flag{hint}")
    if wrong:
        raise ConfigError("; ".join(wrong))


def take_one(arguments, words):
    """Returns the one argument of a command; ConfigError asks for it by `words`, "the folder of a run"."""
    if not arguments.names:
        raise ConfigError(f"name {words}")
    if len(arguments.names) > 1:
        raise ConfigError(f"unexpected argument {arguments.names[1]!r}: name one")
    return arguments.names[0]


def check_says_what(arguments):
    """Raises ConfigError if the command line says nothing about what to train.

    Settings alone may: a run without environments trains on data.
    """
    if not arguments.names and not arguments.settings:
        raise ConfigError(
            "nothing says what to train: name an environment (alf train CartPole-v1), FILE.gin, a task "
            "(alf:CartPole-v1) or the folder of a run"
        )


def read_what(what, arguments, known):
    """Reads what a command line names, and its settings, into gin's configuration.

    Args:
        what: `What`.
        arguments: `Arguments`.
        known: the subcommand's flags, a `flags.FlagValues`, which may have "algorithm" and "steps".

    Returns:
        the settings of the command line, a dict from full names to values.
    """
    from alf.runs import presets

    algorithm, steps = (known[name].value if name in known else None for name in ("algorithm", "steps"))
    return presets.read_what(what, algorithm, steps, list_settings(arguments))


def find_what(arguments):
    """Returns the `What` that arguments name. A module may be in the current directory; others come first."""
    from alf.runs import what

    if any(":" in name for name in arguments.names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return what.find_what(*arguments.names)


def list_settings(arguments):
    """Returns the settings of a command line, a dict from names to `FlagValue`s, for `find_full_names`."""
    from alf.config.values import FlagValue

    return {name: FlagValue(text) for name, text in arguments.settings.items()}
