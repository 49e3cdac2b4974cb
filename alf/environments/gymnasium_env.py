# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Adapts a Gymnasium vector environment to a batched TF-Agents environment."""

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts

from alf.environments.spaces import action_converter, map_space, spec_from_space
from alf.errors import ConfigError


class GymnasiumEnvironment(py_environment.PyEnvironment):
    """A `gymnasium.vector.VectorEnv` as a batched `PyEnvironment`.

    Every `TimeStep` holds, for a batch of B sub-environments:
      step_type: int32 [B]. LAST where the episode ended (terminated or truncated),
        FIRST in the row after a LAST, MID elsewhere.
      reward: float32 [B]. 0 where FIRST.
      discount: float32 [B]. 0 where terminated, 1 elsewhere: a time limit keeps it.
      observation: a nest of [B, ...] arrays with the dtypes of the spec. A LAST row
        holds the final observation of its episode, never the first of the next.

    The action of a row that is about to become FIRST is ignored. The arrays are
    C-contiguous and nobody writes them again: the caller may keep them uncopied.
    """

    def __init__(self, env, seed=None, copy_observations=True):
        """Wraps `env`, and owns it from here on.

        Args:
          env: a `gymnasium.vector.VectorEnv` with NEXT_STEP autoreset.
          seed: int, what else `env.reset(seed=)` takes, or None. For the first reset only,
            so that later resets go on with the generator instead of repeating episodes.
            Most vector environments give sub-environment i the seed `seed + i`: the
            seeds of two of them must be at least `batch_size` apart.
          copy_observations: False when `env` returns arrays that it never writes
            again; each array that is C-contiguous is then passed on as it is.

        Raises:
          ConfigError: `env` has another autoreset mode, or a space without a spec.
        """
        _check_autoreset(env)
        self._env = env
        # SyncVectorEnv takes no NumPy integer.
        self._seed = int(seed) if isinstance(seed, np.integer) else seed
        self._closed = False
        self._batch_size = int(env.num_envs)
        self._observation_spec = spec_from_space(env.single_observation_space, "observation")
        self._action_spec = spec_from_space(env.single_action_space, "action")
        self._from_env = map_space(
            env.single_observation_space,
            lambda space: _observation_converter(space, copy_observations),
        )
        self._to_env = map_space(
            env.single_action_space, lambda space: action_converter(space, self._batch_size)
        )
        # Operands of the right dtype: where dtypes are mixed, a ufunc takes twice as long.
        self._ones_i32 = np.ones([self._batch_size], np.int32)
        self._ones_f32 = np.ones([self._batch_size], np.float32)
        self._clear_done()
        super().__init__()

    @property
    def batched(self):
        return True

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def gymnasium_env(self):
        """The wrapped `gymnasium.vector.VectorEnv`."""
        return self._env

    def observation_spec(self):
        return self._observation_spec

    def action_spec(self):
        return self._action_spec

    def close(self):
        """Closes the wrapped environment, once."""
        if not self._closed:
            self._closed = True
            self._env.close()

    def _clear_done(self):
        # Rows that were LAST, so that they are FIRST in the next step: bool [B], the same
        # as int32 [B], and as one integer with a byte per row, which asks "any?" and "any
        # in both?" far below the price of a NumPy call.
        self._done = np.zeros([self._batch_size], np.bool_)
        self._done_i32 = np.zeros([self._batch_size], np.int32)
        self._done_bits = 0

    def _reset(self):
        """Starts an episode in every row; returns a `TimeStep` of FIRST rows."""
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None
        self._clear_done()
        return ts.TimeStep(
            step_type=np.zeros([self._batch_size], np.int32),
            reward=np.zeros([self._batch_size], np.float32),
            discount=np.ones([self._batch_size], np.float32),
            observation=self._from_env(observation),
        )

    def _step(self, action):
        """Steps every row. Runs with the GIL held: each microsecond here counts.

        Args:
          action: a nest of [B, ...] arrays as in `action_spec()`; integers of any width.
            Actions outside the bounds of a Box are clipped on their way to `env`.

        Returns:
          A `TimeStep`, see the class.

        Raises:
          RuntimeError: `env` ended an episode in the very row that had to start it.
        """
        observation, reward, terminated, truncated, _ = self._env.step(self._to_env(action))
        done = np.logical_or(terminated, truncated)
        done_i32 = done.astype(np.int32)
        step_type = self._ones_i32 + done_i32  # MID is 1, LAST is 2.
        reward = np.array(reward, np.float32)  # A copy: `env` may reuse its buffer.
        done_bits = int.from_bytes(done.tobytes(), "little")
        if self._done_bits:
            if self._done_bits & done_bits:
                raise RuntimeError(
                    f"{self._env} ended an episode in the row that starts it: this is not "
                    "NEXT_STEP autoreset, whatever its metadata says."
                )
            step_type -= self._done_i32  # FIRST is 0.
            reward[self._done] = 0.0
        self._done, self._done_i32, self._done_bits = done, done_i32, done_bits
        return ts.TimeStep(
            step_type,
            reward,
            self._ones_f32 - terminated.astype(np.float32),
            self._from_env(observation),
        )


def _check_autoreset(env):
    """Raises ConfigError unless `env` resets a row in the step after its last one."""
    from gymnasium import vector  # pylint: disable=import-outside-toplevel

    # The attribute before the metadata: SyncVectorEnv writes its mode into a dict that
    # all environments of the class share, where the next one overwrites it.
    mode = getattr(env.unwrapped, "autoreset_mode", env.metadata.get("autoreset_mode"))
    if mode not in (vector.AutoresetMode.NEXT_STEP, vector.AutoresetMode.NEXT_STEP.value):
        raise ConfigError(
            f"{env} has autoreset mode {mode}, but only AutoresetMode.NEXT_STEP keeps the "
            "final observation of an episode in a row of its own."
        )


def _observation_converter(space, copy):
    """Returns a function to a C-contiguous array of the dtype of `space`."""
    dtype = space.dtype
    if copy:
        return lambda observation: np.array(observation, dtype, order="C")
    return lambda observation: np.ascontiguousarray(observation, dtype)
