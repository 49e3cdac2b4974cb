# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes TF-Agents' PyEnvironments usable as Gymnasium environments."""

import contextlib

import gymnasium
import numpy as np
from gymnasium import spaces

from alf.errors import ConfigError
from alf.workers.specs import space_from_spec


class Adapter(gymnasium.Env):
    """An environment of Gymnasium that steps the environment `_env` of another interface."""


class FromPyEnvironment(Adapter):
    """A TF-Agents `PyEnvironment` as a `gymnasium.Env`.

    Its specs may be nests of dicts, tuples and lists. An episode that ends with discount 0 is terminated; an
    episode that ends with another discount is truncated. `reset(seed=)` calls `env.seed` if it is
    implemented.

    Args:
        env: `PyEnvironment` that is not batched.
        reads_info: bool; True returns `env.get_info()` as the info, if it is implemented, False returns {}.

    Attributes:
        discount: float, the discount of the last time step, which Gymnasium does not have; 1 after a reset.

    Raises:
        ConfigError: if `env` is something else.
    """

    def __init__(self, env, reads_info=False):
        if not hasattr(env, "time_step_spec"):  # isinstance would need TF-Agents, and so TensorFlow
            raise ConfigError(
                f"{env!r} is neither a gymnasium.Env nor a TF-Agents PyEnvironment; load_pettingzoo takes "
                "games of PettingZoo"
            )
        if env.batched:
            raise ConfigError(f"{env} is batched already: use it without load or PythonEnvironment")
        self._env, self._reads_info, self.discount = env, reads_info, 1.0
        self.observation_space = space_from_spec(env.observation_spec())
        self.action_space = space_from_spec(env.action_spec())
        reward_shape = env.reward_spec().shape
        if reward_shape:
            self.reward_space = spaces.Box(-np.inf, np.inf, reward_shape, np.float32)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            with contextlib.suppress(NotImplementedError):
                self._env.seed(seed)
        self.discount = 1.0
        # Without a copy, although the environment may fill the same array again: `EnvBatch` copies it at
        # once.
        return self._env.reset().observation, self._get_info()

    def step(self, action):
        time_step = self._env.step(action)
        ended, self.discount = bool(time_step.is_last()), float(time_step.discount)
        terminated = ended and self.discount == 0
        info = self._get_info()
        return time_step.observation, time_step.reward, terminated, ended and not terminated, info

    def render(self):
        return self._env.render()

    def close(self):
        self._env.close()

    def _get_info(self):
        info = None
        if self._reads_info:
            with contextlib.suppress(NotImplementedError):
                info = self._env.get_info()
        return {} if info is None else info
