# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Flags of the commands: shared ones, `--help` and `--version`, and flags with an optional value.

absl's own `--help` and `--version` end the process with status 1; those of this module end it with 0.
"""

import functools
import os
import sys
import textwrap

from absl import app, flags

from alf.version import __version__

_WIDTH = 100


class _Path(flags.ArgumentParser):
    """A path, in which ~ is the home directory: shells do not replace it after `--NAME=`."""

    def parse(self, argument):
        return os.path.expanduser(argument)


# From the name of a flag to the function that defines it, its default and its help.
_SHARED = {
    "root_dir": (functools.partial(flags.DEFINE, _Path()), None, "Directory of the run."),
    "env": (
        flags.DEFINE_string,
        None,
        "Environment: an id such as CartPole-v1 or ALE/Pong-v5, or module:Class of your own.",
    ),
    "algorithm": (
        flags.DEFINE_string,
        None,
        "ppo (if only --env is given), impala, sac or dqn, with settings that learn.",
    ),
    "steps": (
        functools.partial(flags.DEFINE_integer, lower_bound=1),
        None,
        "Environment steps after which training ends.",
    ),
    "gin_param": (flags.DEFINE_multi_string, [], "A gin binding, NAME=VALUE; may be repeated."),
    "gin_file": (
        flags.DEFINE_multi_string,
        [],
        "Path of a gin file, alf:NAME.gin for one of ALF's examples, or alf:TASK; may be repeated.",
    ),
    "ray_address": (
        flags.DEFINE_string,
        None,
        "Ray cluster to use, such as 'auto'; without it Ray starts on this machine.",
    ),
    "checkpoint": (flags.DEFINE_string, "newest", "newest, best, a train iteration, or a path."),
    "overwrite": (flags.DEFINE_bool, False, "Replaces the files of an earlier call."),
    "sample": (flags.DEFINE_bool, False, "Explores as in training, in place of acting as well as it can."),
    "policy": (
        flags.DEFINE_string,
        None,
        "The policies that act, if a run has several or a game has several agents: PLAYER, or "
        "AGENT=PLAYER,... A PLAYER is the name of a policy ('policy' if there is one), NAME@CHECKPOINT, or "
        "random.",
    ),
    "seed": (
        functools.partial(flags.DEFINE_integer, lower_bound=0),
        None,
        "Seed of the environments; without it they have another seed each time.",
    ),
    "num_episodes": (
        functools.partial(flags.DEFINE_integer, lower_bound=1),
        None,
        "Episodes: without it alf-play has 1, and alf-evaluate 100.",
    ),
}
flags.disclaim_key_flags()  # So that --help shows a shared flag among those of the command that takes it.


def share(*names):
    """Defines flags of `_SHARED` for the command whose module calls this; returns their `flags.FlagHolder`s.

    Others are not defined, so that absl refuses a flag that the command would not read.
    """
    for name in names:
        if name not in flags.FLAGS:  # In a test another command may have defined it.
            define, default, text = _SHARED[name]
            define(name, default, text)
        # A key flag of the module that calls this: so the command's --help shows it.
        flags.declare_key_flag(name)
    return [flags.FlagHolder(flags.FLAGS, flags.FLAGS[name]) for name in names]


def show(text):
    """Prints a text. Its reader may close the pipe early, for example `alf-train --help | head -1`."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # At exit Python writes the rest of its buffer, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Shows(flags.BooleanFlag):
    """A flag that prints a text and ends the process. It takes the place of absl's flag of that name."""

    def __init__(self, name, make_text, help_text, short_name=None):
        super().__init__(name, False, help_text, short_name=short_name, allow_override=True)
        self._make_text = make_text

    def parse(self, arg):
        if self._parse(arg):
            show(self._make_text())
            # At once: `--help` must also work beside unknown flags.
            sys.exit(0)


class OptionalText(flags.Flag):
    """A flag with an optional text, "" without one: `--NAME`, `--NAME=TEXT` or `--NAME TEXT`.

    The value is None if the flag is not given.
    """

    def __init__(self, name, help_text):
        # For absl a boolean flag, because only these may stand without a value.
        super().__init__(flags.ArgumentParser(), None, name, None, help_text, boolean=True)

    def _parse(self, argument):
        return "" if argument == "true" else argument  # absl gives "true" to a flag without a value.


def join_optional_texts(argv):
    """Returns `argv` with `--NAME TEXT` joined to `--NAME=TEXT` for each `OptionalText`."""
    joined = []
    for argument in argv:
        name = joined[-1].lstrip("-") if joined and joined[-1].startswith("-") else None
        # absl gives such a flag no value from the next argument.
        is_optional = name in flags.FLAGS and isinstance(flags.FLAGS[name], OptionalText)
        if is_optional and not argument.startswith("-"):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def define_help(module):
    """Defines --help and --version for the command in the module of this name, before flags are parsed."""
    app.define_help_flags()  # Otherwise absl would define its own flags later.
    for flag in (
        _Shows("help", lambda: describe(module), "Shows this help.", short_name="?"),
        _Shows("h", lambda: describe(module), "The same as --help."),
        _Shows("helpshort", lambda: describe(module), "The same as --help."),
        _Shows("helpfull", lambda: describe_all(module), "Shows the flags of absl and others, too."),
        _Shows("version", lambda: f"ALF {__version__}", "Shows the version of ALF."),
    ):
        flags.DEFINE_flag(flag, module_name=__name__)


def describe(module):
    """Returns the help of a command: the docstring of its module and the command's own flags."""
    own = flags.FLAGS.get_key_flags_for_module(module)
    own += [flags.FLAGS[name] for name in ("help", "helpfull", "version")]
    lines = [sys.modules[module].__doc__.strip(), "", "Flags:"]
    for flag in sorted(own, key=lambda flag: flag.name):
        lines += ["", *_describe_flag(flag)]
    return "\n".join(lines)


def describe_all(module):
    """Returns the docstring of a command and the help of all flags that this process has."""
    return f"{sys.modules[module].__doc__.strip()}\n\n{flags.FLAGS.get_help()}"


def _describe_flag(flag):
    text = flag.help.partition(";\n")[0]  # absl appends to the help of a flag that may be repeated.
    if not flag.boolean and flag.default not in (None, []):
        text += f" Default: {flag.default}."
    value = "[=TEXT]" if isinstance(flag, OptionalText) else "" if flag.boolean else f"={flag.name.upper()}"
    name = f"  --{flag.name}{value}"
    return [name, *textwrap.wrap(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)]
