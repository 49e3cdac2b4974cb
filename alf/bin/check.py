# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Checks an environment: `alf check CartPole-v1` or `alf check FILE.gin`.

Steps the environment that alf.environments.load would make, at random, in a process of its own. Prints its
faults, the settings that suit it, and the cost of a step and a reset. --NAME=VALUE changes them. The
exit status is 0 without faults, 1 with faults, 2 if a setting is wrong, 130 after Ctrl-C.
"""

from absl import flags

from alf.bin.arguments import find_what, list_settings
from alf.bin.command import start_work
from alf.bin.flags import make_flags
from alf.errors import ConfigError

FLAGS = make_flags()
flags.DEFINE_integer("num_steps", 1000, "Random steps, at least 1.", flag_values=FLAGS)
flags.DEFINE_float("max_seconds", 60.0, "Seconds after which no more steps are taken.", flag_values=FLAGS)
flags.DEFINE_float("step_timeout", 60.0, "Seconds that a step or a reset may take.", flag_values=FLAGS)
flags.DEFINE_float("start_timeout", 120.0, "Seconds that the constructor may take.", flag_values=FLAGS)

_OF_CHECK = ("num_steps", "max_seconds", "step_timeout", "start_timeout")


def run(arguments):
    """Checks as the flags say; returns the exit status."""
    if not arguments.names:
        raise ConfigError("name the environment (alf check CartPole-v1), or FILE.gin")
    values = {name: FLAGS[name].value for name in FLAGS if name in _OF_CHECK}
    # What can be wrong without TensorFlow, whose import takes seconds.
    find_what(arguments)
    start_work()
    from alf.tools.env_check import check

    report = check(*arguments.names, **values, **list_settings(arguments))
    print(report)
    return int(bool(report.problems))
