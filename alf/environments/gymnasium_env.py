# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""GymnasiumEnvironment: a Gymnasium vector environment as a batched environment of ALF."""

import functools
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from alf.config.kinds import NonNegativeInt
from alf.config.settings import checked
from alf.data_structures import EnvStep
from alf.environments.batched_environment import BatchedEnvironment
from alf.environments.spaces import make_action_converter, map_space
from alf.errors import ConfigError, EnvError
from alf.workers.arrays import MisfitError, describe, fit, without_bools, wrong_result
from alf.workers.env_calls import claim, find_owner, free, name_error
from alf.workers.info import read_vector_info
from alf.workers.specs import spec_from_space


@checked
class GymnasiumEnvironment(BatchedEnvironment):
    """A `gymnasium.vector.VectorEnv` as a `BatchedEnvironment`.

    `alf.data_structures` has the convention of time steps. The reward of a FIRST step is 0. Observations are
    C-contiguous, with the dtypes of the spec. The arrays of an `EnvStep` never change later, so the caller
    need not copy them.

    Args:
        env: a `gymnasium.vector.VectorEnv` with NEXT_STEP autoreset. `close()` closes it.
        seed: any seed that `env.reset(seed=)` takes. Only the first reset uses it, so that later resets do
            not repeat the same episodes. Most vector environments give sub-environment i the seed
            `seed + i`: the seeds of two batches must differ by at least B.
        copy_observations: False if `env` returns new arrays at every step: C-contiguous ones are not copied.
        info_keys: tuple of the keys of the infos that `get_info` returns; "a/b" is this entry, or the entry
            "b" of the dict "a".
        max_random_steps: before its first step the batch takes a random number of random steps, at most this
            many, so that the episodes of several batches do not end together. `seed` decides the number and
            the actions.

    Raises:
        ConfigError: if `env` has another autoreset mode, a space that is not supported, or an environment
            that is stepped already.
        EnvError: from `reset` and `step`, if `env` returns values that do not fit its spaces.
    """

    def __init__(
        self,
        env: Any,
        seed: Any = None,
        copy_observations: bool = True,
        info_keys: Sequence[str] = (),
        max_random_steps: NonNegativeInt = 0,
    ) -> None:
        # The attribute before the metadata: SyncVectorEnv writes its mode into a dict that all environments
        # of the class share, where the next one overwrites it.
        mode = getattr(env.unwrapped, "autoreset_mode", env.metadata.get("autoreset_mode"))
        next_step = gymnasium.vector.AutoresetMode.NEXT_STEP
        # Metadata may have the mode as a text.
        if mode not in (next_step, next_step.value):
            raise ConfigError(
                f"{env} has autoreset mode {mode}, but only AutoresetMode.NEXT_STEP keeps the final "
                "observation of an episode in a step of its own."
            )
        observation_space, action_space = without_bools(env.single_observation_space), env.single_action_space
        specs = spec_from_space(observation_space, "observation"), spec_from_space(action_space, "action")
        super().__init__(env.num_envs, *specs, info_keys=info_keys, max_random_steps=max_random_steps)
        claim(self, env, f"one of {env}")
        self._env = env  # None once it is closed
        # Of those in Gymnasium, all but this one: it waits for processes.
        is_of_gymnasium = type(env.unwrapped).__module__.startswith("gymnasium.")
        is_async = isinstance(env.unwrapped, gymnasium.vector.AsyncVectorEnv)
        self.computes_in_python = is_of_gymnasium and not is_async
        self._num_steps = 0
        self._infos = None
        self.seed(seed)
        self._from_env = map_space(
            observation_space,
            lambda space: _make_observation_converter(space, env.num_envs, copy_observations),
        )
        self._to_env = map_space(action_space, lambda space: make_action_converter(space, self._batch_size))
        # Operands of the right dtype: a ufunc of mixed dtypes takes twice as long.
        self._ones_i32 = np.ones([self._batch_size], np.int32)
        self._ones_f32 = np.ones([self._batch_size], np.float32)
        self._ended = np.zeros([self._batch_size], np.bool_)
        self._bool = self._ended.dtype

    @property
    def gymnasium_env(self) -> gymnasium.vector.VectorEnv:
        """The wrapped `gymnasium.vector.VectorEnv`; None after `close`."""
        return self._env

    @property
    def render_fps(self) -> float:
        return self._env.metadata.get("render_fps") or super().render_fps

    def seed(self, seed: Any, first_index: int = 0) -> None:
        """Seeds the next reset, as the `seed` of the constructor does; later resets go on from there."""
        if first_index and seed is not None:  # sub-environment i gets seed + i
            seed += first_index
        # SyncVectorEnv takes no NumPy integer.
        self._seed = int(seed) if isinstance(seed, np.integer) else seed
        self._has_started = False

    def get_info(self) -> dict[str, np.ndarray]:
        """Returns the info of the last reset or step: a dict with float32 [B] for each of the `info_keys`."""
        try:
            return {key: read_vector_info(self._infos, key, self._batch_size) for key in self.info_keys}
        except MisfitError as error:
            raise self._name_error(error) from None

    def call(self, name: str, *args: Any) -> list[Any]:
        """Calls the method `name` of the vector environment.

        Returns a list of B results if it calls its sub-environments one by one, as `SyncVectorEnv` does. Else
        there is one result, of the vector environment itself.
        """
        if hasattr(self._env, "call"):
            return list(self._env.call(name, *args))
        return [getattr(find_owner(self._env, name), name)(*args)]

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute that the sub-environments have, or else the vector environment itself."""
        if hasattr(self._env, "set_attr"):
            self._env.get_attr(name)  # it would make an attribute that is missing
            self._env.set_attr(name, [value] * self._batch_size)
        else:
            setattr(find_owner(self._env, name), name, value)

    def close(self) -> None:
        """Closes the wrapped environment, once, and refers to it no more."""
        if self._env is not None:
            # ale-py ends the threads of its games when nothing refers to them.
            env, self._env = self._env, None
            free(env)
            env.close()

    def _reset(self):
        try:
            result = self._env.reset(seed=self._seed)
        except BaseException as error:
            error = name_error(error, self._name_step())
            raise error
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise self._name_error(wrong_result("reset", result))
        # Kept as it came: only drivers of environments with `info_keys` ask for it.
        self._infos = result[1]
        # A reset begins an episode in every row, so none of them has to begin one in the next step.
        self._ended = np.zeros([self._batch_size], np.bool_)
        time_step = EnvStep(
            step_type=np.zeros([self._batch_size], np.int32),
            reward=np.zeros([self._batch_size], np.float32),
            discount=np.ones([self._batch_size], np.float32),
            observation=self._convert_observation(result[0]),
        )
        if not self._has_started:
            self._has_started = True
            time_step = self._start_randomly(time_step, self._seed)
        self._seed = None  # Later resets go on with the generators of the environments.
        return time_step

    def _step(self, action):
        # Runs with the GIL held, so each microsecond counts: count_nonzero takes 0.15 microseconds, any()
        # 0.8.
        self._num_steps += 1
        action = self._to_env(action)
        try:
            result = self._env.step(action)
        except BaseException as error:
            error = name_error(error, self._name_step())
            raise error
        try:
            observation, reward, terminated, truncated, self._infos = result
        except (TypeError, ValueError):
            raise self._name_error(wrong_result("step", result)) from None
        terminated = self._check_flags(terminated, "terminated")
        truncated = self._check_flags(truncated, "truncated")
        # With NEXT_STEP autoreset the step after the end of an episode is the FIRST one of the next.
        first, last = self._ended, np.logical_or(terminated, truncated)
        step_type = self._ones_i32 + last.astype(np.int32)  # MID is 1, LAST is 2.
        reward = self._convert_reward(reward)
        if np.count_nonzero(first):
            # Another autoreset mode would return the next FIRST observation together with the last reward.
            if np.count_nonzero(first & last):
                raise RuntimeError(
                    f"{self._env} ended an episode in the step that should start it: this is not NEXT_STEP "
                    "autoreset, whatever its metadata says."
                )
            step_type[first] = 0
            # Whatever comes with a reset is not the reward of a step.
            reward[first] = 0.0
        self._ended = last
        # Not after a truncation: the episode would have gone on, so the value of its last observation
        # bootstraps.
        discount = self._ones_f32 - terminated.astype(np.float32)
        return EnvStep(step_type, reward, discount, self._convert_observation(observation))

    def _render(self):
        frames = self._env.render()
        # Vector environments render all rows.
        return None if frames is None else frames[0]

    def _convert_observation(self, observation):
        try:
            return self._from_env(observation)
        except MisfitError as error:
            raise self._name_error(error) from None
        except (LookupError, TypeError, ValueError):  # A part of a nest is missing.
            found, space = describe(observation), self._env.single_observation_space
            raise self._name_error(f"the observation is {found}, its space is {space}") from None

    def _check_flags(self, flags, name):
        """Returns `flags` as an array of B bools."""
        # The usual case, without the costs of `fit`.
        if getattr(flags, "dtype", None) is self._bool and flags.shape == self._ended.shape:
            return flags
        try:
            return fit(flags, self._ended.shape, self._bool, name)
        except MisfitError as error:
            raise self._name_error(error) from None

    def _convert_reward(self, reward):
        """Returns a copy, because the environment may reuse its buffer."""
        shape, dtype = self._ones_f32.shape, self._ones_f32.dtype
        if getattr(reward, "shape", None) == shape and reward.dtype.kind == "f":
            return reward.astype(dtype)
        try:
            return np.array(fit(reward, shape, dtype, "the reward"))
        except MisfitError as error:
            raise self._name_error(error) from None

    def _name_error(self, error):
        """Returns the EnvError that names the environment and its step."""
        return EnvError(f"{self._name_step()}: {error}")

    def _name_step(self):
        return f"{self._env}, step {self._num_steps}"


def _make_observation_converter(space, batch_size, copy):
    """Returns a function from a returned observation to a C-contiguous array, which may raise MisfitError."""
    shape, dtype = (batch_size, *space.shape), space.dtype
    to_contiguous = functools.partial(np.array, order="C") if copy else np.ascontiguousarray

    def convert(observation):
        try:
            # By identity, which is cheaper than ==: NumPy has one object for each usual dtype, and `fit`
            # takes the others.
            fits = observation.shape == shape and observation.dtype is dtype
        except AttributeError:
            fits = False
        return to_contiguous(observation if fits else fit(observation, shape, dtype, "the observation"))

    return convert
