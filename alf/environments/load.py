# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""From a name to a batched environment."""

import difflib
import functools
import importlib

import gin
import gymnasium

from alf.environments.atari import load_atari
from alf.environments.envpool_env import load_envpool
from alf.environments.extras import import_extra
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.environments.python_env import PythonEnvironment
from alf.errors import ConfigError, check_int


@gin.configurable(module="alf.environments")
def load(name, batch_size, seed=None, max_episode_steps=None, num_workers="auto", **kwargs):
    """Returns B environments `name` as one batched environment.

    In gin files the name is `alf.environments.load`, because TF-Agents registers a `load` too.

    Args:
        name: a Gymnasium id such as "CartPole-v1"; "module:id" first imports the module, which registers the
            id. `load_atari` loads "ALE/Pong-v5", `load_envpool` loads "envpool:Pong-v5". Or a callable that
            returns one environment: a `gymnasium.Env`, or an unbatched TF-Agents `PyEnvironment`.
        batch_size: int, number of sub-environments, B.
        seed: int or None, for the first reset.
        max_episode_steps: int, time limit in steps; it ends an episode with discount 1. None for the limit
            that is registered with the id.
        num_workers: "auto" or int. With "auto", an id that has its own vector environment (NumPy or C++)
            steps in this process, if that can be imported; for anything else `PythonEnvironment` chooses. An
            int is the number of worker processes that step single environments; 0 steps them in this process.
        **kwargs: for the constructor of the environment, or for the callable.

    Returns:
        A `GymnasiumEnvironment` or a `PythonEnvironment` of B sub-environments.

    Raises:
        ConfigError: if `name` is unknown, or `batch_size`, `max_episode_steps` or `num_workers` is wrong.
        Exception: what the environment itself raises.
    """
    check_int("load.batch_size", batch_size)
    if str(name).startswith(("ALE/", "envpool:")):
        return _load_native(name, batch_size, seed, max_episode_steps, num_workers, kwargs)
    if max_episode_steps is not None:
        # Gymnasium's -1 for "no limit" would end every episode of a vector environment after one step.
        check_int("load.max_episode_steps", max_episode_steps)
        kwargs["max_episode_steps"] = int(max_episode_steps)
    if callable(name):
        return PythonEnvironment([functools.partial(name, **kwargs)] * batch_size, seed, num_workers)
    spec = _find_spec(name)
    if num_workers == "auto" and _can_import_vector_entry(spec):
        env = gymnasium.make_vec(name, int(batch_size), vectorization_mode="vector_entry_point", **kwargs)
        return GymnasiumEnvironment(env, seed=seed)
    # The spec instead of the id: a worker need not import the module that registered the id. The checker
    # of Gymnasium would check every step.
    make = functools.partial(gymnasium.make, spec, disable_env_checker=True, **kwargs)
    try:
        return PythonEnvironment([make] * batch_size, seed, num_workers)
    except gymnasium.error.DependencyNotInstalled:
        if "mujoco" in str(spec.entry_point):
            import_extra("mujoco", "mujoco")  # Its error says how to install it.
        raise


def _load_native(name, batch_size, seed, max_episode_steps, num_workers, kwargs):
    """Loads an environment whose batch steps in C++: of ale-py or EnvPool."""
    if num_workers != "auto":
        raise ConfigError(f"load.num_workers does not apply to {name!r}, which steps in C++ threads")
    if name.startswith("envpool:"):
        limit = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
        return load_envpool(name.removeprefix("envpool:"), batch_size, seed=seed, **limit, **kwargs)
    if max_episode_steps is not None:
        raise ConfigError(f"load.max_episode_steps does not apply to {name!r}: set max_episode_frames")
    return load_atari(name, batch_size, seed=seed, **kwargs)


def _find_spec(name):
    """Returns the `gymnasium.envs.registration.EnvSpec` of the id `name`."""
    module, _, env_id = str(name).rpartition(":")
    if module:
        importlib.import_module(module)
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        close = difflib.get_close_matches(env_id, list(gymnasium.registry))
        hint = f" Close matches: {', '.join(close)}." if close else ""
        raise ConfigError(f"load.name: no Gymnasium environment {name!r} ({error}).{hint}") from error


def _can_import_vector_entry(spec):
    """Whether `spec` has its own vector environment, and that can be imported."""
    entry_point = spec.vector_entry_point
    if entry_point is None or callable(entry_point):
        return entry_point is not None
    try:
        importlib.import_module(entry_point.partition(":")[0])
    except (ImportError, gymnasium.error.DependencyNotInstalled):
        # Without a plain entry point either, the user has to see the import error.
        if spec.entry_point is None:
            raise
        return False
    return True
