# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Adapts a TF-Agents PyEnvironment of one environment to Gymnasium."""

import contextlib

import gymnasium
import numpy as np
from gymnasium import spaces


class FromPyEnvironment(gymnasium.Env):
    """An unbatched `tf_agents.environments.PyEnvironment` as a `gymnasium.Env`.

    An episode that ends with discount 0 is terminated; with any other discount it is truncated.

    Args:
        env: the environment; its specs are nests of dicts, tuples and lists. `reset(seed=)` calls `env.seed`
            if that is implemented.

    Raises:
        ValueError: if it is batched.
    """

    def __init__(self, env):
        if env.batched:
            raise ValueError(f"{env} is batched already: use it without load or PythonEnvironment")
        self._env = env
        self.observation_space = _space_from_spec(env.observation_spec())
        self.action_space = _space_from_spec(env.action_spec())
        reward_shape = env.reward_spec().shape
        if reward_shape:
            self.reward_space = spaces.Box(-np.inf, np.inf, reward_shape, np.float32)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            with contextlib.suppress(NotImplementedError):
                self._env.seed(seed)
        return self._env.reset().observation, {}

    def step(self, action):
        time_step = self._env.step(action)
        ended = bool(time_step.is_last())
        terminated = ended and time_step.discount == 0
        return time_step.observation, time_step.reward, terminated, ended and not terminated, {}

    def close(self):
        self._env.close()


def _space_from_spec(spec):
    if isinstance(spec, dict):
        return spaces.Dict({key: _space_from_spec(part) for key, part in spec.items()})
    if isinstance(spec, (tuple, list)):
        return spaces.Tuple([_space_from_spec(part) for part in spec])
    if not hasattr(spec, "minimum"):
        return spaces.Box(-np.inf, np.inf, spec.shape, spec.dtype)
    if np.issubdtype(spec.dtype, np.integer) and spec.shape == ():
        start = int(spec.minimum)
        return spaces.Discrete(int(spec.maximum) - start + 1, start=start, dtype=spec.dtype)
    low, high = (np.broadcast_to(bound, spec.shape) for bound in (spec.minimum, spec.maximum))
    return spaces.Box(low, high, spec.shape, spec.dtype)
