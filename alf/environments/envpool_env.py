# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvPool's environments, which step in C++ threads."""

import difflib

import gin

from alf.environments.extras import import_extra
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.errors import ConfigError, check_int


@gin.configurable(module="alf.environments")
def load_envpool(name, batch_size, seed=None, num_threads=0, **kwargs):
    """Returns B of EnvPool's environments `name` as one batched environment.

    Args:
        name: an id of EnvPool, such as "Pong-v5" or "HalfCheetah-v4".
        batch_size: int, B.
        seed: int, or None for EnvPool's default seed, which is always the same.
        num_threads: int, C++ threads; 0 starts one for each core.
        **kwargs: EnvPool's settings of the environment.

    Raises:
        ConfigError: if envpool is missing, or the id is unknown.
    """
    envpool = import_extra("envpool", "envpool")
    check_int("load_envpool.batch_size", batch_size)
    known = envpool.list_all_envs()
    if name not in known:
        close = ", ".join(difflib.get_close_matches(str(name), known))
        raise ConfigError(f"load_envpool.name: EnvPool has no {name!r}. Close matches: {close or 'none'}.")
    if seed is not None:
        kwargs["seed"] = seed
    env = envpool.make(name, env_type="gymnasium", num_envs=batch_size, num_threads=num_threads, **kwargs)
    return GymnasiumEnvironment(_EnvPoolVectorEnv(env, batch_size))


class _EnvPoolVectorEnv:
    """Gives EnvPool's object the attributes of a `gymnasium.vector.VectorEnv`."""

    def __init__(self, env, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self.metadata = env.metadata
        self.unwrapped = self
        self.step = env.step
        self.close = env.close
        self.reset = lambda seed=None: env.reset()  # EnvPool was seeded when it was made.
