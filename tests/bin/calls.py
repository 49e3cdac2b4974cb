# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Calls of subcommands in this process."""

import contextlib

from absl import flags
from absl.testing import flagsaver

from alf.bin.command import parse, run


def list_arguments(module, *arguments, what=(), settings=(), **values):
    """The command line of a subcommand: arguments, settings as lines of gin files, and flags by name."""
    line = [*map(str, arguments), *([what] if isinstance(what, str) else map(str, what))]
    line += [f"--{setting}" for setting in settings]
    for name, value in values.items():
        if isinstance(value, bool):
            line.append(f"--{'' if value else 'no'}{name}")
        elif isinstance(module.FLAGS[name], flags.MultiFlag):
            line += [f"--{name}={x}" for x in value]
        elif value is not None:
            line.append(f"--{name}={','.join(value) if isinstance(value, list) else value}")
    return line


def call(module, *arguments, **values):
    """Runs the subcommand of a module, see `list_arguments`; returns the exit status."""
    saved = flagsaver.save_flag_values(module.FLAGS)
    levels = flagsaver.save_flag_values(flags.FLAGS)
    with contextlib.ExitStack() as stack:
        stack.callback(flagsaver.restore_flag_values, levels)
        stack.callback(flagsaver.restore_flag_values, saved, module.FLAGS)
        try:
            return run(module, parse(module, ["alf", *list_arguments(module, *arguments, **values)]))
        except SystemExit as ended:  # a flag is wrong
            return ended.code
