# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The part of a command line that says what to train.

A command that imports this module has --gin_file, --gin_param, --env, --algorithm and --steps, and takes gin
files and settings (--NAME=VALUE) as arguments.
"""

import ast
import difflib
import os
from typing import NamedTuple

from absl import flags

from alf.bin.command import look_in_current_directory
from alf.bin.flags import share
from alf.config.hints import translate
from alf.config.parsing import parse_config
from alf.errors import ConfigError

NAMES = "gin_file", "gin_param", "env", "algorithm", "steps"
GIN_FILE, GIN_PARAM, ENV, ALGORITHM, STEPS = share(*NAMES)


class Arguments(NamedTuple):
    """What a command line names beside its flags.

    Attributes:
        gin_files: list of texts: the values of --gin_file, then the arguments.
        settings: dict from names to texts of values: of --NAME=VALUE.
    """

    gin_files: list
    settings: dict

    @property
    def says_what(self):
        """Whether flags or arguments say what to train."""
        return bool(self.gin_files or ENV.value)


def split_arguments(arguments):
    """Returns the `Arguments` of a command line without the flags that absl knows."""
    settings = {}
    for argument in arguments:
        if not argument.startswith("-"):
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        # A flag that is misspelt would else be taken for a setting, of which none has its name.
        meant = difflib.get_close_matches(name, flags.FLAGS, n=1, cutoff=0.87)
        if meant or not equals:
            hint = f"settings are flags --NAME=VALUE{translate(name)}"
            hint = f"did you mean --{meant[0]} ?" if meant else hint
            raise ConfigError(f"Unknown command line flag '{name}'; {hint}")
        settings[name] = value
    return Arguments([*GIN_FILE.value, *(x for x in arguments if not x.startswith("-"))], settings)


def check_says_what(arguments):
    """Raises ConfigError if the command line says nothing about what to train."""
    if not arguments.says_what and not GIN_PARAM.value:
        raise ConfigError(
            "nothing says what to train: write --env=CartPole-v1 --algorithm=ppo --steps=100_000, or "
            "FILE.gin; --help says more"
        )


def read_config(arguments):
    """Reads gin files, bindings and settings into gin's configuration.

    Args:
        arguments: `Arguments`.

    Returns:
        the bindings of the command line, a list of texts "NAME = VALUE".
    """
    look_in_current_directory(ENV.value)
    parse_config(arguments.gin_files, GIN_PARAM.value)
    # Where only flags say what to train, there must be an algorithm.
    algorithm = ALGORITHM.value or (None if arguments.gin_files or GIN_PARAM.value else "ppo")
    return [*GIN_PARAM.value, *read_settings(arguments.settings, algorithm)]


def read_settings(settings, algorithm):
    """Reads --env, an algorithm, --steps and settings with short names into gin's configuration.

    Args:
        settings: dict from names to texts of values.
        algorithm: text, or None for gin's.

    Returns:
        their bindings, a list of texts "NAME = VALUE".
    """
    from alf.runs.presets import find_bindings

    bindings = find_bindings(ENV.value, algorithm, STEPS.value, settings)
    lines = [f"{name} = {_to_gin(str(value))}" for name, value in bindings.items()]
    parse_config([], lines, "--NAME=VALUE")
    return lines


def make_root_dir(arguments):
    """Returns a new directory in runs/ that is named by what is trained."""
    from alf.runs.run_dir import choose_root_dir

    paths = arguments.gin_files[-1:]
    stems = [os.path.basename(path).removeprefix("alf:").removesuffix(".gin") for path in paths]
    names = [*stems, *filter(None, (ALGORITHM.value, ENV.value))]
    return choose_root_dir(*(names or ["run"]))


def _to_gin(text):
    """Returns a value as gin files write it: a word that is not a value of gin is a text."""
    is_nest = text[:1] in ("[", "(", "{") and ("@" in text or "%" in text)
    if text[:1] in ("@", "%") or is_nest:
        return text
    try:
        ast.literal_eval(text)
        return text
    except (SyntaxError, ValueError):
        return repr(text)
