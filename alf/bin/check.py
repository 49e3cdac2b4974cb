# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Checks an environment: `alf check CartPole-v1` or `alf check FILE.gin`.

Steps the environment that alf.environments.load would make, at random, in a process of its own. Prints its
faults, the settings that suit it, and the cost of a step and a reset. --NAME=VALUE changes them. The
exit status is 0 without faults, 1 with faults, 2 if a setting is wrong, 130 after Ctrl-C.
"""

import functools

import gin
from absl import flags

from alf.bin.arguments import find_what, read_settings
from alf.bin.command import arguments_are_flags, start_work
from alf.bin.flags import make_flags
from alf.config.parsing import check_dead_bindings, parse_config, wrong_calls_are_config_errors
from alf.config.registry import bind_arguments, complete, find_argument
from alf.errors import ConfigError

FLAGS = make_flags()
flags.DEFINE_integer("num_steps", 1000, "Random steps, at least 1.", flag_values=FLAGS)
flags.DEFINE_float("max_seconds", 60.0, "Seconds after which no more steps are taken.", flag_values=FLAGS)
flags.DEFINE_float("step_timeout", 60.0, "Seconds that a step or a reset may take.", flag_values=FLAGS)
flags.DEFINE_float("start_timeout", 120.0, "Seconds that the constructor may take.", flag_values=FLAGS)

_OF_CHECK = ("num_steps", "max_seconds", "step_timeout", "start_timeout")
_BATCH_SIZE = 32
_SIZES = ("alf.training.Experiment.num_envs", "alf.training.Experiment.num_groups")
# Arguments that `load` uses itself; the others go to the constructor of the environments.
_OF_BATCHES = ("seed", "num_workers", "render_mode", "max_random_steps")


def run(arguments):
    """Checks as the flags say; returns the exit status."""
    if not arguments.names:
        raise ConfigError("name the environment (alf check CartPole-v1), or FILE.gin")
    what = find_what(arguments)
    start_work()
    from alf.tools.env_check import check_env

    parse_config(what.gin_files)
    bindings = read_settings(arguments, FLAGS)
    with wrong_calls_are_config_errors():
        name, settings = _read_settings(what.env)
        values = {name: FLAGS[name].value for name in _OF_CHECK}
        with arguments_are_flags(*values):
            report = check_env(name, **values, **settings)
    # After the check, in which the environment's constructor has read its bindings.
    check_dead_bindings([x for x in bindings if complete(x) not in _SIZES])
    print(report)
    return int(bool(report.problems))


def _read_settings(env):
    """Returns the name of an environment, and gin's other bindings of `load` as settings of `check_env`.

    It is `env`, or gin's if that is None.
    """
    from alf.environments import load
    from alf.runs.groups import split_in_groups
    from alf.training import Experiment

    make_env = gin.get_bindings("Experiment").get("env", load)
    if make_env is not load and env is None:
        raise ConfigError(
            "Experiment.env is not alf.environments.load: alf check checks single environments, "
            "alf.testing.EnvironmentContract tests batched ones"
        )
    given = {} if env is None else {"name": env}
    # What gin would add to a call of `load`, without the call.
    bound = bind_arguments(functools.partial(load, **given)).keywords
    if "name" not in bound:
        raise ConfigError(
            'alf.environments.load.name is missing: write alf.environments.load.name = "CartPole-v1" in the '
            "gin file, or name the environment, too"
        )
    settings = {key: x for key, x in bound.items() if key not in ("name", *_OF_BATCHES)}
    num_groups, num_envs = (find_argument(Experiment, name) for name in ("num_groups", "num_envs"))
    _, size = split_in_groups(load, num_groups, num_envs or None)
    return bound["name"], {**(size if num_envs else {"batch_size": _BATCH_SIZE}), **settings}
