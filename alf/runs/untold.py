# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Settings that no file can say, such as a lambda that a program has passed to `alf.train`.

Other processes, and whoever loads the run later, lack them. `run.json` has their names.
"""

from collections.abc import Collection
from typing import Any

import gin
from absl import logging

from alf.config import registry
from alf.config.comparison import parse_settings
from alf.config.kinds import show
from alf.config.registry import complete, name_binding
from alf.config.settings import find_role
from alf.errors import ConfigError, argument, is_command

_NAME = "alf.environments.load.name"
# Of ALF's own parts, those that neither act nor are environments; of `Experiment` these settings are.
_OF_LEARNING = ("training", "drivers", "learner", "optimizers", "replay", "algorithms", "distributed")
_OF_ACTING = {f"alf.training.Experiment.{x}" for x in ("data_transformers", "env", "policies", "policy")}
_OF_ENVIRONMENTS = ("alf.environments.", "alf.workers.", "alf.training.Experiment.env")


def list_untold() -> dict[str, Any]:
    """Returns the bindings of gin's configuration that no file can say: a dict from full names to values."""
    told = set(map(complete, parse_settings(gin.config_str())))
    bound = {
        complete(name_binding(scope, selector, parameter)): value
        for (scope, selector), values in registry.list_bindings().items()
        for parameter, value in values.items()
        if selector != "gin.macro"
    }
    return {name: value for name, value in bound.items() if name not in told}


def find_of_acting(names: Collection[str]) -> list[str]:
    """Returns the names that policies and environments read, which evaluations make."""
    modules = tuple(f"alf.{module}." for module in _OF_LEARNING)
    return [x for x in names if x in _OF_ACTING or not x.rpartition("/")[2].startswith(modules)]


def check_acting(names: Collection[str], makes_env: bool) -> None:
    """Raises ConfigError if gin's configuration lacks a setting with which a run's policy acts.

    Args:
        names: full names from the run's `run.json`.
        makes_env: whether environments are made, too, or only a policy.
    """
    lacking = [x for x in find_of_acting(names) if x not in registry.list_names()]
    of_envs = [x for x in lacking if x.rpartition("/")[2].startswith(_OF_ENVIRONMENTS)]
    for name in lacking:
        if name not in of_envs:
            raise ConfigError(
                f"the run's {name} was made in a program, and no file can say it: "
                "alf.load_agent(root_dir, policy=...) takes a policy that the same code makes"
            )
    if of_envs and makes_env:
        value = "MODULE:CLASS" if of_envs[0] == _NAME else "VALUE"
        short = "name" if of_envs[0] == _NAME else of_envs[0]
        remedy = f"write {argument(short, value)}"
        if not is_command():
            remedy = (
                "pass an environment, alf.evaluate(root_dir, env), or to alf.play the setting: "
                f"**{{'{of_envs[0]}': ...}}"
            )
        raise ConfigError(f"the run's {of_envs[0]} was made in a program, and no file can say it: {remedy}")


def check_training(names: Collection[str]) -> None:
    """Raises ConfigError if gin's configuration lacks a setting of a run that goes on; `names` as above.

    Settings that may change, such as callbacks, are only named in the log.
    """
    for name in names:
        if name in registry.list_names():
            continue
        fault = f"the run's {name} was made in a program, and no file can say it"
        if not find_role(name).may_change:
            raise ConfigError(
                f"{fault}: the run goes on by the call of alf.train that made it, with its root_dir"
            )
        logging.warning("%s: the run goes on without it", fault)


def check_other_process(reason: str, remedy: str = "") -> None:
    """Raises ConfigError if no other process could make policy and environments of gin's configuration.

    Args:
        reason: text, why another process makes them, such as "Evaluator.place is 'process'".
        remedy: text, what else a user may do.
    """
    untold = list_untold()
    for name in find_of_acting(untold):
        raise ConfigError(
            f"{name} is {show(untold[name])}: {reason}, so name something that another process can import"
            f"{remedy}"
        )
