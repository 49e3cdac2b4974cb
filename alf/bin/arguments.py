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
    from alf.config.parsing import parse_config

    parse_config(what.gin_files)
    return read_settings(arguments, known, what)


def find_what(arguments):
    """Returns the `What` that arguments name. A module may be in the current directory; others come first."""
    from alf.runs import what

    if any(":" in name for name in arguments.names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return what.find_what(*arguments.names)


def read_settings(arguments, known, what=None):
    """Binds --algorithm, --steps and settings; with a `What` also its environment, for which there is ppo.

    Args:
        arguments, known: as in `read_what`.
        what: `What`, or None.

    Returns:
        a dict from full names to values.
    """
    from alf.config.parsing import bind
    from alf.runs.presets import PRESET, find_bindings

    env = None if what is None else what.env
    algorithm, steps = (known[name].value if name in known else None for name in ("algorithm", "steps"))
    if algorithm is None and env is not None and not what.gin_files:
        algorithm = PRESET
    settings = {name: _read(name, text) for name, text in arguments.settings.items()}
    bindings = find_bindings(env, algorithm, steps, settings, known)
    # Only now: a name that is wrong is the better reason.
    for name, text in arguments.settings.items():
        if text is None:
            raise ConfigError(f"--{name} has no value: write --{name}=VALUE")
    bind(bindings)
    return bindings


def read_values(arguments, known):
    """Reads the settings of a command line, for the function that does the work. Call it after `start_work`.

    Args:
        arguments: `Arguments`.
        known: the subcommand's flags, a `flags.FlagValues`.

    Returns:
        a dict from short names to values.

    Raises:
        ConfigError: if settings have no value.
    """
    from alf.config.registry import import_settings
    from alf.config.short_names import find_full_names

    valueless = [name for name, text in arguments.settings.items() if text is None]
    if valueless:
        import_settings()
        find_full_names(arguments.settings, (), known)  # a name that is wrong is the better reason
        raise ConfigError(f"--{valueless[0]} has no value: write --{valueless[0]}=VALUE")
    return {name: _read(name, text) for name, text in arguments.settings.items()}


def _read(name, text):
    from alf.config.values import read_value

    try:
        return text and read_value(text)
    except ConfigError as error:
        raise ConfigError(f"--{name}={text}: {error}") from None
