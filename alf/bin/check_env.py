# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Checks an environment: `alf-check-env --env=CartPole-v1` or `alf-check-env --gin_file=FILE`.

Steps the environment that alf.environments.load would make, at random, in a process of its own. Prints its
faults, the settings that suit it, and the cost of a step and a reset. --gin_param binds its settings. The
exit status is 0 without faults, 1 with faults, 2 if a setting is wrong, 130 after Ctrl-C.
"""

import functools

import gin
from absl import flags

from alf.bin.command import (
    arguments_are_flags,
    look_in_current_directory,
    make_main,
    start,
    start_work,
)
from alf.bin.flags import share
from alf.config.parsing import check_dead_bindings, parse_config, wrong_calls_are_config_errors
from alf.config.registry import bind_arguments
from alf.errors import ConfigError

ENV, GIN_FILE, GIN_PARAM = share("env", "gin_file", "gin_param")
_NUM_STEPS = flags.DEFINE_integer("num_steps", 1000, "Random steps, at least 1.")
_SECONDS = flags.DEFINE_float("max_seconds", 60.0, "Seconds after which no more steps are taken.")
_STEP_TIMEOUT = flags.DEFINE_float("step_timeout", 60.0, "Seconds that a step or a reset may take.")
_START_TIMEOUT = flags.DEFINE_float("start_timeout", 120.0, "Seconds that the constructor may take.")

_BATCH_SIZE = 32
# Arguments that `load` uses itself; the others go to the constructor of the environments.
_OF_BATCHES = ("seed", "num_workers", "render_mode", "max_random_steps")


def run():
    """Checks as the flags say; returns the exit status."""
    if not GIN_FILE.value and ENV.value is None:
        raise ConfigError("name --gin_file, or the environment: --env=CartPole-v1")
    start_work()
    from alf.tools.env_check import check_env

    look_in_current_directory(ENV.value)
    parse_config(GIN_FILE.value, GIN_PARAM.value)
    with wrong_calls_are_config_errors():
        name, settings = _read_settings()
        values = {flag.name: flag.value for flag in (_NUM_STEPS, _SECONDS, _STEP_TIMEOUT, _START_TIMEOUT)}
        with arguments_are_flags(*values):
            report = check_env(name, **values, **settings)
    # After the check, in which the environment's constructor has read its bindings.
    check_dead_bindings(GIN_PARAM.value)
    print(report)
    return int(bool(report.problems))


def _read_settings():
    """Returns the name of the environment, and gin's other bindings of `load` as settings of `check_env`."""
    from alf.environments import load

    make_env = gin.get_bindings("Experiment").get("env", load)
    if make_env is not load and ENV.value is None:
        raise ConfigError(
            "Experiment.env is not alf.environments.load: alf-check-env checks single environments, "
            "alf.testing.EnvironmentContract tests batched ones"
        )
    given = {} if ENV.value is None else {"name": ENV.value}
    # What gin would add to a call of `load`, without the call.
    bound = bind_arguments(functools.partial(load, **given)).keywords
    if "name" not in bound:
        raise ConfigError(
            'alf.environments.load.name is missing: write alf.environments.load.name = "CartPole-v1" in the '
            "gin file, or give --env=CartPole-v1"
        )
    settings = {key: x for key, x in bound.items() if key not in ("name", *_OF_BATCHES)}
    return bound["name"], {"batch_size": _BATCH_SIZE, **settings}


main = make_main(run)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
