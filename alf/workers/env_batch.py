# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvBatch: steps Gymnasium environments, or single environments of TF-Agents, one after another."""

import contextlib
import time

import gymnasium
import numpy as np
from gymnasium import spaces

from alf.workers.arrays import Layout, children, make_arrays

_FIRST, _MID, _LAST = 0, 1, 2


class EnvBatch:
    """B Gymnasium environments that write their steps into arrays.

    The step after the last one of an episode resets the environment and ignores the action (Gymnasium's
    NEXT_STEP autoreset). `alf.data_structures` has the convention of time steps.

    Args:
        env_fns: B callables without arguments. Each returns a `gymnasium.Env`, or a TF-Agents `PyEnvironment`
            of one environment.
        seeds: B ints, for the first reset of each environment.
        max_random_steps: int; before its first step each environment takes a random number of random actions,
            at most this many, so that episodes of equal length do not end together.

    Attributes:
        layout: the `Layout` that all environments have.
        arrays: `Arrays` of B.
        num_restarts: 0; `WorkerPool` counts here how often a worker was restarted.

    Raises:
        ValueError: if the environments differ in their spaces, or one is no environment.
    """

    num_restarts = 0

    def __init__(self, env_fns, seeds, max_random_steps=0):
        self._envs = []
        try:
            for env_fn in env_fns:
                env = env_fn()
                self._envs.append(env if isinstance(env, gymnasium.Env) else FromPyEnvironment(env))
            self.layout, *others = [_layout_of(env) for env in self._envs]
            for i, other in enumerate(others, start=1):
                if other != self.layout:
                    raise ValueError(f"environment {i} has other spaces than 0: {other}, {self.layout}")
        except BaseException:
            self.close()
            raise
        self._seeds = list(seeds)
        self._max_random_steps = max_random_steps
        self._done = [False] * len(self._envs)
        shape = self.layout.reward_shape
        self._no_reward = np.zeros(shape, np.float32) if shape else 0.0
        self._read_actions = _make_action_reader(self.layout.action_space)
        self.use_arrays(make_arrays(self.layout, len(self._envs)))

    def use_arrays(self, arrays):
        """Replaces `arrays`, into which `reset` and `step` write."""
        self.arrays = arrays
        self._write = _make_observation_writer(self.layout.observation_space, iter(arrays.observation))

    def reset(self):
        """Starts an episode in every environment, and fills the arrays with FIRST steps."""
        for i, env in enumerate(self._envs):
            seed, self._seeds[i] = self._seeds[i], None
            observation, _ = env.reset(seed=seed)
            _check_shapes(self.layout.observation_space, observation)
            if seed is not None and self._max_random_steps:
                env.action_space.seed(seed)
                for _ in range(np.random.default_rng(seed).integers(self._max_random_steps + 1)):
                    observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
                    if terminated or truncated:
                        observation, _ = env.reset()
            self._write(i, observation)
        self.arrays.step_type[:] = _FIRST
        self.arrays.reward[:] = 0.0
        self.arrays.discount[:] = 1.0
        self._done = [False] * len(self._envs)

    def step(self):
        """Steps every environment with its action from the arrays, and fills the arrays with the results."""
        size, done, write = len(self._envs), self._done, self._write
        # Lists first: to write an item of an array takes five times as long.
        step_types, rewards, discounts = [_MID] * size, [self._no_reward] * size, [1.0] * size
        actions = self._read_actions(iter(self.arrays.action))
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

    def measure_step_seconds(self):
        """Returns the seconds of the fastest of 5 random steps of environment 0. Call `reset` afterwards."""
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
        """Closes the environments; may be called again."""
        while self._envs:
            self._envs.pop().close()


def _layout_of(env):
    reward_space = getattr(env.unwrapped, "reward_space", None)  # of vector rewards, as in MO-Gymnasium
    reward_shape = () if reward_space is None else tuple(reward_space.shape)
    return Layout(env.observation_space, env.action_space, reward_shape)


def _check_shapes(space, observation):
    """Raises ValueError for a wrong shape: NumPy would broadcast a smaller observation without an error."""
    for key, part in children(space) or ():
        _check_shapes(part, observation[key])
    if children(space) is None and np.shape(observation) != space.shape:
        shape = np.shape(observation)
        raise ValueError(f"reset() returned shape {shape}, the observation_space says {space.shape}")
    if isinstance(space, spaces.Tuple) and len(observation) != len(space.spaces):
        raise ValueError(f"reset() returned a tuple of {len(observation)} observations instead of {space}")


def _make_observation_writer(space, arrays):
    """Returns a function (row, observation) that writes into `arrays`, an iterator with one for each leaf."""
    parts = children(space)
    if parts is None:
        return next(arrays).__setitem__
    writers = [(key, _make_observation_writer(part, arrays)) for key, part in parts]

    def write(row, observation):
        for key, write_part in writers:
            write_part(row, observation[key])

    return write


def _make_action_reader(space):
    """Returns a function from an iterator over arrays to B actions: copies, which an environment may keep."""
    parts = children(space)
    if parts is None:
        if isinstance(space, spaces.Discrete):
            return lambda arrays: next(arrays).tolist()
        return lambda arrays: list(next(arrays).copy())
    keys, readers = [key for key, _ in parts], [_make_action_reader(part) for _, part in parts]
    is_dict = isinstance(space, spaces.Dict)

    def read(arrays):
        rows = zip(*[reader(arrays) for reader in readers], strict=True)
        return [dict(zip(keys, row, strict=True)) for row in rows] if is_dict else list(rows)

    return read


class FromPyEnvironment(gymnasium.Env):
    """A TF-Agents `PyEnvironment` as a `gymnasium.Env`. Raises ValueError if it is none, or batched.

    Its specs are nests of dicts, tuples and lists. An episode that ends with discount 0 is terminated; with
    any other discount it is truncated. `reset(seed=)` calls `env.seed` if that is implemented.
    """

    def __init__(self, env):
        if not hasattr(env, "time_step_spec"):  # an isinstance would need an import of TF-Agents
            raise ValueError(f"{env!r} is neither a gymnasium.Env nor a TF-Agents PyEnvironment")
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
