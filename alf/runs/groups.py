# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Splits the environments of a process into groups, each of which is one batched environment."""

import inspect

from alf.config.registry import find_argument, find_binding
from alf.errors import ConfigError
from alf.workers import takes_argument

_SIZE = "batch_size"
# Settings of drivers that say something about several groups.
_OF_GROUPS = {"num_env_threads", "num_actor_queues", "actor_queue_cap", "learn_queue_cap", "start_spread"}


def choose_num_groups(num_envs, settings, would_compute_in_python):
    """Returns the number of groups of a run whose user has chosen none, 1 or 2.

    Environments that compute in Python in this process wait for its GIL: two groups would take turns, and
    each of their steps may cost as much as one of all environments.

    Args:
        num_envs: `Experiment.num_envs`.
        settings: set of the names of `DriverSettings` that the user has set.
        would_compute_in_python: method of `BatchedEnvironment`.
    """
    is_number = isinstance(num_envs, int) and num_envs > 0
    is_one = is_number and not settings & _OF_GROUPS and would_compute_in_python(num_envs)
    return 1 if is_one else 2


def split_in_groups(env, num_groups, num_envs, collectors=None):
    """Splits all environments into groups of equal size.

    Args:
        env: callable that makes one group, `Experiment.env`.
        num_groups, num_envs: as in `Experiment`.
        collectors: `Experiment.collectors`, if other processes collect; else None.

    Returns:
        the number of groups beside the learner, an int, and the arguments of `env` that say how large a group
        is, in all processes.

    Raises:
        ConfigError: if the environments cannot be split, or gin binds the size of a group.
    """
    if num_envs != 0:
        num_groups = num_groups if num_envs is None else min(num_groups, num_envs)
        _refuse_bound_size(env, num_groups, "Experiment")
        return num_groups, _find_size(env, num_groups, num_envs, "Experiment")
    if collectors is None:
        return 0, {}
    num_groups, num_envs = (find_argument(collectors, name) for name in ("num_groups", "num_envs"))
    _refuse_bound_size(env, num_groups, "RayCollectors")
    if num_envs is None and _SIZE in inspect.signature(env).parameters and num_groups is not None:
        raise ConfigError(
            "Experiment.num_envs is 0: set RayCollectors.num_envs, the environments of each collector"
        )
    return 0, _find_size(env, num_groups, num_envs, "RayCollectors")


def check_has_source(offline_buffer):
    """Raises ConfigError if a run without environments and collectors has no `Experiment.offline_buffer`."""
    if offline_buffer is None:
        raise ConfigError(
            "Experiment.num_envs is 0: a run without environments learns from data, "
            "Experiment.offline_buffer, or from what Experiment.num_collectors collect: set one of these"
        )


def _refuse_bound_size(env, num_groups, owner):
    """Raises ConfigError if gin binds the size of a group, beside the number of all environments."""
    binding = find_binding(env, _SIZE)
    if binding is None:
        return
    size = find_argument(env, _SIZE)
    total = num_groups * size if isinstance(num_groups, int) and isinstance(size, int) else "..."
    raise ConfigError(
        f"{binding} is {size}: set {owner}.num_envs = {total} in its place, which counts all environments "
        f"(num_groups = {num_groups} of {size})"
    )


def _find_size(env, num_groups, num_envs, owner):
    if num_envs is None:
        parameter = inspect.signature(env).parameters.get(_SIZE)
        if parameter is None:
            return {}
        if parameter.default is parameter.empty:
            raise ConfigError(f"{owner}.num_envs is None: set it, as Experiment.env needs a `batch_size`")
        # Said, so that the run's configuration does not have it as a setting of `env`.
        return {_SIZE: parameter.default}
    what = f"{owner}.num_envs is {num_envs}"
    if not takes_argument(env, _SIZE):
        raise ConfigError(f"{what}: Experiment.env has no argument `batch_size`; set num_groups")
    size, rest = divmod(num_envs, num_groups)
    if rest:
        raise ConfigError(f"{what}: it must be a multiple of {owner}.num_groups = {num_groups}")
    return {_SIZE: size}
