# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments of EnvPool, which step in C++ threads."""

import difflib
import functools
import importlib
from typing import Any

from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.settings import Seed, configurable
from alf.environments.arguments import InfoKeys, NumThreads, RenderMode
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.errors import ConfigError, import_extra


@configurable("alf.environments")
def load_envpool(
    name: str,
    batch_size: PositiveInt,
    seed: Seed = None,
    num_threads: NumThreads = 0,
    info_keys: InfoKeys = (),
    render_mode: RenderMode = None,
    max_random_steps: NonNegativeInt = 0,
    **kwargs: Any,
) -> GymnasiumEnvironment:
    """Returns B of EnvPool's environments `name` as one batched environment.

    Args:
        name: text, an id of EnvPool, such as "Pong-v5" or "HalfCheetah-v4".
        batch_size: int, B.
        seed: int, or None for EnvPool's default seed, which is always the same.
        num_threads: C++ threads; 0 starts one for each core.
        info_keys: which numbers of the environment's info become statistics of episodes, such as
            ("elapsed_step",).
        render_mode: "rgb_array" for environments that `render` frames. None: they cannot render.
        max_random_steps: before their first step all environments take the same random number of random
            actions, at most this many.
        **kwargs: EnvPool's settings of the environment.

    Raises:
        ConfigError: if envpool is missing, or the id is unknown.
    """
    envpool = import_extra("envpool", "envpool")
    known = envpool.list_all_envs()
    if name not in known:
        close = ", ".join(difflib.get_close_matches(str(name), known))
        raise ConfigError(f"load_envpool.name: EnvPool has no {name!r}. Close matches: {close or 'none'}.")
    # The module that an id is registered with shows its kind before anything is made.
    module = importlib.import_module("envpool.registration").registry.specs[name][0]
    if render_mode and module.startswith("envpool.mujoco"):
        raise ConfigError(
            f"load_envpool.render_mode: EnvPool cannot render {name!r} in a process with TensorFlow: for "
            "frames set alf.environments.load.name to Gymnasium's environment"
        )
    settings = dict(num_envs=batch_size, num_threads=num_threads, render_mode=render_mode)
    make = functools.partial(envpool.make, name, env_type="gymnasium", **settings, **kwargs)
    env = _EnvPoolVectorEnv(make, batch_size, seed)
    return GymnasiumEnvironment(env, seed, info_keys=info_keys, max_random_steps=max_random_steps)


class _EnvPoolVectorEnv:
    """Gives EnvPool's object the attributes of a `gymnasium.vector.VectorEnv`.

    EnvPool takes a seed only when it is made. So a reset with a seed makes it again, unless it was just made
    with that seed.
    """

    def __init__(self, make, num_envs, seed):
        self.num_envs, self.unwrapped, self._make = num_envs, self, make
        self._start(seed)
        self.metadata = self._env.metadata
        self.single_observation_space = self._env.observation_space
        self.single_action_space = self._env.action_space

    def _start(self, seed):
        self._unused_seed = seed
        self._env = self._make() if seed is None else self._make(seed=seed)
        # Bound once for each object, so that a step costs no call of Python more.
        self.step, self.render = self._env.step, self._env.render

    def reset(self, seed=None):
        if seed is not None and seed != self._unused_seed:
            self.close()
            self._start(seed)
        self._unused_seed = None  # From now on the environment has drawn from it.
        return self._env.reset()

    def close(self):
        self._env.close()
        # EnvPool ends its threads when nothing refers to its object.
        self._env = self.step = self.render = None
