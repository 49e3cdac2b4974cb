# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Adapts a Gymnasium vector environment to a batched TF-Agents environment."""

import gymnasium
import numpy as np
from tf_agents.trajectories import time_step as ts

from alf.environments.batched_environment import BatchedEnvironment
from alf.environments.spaces import make_action_converter, map_space, spec_from_space
from alf.errors import ConfigError


class GymnasiumEnvironment(BatchedEnvironment):
    """A `gymnasium.vector.VectorEnv` as a batched `PyEnvironment`.

    `alf.data_structures` has the convention of time steps. The reward of a FIRST step is 0. Observations are
    C-contiguous, with the dtypes of the spec. The arrays of a `TimeStep` never change later, so the caller
    need not copy them.

    Args:
        env: a `gymnasium.vector.VectorEnv` with NEXT_STEP autoreset. `close()` closes it.
        seed: anything that `env.reset(seed=)` takes. It is used for the first reset only, so that later
            resets do not repeat the same episodes. Most vector environments give sub-environment i the seed
            `seed + i`: the seeds of two batches must differ by at least B.
        copy_observations: False if `env` returns new arrays at every step: C-contiguous ones are not copied.

    Raises:
        ConfigError: if `env` has another autoreset mode, or a space that has no spec.
    """

    def __init__(self, env, seed=None, copy_observations=True):
        # The attribute before the metadata: SyncVectorEnv writes its mode into a dict that all environments
        # of the class share, where the next one overwrites it.
        mode = getattr(env.unwrapped, "autoreset_mode", env.metadata.get("autoreset_mode"))
        next_step = gymnasium.vector.AutoresetMode.NEXT_STEP
        if mode not in (next_step, next_step.value):
            raise ConfigError(
                f"{env} has autoreset mode {mode}, but only AutoresetMode.NEXT_STEP keeps the final "
                "observation of an episode in a step of its own."
            )
        observation_space, action_space = env.single_observation_space, env.single_action_space
        specs = spec_from_space(observation_space, "observation"), spec_from_space(action_space, "action")
        super().__init__(env.num_envs, *specs)
        self._env, self._closed = env, False
        # SyncVectorEnv takes no NumPy integer.
        self._seed = int(seed) if isinstance(seed, np.integer) else seed

        def make_observation_converter(space):
            if copy_observations:
                return lambda observation: np.array(observation, space.dtype, order="C")
            return lambda observation: np.ascontiguousarray(observation, space.dtype)

        self._from_env = map_space(observation_space, make_observation_converter)
        self._to_env = map_space(action_space, lambda space: make_action_converter(space, self._batch_size))
        # Operands of the right dtype: a ufunc of mixed dtypes takes twice as long.
        self._ones_i32 = np.ones([self._batch_size], np.int32)
        self._ones_f32 = np.ones([self._batch_size], np.float32)
        self._ended = np.zeros([self._batch_size], np.bool_)

    @property
    def gymnasium_env(self):
        """The wrapped `gymnasium.vector.VectorEnv`."""
        return self._env

    def close(self):
        """Closes the wrapped environment, once."""
        if not self._closed:
            self._closed = True
            self._env.close()

    def _reset(self):
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None
        self._ended = np.zeros([self._batch_size], np.bool_)
        return ts.TimeStep(
            step_type=np.zeros([self._batch_size], np.int32),
            reward=np.zeros([self._batch_size], np.float32),
            discount=np.ones([self._batch_size], np.float32),
            observation=self._from_env(observation),
        )

    def _step(self, action):
        # Runs with the GIL held, so each microsecond counts. count_nonzero takes 0.15 microseconds where
        # any() takes 0.8.
        observation, reward, terminated, truncated, _ = self._env.step(self._to_env(action))
        first, last = self._ended, np.logical_or(terminated, truncated)
        step_type = self._ones_i32 + last.astype(np.int32)  # MID is 1, LAST is 2.
        reward = np.array(reward, np.float32)  # A copy: `env` may reuse its buffer.
        if np.count_nonzero(first):
            if np.count_nonzero(first & last):
                raise RuntimeError(
                    f"{self._env} ended an episode in the step that should start it: this is not NEXT_STEP "
                    "autoreset, whatever its metadata says."
                )
            step_type[first] = 0
            reward[first] = 0.0
        self._ended = last
        discount = self._ones_f32 - terminated.astype(np.float32)
        return ts.TimeStep(step_type, reward, discount, self._from_env(observation))
