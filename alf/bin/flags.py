# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Flags of the subcommands, and the help that lists them."""

import os
import textwrap

from absl import flags

_WIDTH = 100


class _Path(flags.ArgumentParser):
    """A path, in which ~ is the home directory: shells do not replace it after `--NAME=`."""

    def parse(self, argument):
        return os.path.expanduser(argument)


# Flags of several subcommands: from the name to a function that defines it, the default, the help and further
# arguments of absl.
_SHARED = {
    "algorithm": (
        flags.DEFINE_string,
        None,
        "ppo (if only an environment is named), impala, sac or dqn, with settings that learn.",
        {},
    ),
    "steps": (
        flags.DEFINE_integer,
        None,
        "Environment steps after which training ends.",
        {"lower_bound": 1},
    ),
    "ray_address": (
        flags.DEFINE_string,
        None,
        "Address of a Ray cluster; 'auto': the one of this machine; 'local': starts Ray here.",
        {},
    ),
    "run_cores": (
        flags.DEFINE_float,
        None,
        "Cores of each run, which it has to itself; below 1 a share of all. By default 1, or an equal share "
        "of fewer cores than a population has members.",
        {},
    ),
    "max_cores": (
        flags.DEFINE_integer,
        None,
        "Cores for all runs; by default all of this process or of the cluster.",
        {},
    ),
    "run_gpus": (flags.DEFINE_float, 0, "GPUs of each run, which sees no others; may be below 1.", {}),
    "run_memory": (flags.DEFINE_float, None, "GB that each run is expected to need.", {}),
    "max_memory": (flags.DEFINE_float, None, "GB for all runs; needs --run_memory.", {}),
    "checkpoint": (flags.DEFINE_string, "newest", "newest, best, a train iteration, or a path.", {}),
    "overwrite": (flags.DEFINE_bool, False, "Replaces the files of an earlier call.", {}),
    "sample": (
        flags.DEFINE_bool,
        False,
        "Explores as in training, in place of acting as well as it can.",
        {},
    ),
    "policy": (
        flags.DEFINE_string,
        None,
        "The policies that act, if a run has several or a game has several agents: PLAYER, or "
        "AGENT=PLAYER,... A PLAYER is the name of a policy ('policy' if there is one), NAME@CHECKPOINT, or "
        "random.",
        {},
    ),
    "seed": (
        flags.DEFINE_integer,
        None,
        "Seed of the environments; without it they have another seed each time.",
        {"lower_bound": 0},
    ),
}


def make_flags(*names, output=None):
    """Makes the flags of a subcommand, a `flags.FlagValues`: shared ones, and -o if `output` is its help.

    Each subcommand has its own, so that flags of the same name may differ, and that one which a command would
    not read is an unknown one.
    """
    made = flags.FlagValues()
    made.set_gnu_getopt(True)  # flags may come after arguments
    for name in names:
        define, default, text, settings = _SHARED[name]
        define(name, default, text, flag_values=made, **settings)
    if output is not None:
        flags.DEFINE(_Path(), "output", None, output, flag_values=made, short_name="o")
    return made


def describe(command):
    """Returns the help of a subcommand: the docstring of its module, and its flags."""
    lines = [command.__doc__.strip(), "", "Flags:"]
    for name in sorted(command.FLAGS):
        if name == command.FLAGS[name].name:  # rather than its short name
            lines += ["", *_describe_flag(command.FLAGS[name])]
    lines += ["", *_describe("--helpfull", "Shows the flags of absl and others, too.")]
    return "\n".join(lines)


def describe_all(command):
    """Returns the help of a subcommand with all flags that this process has."""
    return f"{describe(command)}\n\n{flags.FLAGS.get_help()}"


def _describe_flag(flag):
    text = flag.help.partition(";\n")[0]  # absl appends to the help of a flag that may be repeated.
    if not flag.boolean and flag.default not in (None, []):
        text += f" Default: {flag.default}."
    value = "" if flag.boolean else f"={flag.name.upper()}"
    return _describe(f"-{flag.short_name}, " * bool(flag.short_name) + f"--{flag.name}{value}", text)


def _describe(name, text):
    return [f"  {name}", *textwrap.wrap(text, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)]
