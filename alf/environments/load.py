# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""From a name to a batched environment."""

import difflib
import importlib

import gin

from alf.checks import check_int
from alf.environments import gymnasium_env
from alf.errors import ConfigError


@gin.configurable(module="alf.environments")
def load(name, batch_size, seed=None, max_episode_steps=None, **kwargs):
    """Returns the environments `name` as one batched environment.

    They step in this process: through the id's own vector environment (NumPy or C++)
    where it has one that imports, else one after the other. In gin files the name is
    `environments.load`, because TF-Agents registers a `load` too.

    Args:
      name: str, a Gymnasium id such as "CartPole-v1"; "module:id" imports the module
        first, which registers the id.
      batch_size: int, how many sub-environments, B.
      seed: int or None, for the first reset; sub-environment i may be given
        `seed + i`, so keep the seeds of two batches at least `batch_size` apart.
      max_episode_steps: int, the time limit in steps, which ends an episode with
        discount 1; None for the limit that is registered with the id.
      **kwargs: for the constructor of the environment.

    Returns:
      A `GymnasiumEnvironment` of B sub-environments.

    Raises:
      ConfigError: an unknown `name`, or a `batch_size` or `max_episode_steps` that is
        not a positive integer. Errors of the environment itself pass through.
    """
    import gymnasium  # pylint: disable=import-outside-toplevel

    check_int("load.batch_size", batch_size)
    if max_episode_steps is not None:
        # Gymnasium's -1 for "no limit" would end every episode of a vector environment
        # after one step.
        check_int("load.max_episode_steps", max_episode_steps)
        kwargs["max_episode_steps"] = int(max_episode_steps)
    if _vector_entry_imports(_find_spec(name)):
        env = gymnasium.make_vec(name, int(batch_size), vectorization_mode="vector_entry_point", **kwargs)
    else:
        # The adapter copies the observations: once is enough.
        env = gymnasium.make_vec(
            name,
            int(batch_size),
            vectorization_mode="sync",
            vector_kwargs=dict(copy=False, autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP),
            **kwargs,
        )
    return gymnasium_env.GymnasiumEnvironment(env, seed=seed)


def _find_spec(name):
    """Returns the `gymnasium.envs.registration.EnvSpec` of the id `name`."""
    import gymnasium  # pylint: disable=import-outside-toplevel

    module, _, env_id = str(name).rpartition(":")
    if module:
        importlib.import_module(module)
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        close = difflib.get_close_matches(env_id, list(gymnasium.registry))
        hint = f" Close matches: {', '.join(close)}." if close else ""
        raise ConfigError(f"load.name: no Gymnasium environment {name!r} ({error}).{hint}") from error


def _vector_entry_imports(spec):
    """Whether `spec` has a vector environment whose packages are installed."""
    import gymnasium  # pylint: disable=import-outside-toplevel

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
