# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvBatch: steps Gymnasium environments one after another."""

import time

import gymnasium
import numpy as np
from gymnasium import spaces

from alf.workers.arrays import Layout, arrays_size, leaves, make_arrays
from alf.workers.from_py_environment import FromPyEnvironment

_FIRST, _MID, _LAST = 0, 1, 2


class EnvBatch:
    """B Gymnasium environments that write their steps into arrays.

    The step after an episode's last one resets and ignores the action (Gymnasium's NEXT_STEP
    autoreset): see `alf.data_structures` for the convention.

    Args:
        env_fns: B callables without arguments, each returns a `gymnasium.Env`, or a TF-Agents
            `PyEnvironment` of one environment.
        seeds: B ints, for the first reset of each.
        max_random_steps: before its first step each environment takes a random number of random
            actions, at most so many, so that episodes of equal length do not end together.

    Attributes:
        layout: their `Layout`.
        arrays: `Arrays` of B, until `use_arrays` gives others.

    Raises:
        ValueError: if environments differ in their spaces, or are none.
    """

    num_restarts = 0  # as WorkerPool has it

    def __init__(self, env_fns, seeds, max_random_steps=0):
        self._envs = []
        try:
            for env_fn in env_fns:
                self._envs.append(_as_gymnasium(env_fn()))
            self.layout = self._common_layout()
        except BaseException:
            self.close()
            raise
        self._seeds = list(seeds)
        self._max_random_steps = max_random_steps
        self._done = [False] * len(self._envs)
        self._actions = _action_reader(self.layout.action_space)
        size = arrays_size(self.layout, len(self._envs))
        self.use_arrays(make_arrays(self.layout, len(self._envs), bytearray(size)))

    def use_arrays(self, arrays):
        """Writes into `arrays` from now on."""
        self.arrays = arrays
        self._write = _observation_writer(self.layout.observation_space, arrays.observation)

    def reset(self):
        """Starts an episode in every environment: fills the arrays with FIRST steps."""
        for i, env in enumerate(self._envs):
            seed, self._seeds[i] = self._seeds[i], None
            observation, _ = env.reset(seed=seed)
            _check_shapes(self.layout.observation_space, observation)
            if seed is not None and self._max_random_steps:
                observation = self._random_steps(env, seed, observation)
            self._write(i, observation)
        self.arrays.step_type[:] = _FIRST
        self.arrays.reward[:] = 0.0
        self.arrays.discount[:] = 1.0
        self._done = [False] * len(self._envs)

    def step(self):
        """Takes the actions in the arrays, and fills the arrays."""
        size, done, write = len(self._envs), self._done, self._write
        # Lists first: an item of an array costs five times as much.
        step_types, rewards, discounts = [_MID] * size, [self._no_reward] * size, [1.0] * size
        actions = self._actions(self.arrays.action)
        for i, env in enumerate(self._envs):
            if done[i]:
                observation, _ = env.reset()
                step_types[i], done[i] = _FIRST, False
            else:
                observation, rewards[i], terminated, truncated, _ = env.step(actions[i])
                if terminated or truncated:
                    step_types[i], done[i] = _LAST, True
                    if terminated:
                        discounts[i] = 0.0
            write(i, observation)
        self.arrays.step_type[:] = step_types
        self.arrays.reward[:] = rewards
        self.arrays.discount[:] = discounts

    def time_step(self):
        """Returns the seconds of the fastest of 5 random steps of environment 0, which must be reset then."""
        env, times = self._envs[0], []
        env.reset()
        for _ in range(5):
            action = env.action_space.sample()
            start = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            times.append(time.perf_counter() - start)
            if terminated or truncated:
                env.reset()
        return min(times)

    def close(self):
        """Closes the environments; may be repeated."""
        while self._envs:
            self._envs.pop().close()

    @property
    def _no_reward(self):
        return np.zeros(self.layout.reward_shape, np.float32) if self.layout.reward_shape else 0.0

    def _common_layout(self):
        layouts = [_layout(env) for env in self._envs]
        for i, layout in enumerate(layouts):
            if layout != layouts[0]:
                raise ValueError(
                    f"environment {i} has other spaces than environment 0: {layout}, {layouts[0]}"
                )
        return layouts[0]

    def _random_steps(self, env, seed, observation):
        env.action_space.seed(seed)
        for _ in range(np.random.default_rng(seed).integers(self._max_random_steps + 1)):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                observation, _ = env.reset()
        return observation


def _as_gymnasium(env):
    if isinstance(env, gymnasium.Env):
        return env
    if hasattr(env, "time_step_spec"):  # TF-Agents need not be imported to know its environments
        return FromPyEnvironment(env)
    raise ValueError(f"{env!r} is neither a gymnasium.Env nor a TF-Agents PyEnvironment")


def _layout(env):
    reward_space = getattr(env.unwrapped, "reward_space", None)  # of vector rewards, as in MO-Gymnasium
    reward_shape = () if reward_space is None else tuple(reward_space.shape)
    return Layout(env.observation_space, env.action_space, reward_shape)


def _check_shapes(space, observation):
    """Raises ValueError where NumPy would stretch a smaller observation over the array's row."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            _check_shapes(part, observation[key])
    elif isinstance(space, spaces.Tuple):
        for part, x in zip(space.spaces, observation, strict=True):
            _check_shapes(part, x)
    elif np.shape(observation) != space.shape:
        raise ValueError(
            f"reset() returned an observation of shape {np.shape(observation)}, the observation_space says "
            f"{space.shape}"
        )


def _observation_writer(space, arrays):
    """Returns a function (row, observation) that writes into `arrays`, one for each leaf of `space`."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        keys = sorted(space.spaces) if isinstance(space, spaces.Dict) else range(len(space.spaces))
        writers, rest = [], list(arrays)
        for key in keys:
            count = len(leaves(space.spaces[key]))
            writers.append((key, _observation_writer(space.spaces[key], rest[:count])))
            rest = rest[count:]

        def write(row, observation):
            for key, write_part in writers:
                write_part(row, observation[key])

        return write
    return arrays[0].__setitem__


def _action_reader(space):
    """Returns a function from arrays [B, ...], one for each leaf of `space`, to a list of B actions.

    The actions are copies: an environment may keep them.
    """
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        is_dict = isinstance(space, spaces.Dict)
        keys = sorted(space.spaces) if is_dict else range(len(space.spaces))
        counts = [len(leaves(space.spaces[key])) for key in keys]
        readers = [_action_reader(space.spaces[key]) for key in keys]

        def read(arrays):
            parts, start = [], 0
            for reader, count in zip(readers, counts, strict=True):
                parts.append(reader(arrays[start : start + count]))
                start += count
            rows = zip(*parts, strict=True)
            return [dict(zip(keys, row, strict=True)) if is_dict else row for row in rows]

        return read
    if isinstance(space, spaces.Discrete):
        return lambda arrays: arrays[0].tolist()
    return lambda arrays: list(arrays[0].copy())
