# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvBatch: steps Gymnasium environments, or single environments of TF-Agents, one after another."""

import contextlib
import inspect
import os
import re
import time
import traceback

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils import passive_env_checker

from alf.errors import ConfigError, EnvError, contain
from alf.workers.arrays import (
    Layout,
    MisfitError,
    check_space,
    children,
    describe,
    fit,
    join_path,
    make_arrays,
    name_part,
    wrong_call,
    wrong_result,
)
from alf.workers.info import make_info_reader

WRONG_CALLS = (TypeError, ValueError, AssertionError, gymnasium.error.Error)  # see `find_misfit`
_CALLERS = tuple(
    os.path.join(os.path.dirname(gymnasium.__file__), name)
    for name in ("core.py", os.path.join("wrappers", ""), os.path.join("vector", "sync_vector_env.py"))
)
_FIRST, _MID, _LAST = 0, 1, 2
_HELD = "held"  # in place of whether an episode is done: the environment waits at its FIRST step
_NUMBERS = {float, int, np.float64, np.float32}  # the usual types of a reward
# An environment's exceptions that mean something to the code above. KeyboardInterrupt is the user's.
CONTROL = (SystemExit, GeneratorExit, StopIteration, StopAsyncIteration)


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
        first_index: int, what errors call the first environment: its index in the whole batch.
        info_keys: tuple of the K keys that are read from each environment's info, see `alf.workers.info`.

    Attributes:
        layout: the `Layout` that all environments have.
        arrays: `Arrays` of B.
        num_restarts: 0; `WorkerPool` counts here how often a worker was restarted.

    Raises:
        ConfigError: if a space is not supported, the environments differ in their spaces, or one is no
            environment.
        EnvError: from `reset` and `step` too, if an environment returns what its spaces or Gymnasium's
            interface do not allow, or raises SystemExit or StopIteration. Its other exceptions pass through.
    """

    num_restarts = 0

    def __init__(self, env_fns, seeds, max_random_steps=0, first_index=0, info_keys=()):
        self._envs, self._first_index, self._num_steps = [], first_index, 0
        try:
            for i, env_fn in enumerate(env_fns, start=first_index):
                self._envs.append(make_env(env_fn, f"the constructor of environment {i}", bool(info_keys)))
            self.layout, *others = [layout_of(env, tuple(info_keys)) for env in self._envs]
            for i, other in enumerate(others, start=first_index + 1):
                if other != self.layout:
                    raise ConfigError(
                        f"environment {i} has other spaces than {first_index}: {other}, {self.layout}"
                    )
        except BaseException:
            with contextlib.suppress(Exception):  # The first error says more.
                self.close()
            raise
        self.seed(seeds)
        self._max_random_steps = max_random_steps
        self._done = [False] * len(self._envs)
        shape = self.layout.reward_shape
        self._no_reward = np.zeros(shape, np.float32) if shape else 0.0
        self._quick_rewards = set() if shape else _NUMBERS  # types that need no closer look
        self._read_actions = make_action_reader(self.layout.action_space)
        self._read_info = make_info_reader(info_keys) if info_keys else None
        self.use_arrays(make_arrays(self.layout, len(self._envs)))

    def use_arrays(self, arrays):
        """Replaces `arrays`, into which `reset` and `step` write."""
        self.arrays = arrays
        self._write = make_writer(self.layout.observation_space, iter(arrays.observation), "the observation")
        self._write_reward = make_leaf_writer(arrays.reward, "the reward")

    def seed(self, seeds):
        """Seeds the next reset with `seeds`, B ints, as the constructor does."""
        self._seeds = list(seeds)

    def reset(self):
        """Starts an episode in every environment, and fills the arrays with FIRST steps."""
        i = 0
        try:
            for i, env in enumerate(self._envs):
                seed, self._seeds[i] = self._seeds[i], None
                observation, info = reset_env(env, seed)
                if seed is not None and self._max_random_steps:
                    count = np.random.default_rng(seed).integers(self._max_random_steps + 1)
                    env.action_space.seed(seed)
                    observation, info = _step_randomly(env, count, observation, info)
                self._write(i, observation)
                if self._read_info is not None:
                    self.arrays.info[i] = self._read_info(info)
        except (MisfitError, *CONTROL) as error:
            raise self._name_error(i, error) from error
        self.arrays.step_type[:] = _FIRST
        self.arrays.reward[:] = 0.0
        self.arrays.discount[:] = 1.0
        self._done = [False] * len(self._envs)

    def hold(self, rows):
        """Makes the next `step` leave the environments in `rows` as they are, which are at a FIRST step.

        That step returns the same FIRST step of them again. `rows` is a list of ints.
        """
        for i in rows:
            self._done[i] = _HELD

    def step(self):
        """Steps every environment with its action from the arrays, and fills the arrays with the results."""
        self._num_steps += 1
        done, write, read_info = self._done, self._write, self._read_info
        step_type, discount = self.arrays.step_type, self.arrays.discount
        step_type.fill(_MID)
        discount.fill(1.0)
        # A list first: to write an item of an array takes five times as long.
        rewards, infos = [self._no_reward] * len(self._envs), []
        actions = self._read_actions(iter(self.arrays.action))
        i = 0
        try:
            for i, (env, action, was_done) in enumerate(zip(self._envs, actions, done)):
                if was_done:
                    step_type[i], done[i] = _FIRST, False
                    if was_done is _HELD:  # The arrays have its observation.
                        infos += [self.arrays.info[i].copy()] if read_info is not None else []
                        continue
                    observation, info = reset_env(env)
                else:
                    try:
                        result = env.step(action)
                    except WRONG_CALLS as error:
                        raise_misfit("step", error)
                        raise
                    try:
                        observation, rewards[i], terminated, truncated, info = result
                    except (TypeError, ValueError):
                        raise wrong_result("step", result) from None
                    # Most flags are False itself; a check of types at every step would cost more.
                    may_end = terminated is not False or truncated is not False
                    if may_end and ends_episode(terminated, truncated):
                        step_type[i], done[i] = _LAST, True
                        if terminated:
                            discount[i] = 0.0
                write(i, observation)
                if read_info is not None:
                    infos.append(read_info(info))
            if infos:
                self.arrays.info[:] = infos
            if set(map(type, rewards)) <= self._quick_rewards:
                self.arrays.reward[:] = rewards
            else:
                for i, reward in enumerate(rewards):
                    self._write_reward(i, reward)
        except (MisfitError, *CONTROL) as error:
            raise self._name_error(i, error) from error

    def _name_error(self, i, error):
        """Returns the EnvError that names environment `i` and its step in place of `error`."""
        name = f"environment {self._first_index + i}, step {self._num_steps}"
        return EnvError(f"{name}: {error}") if isinstance(error, MisfitError) else contain(error, name)

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

    def call(self, name, *args):
        """Returns what the method `name` of environment 0 returns for `args`."""
        return getattr(self._envs[0], name)(*args)

    def render(self):
        """Returns what environment 0 renders, see `gymnasium.Env.render`."""
        return self._envs[0].render()

    def render_fps(self):
        """Returns how many frames of environment 0 make a second; None if it does not say so."""
        return self._envs[0].metadata.get("render_fps")

    def dump_stacks(self):
        """Does nothing: the environments run in the threads of this process. `WorkerPool` has others."""

    def close(self):
        """Closes the environments; may be called again. Raises the first error after it has closed all."""
        errors = []
        while self._envs:
            try:
                self._envs.pop().close()
            except (Exception, *CONTROL) as error:
                index = self._first_index + len(self._envs)
                errors.append(contain(error, f"close() of environment {index}"))
        if errors:
            raise errors[0]


def make_rendered(make, constructor, render_mode):
    """Calls `make`, with `render_mode` if the constructor takes it."""
    return make(render_mode=render_mode) if takes_argument(constructor, "render_mode") else make()


def takes_argument(constructor, name):
    """Whether a constructor, or what Gymnasium finds by that text, takes an argument of this name."""
    constructor = load_env_creator(constructor) if isinstance(constructor, str) else constructor
    parameters = inspect.signature(constructor).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def make_env(env_fn, name, reads_info):
    try:
        env = env_fn()
    except CONTROL as error:
        raise contain(error, name) from error
    return env if isinstance(env, gymnasium.Env) else FromPyEnvironment(env, reads_info)


def layout_of(env, info_keys):
    observation_space, action_space = (
        getattr(env, name, None) for name in ("observation_space", "action_space")
    )
    check_space(observation_space, "the observation space")
    check_space(action_space, "the action space")
    reward_space = getattr(env.unwrapped, "reward_space", None)  # of vector rewards, as in MO-Gymnasium
    if reward_space is None:
        return Layout(observation_space, action_space, (), info_keys)
    check_space(reward_space, "the reward space")
    return Layout(observation_space, action_space, tuple(reward_space.shape), info_keys)


def reset_env(env, seed=None):
    """Returns the first observation of a new episode, and the info."""
    try:
        result = env.reset() if seed is None else env.reset(seed=seed)
    except WRONG_CALLS as error:
        raise_misfit("reset", error)
        raise
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise wrong_result("reset", result)
    return result


def step_env(env, action):
    """Returns the observation, reward, both flags and info of a step."""
    try:
        result = env.step(action)
    except WRONG_CALLS as error:
        raise_misfit("step", error)
        raise
    if not isinstance(result, (tuple, list)) or len(result) != 5:
        raise wrong_result("step", result)
    return result


def raise_misfit(call, error):
    """Raises the MisfitError for an error of a call, if there is one, see `find_misfit`."""
    misfit = find_misfit(call, error)
    if misfit is not None:
        raise misfit from error


def find_misfit(call, error):
    """Returns a MisfitError if `error`, of a `call`, "reset" or "step", says that its interface is wrong.

    Gymnasium's wrappers give the environment's own `reset` and `step` arguments that these may lack, unpack
    what they return, or check it. Any other error is one of the environment's code: then this returns None.
    """
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    is_of_caller = len(files) == 1 or files[-1].startswith(_CALLERS)
    is_wrong = is_of_caller and re.search(rf"unpack|\b{call}\(\) (got|takes|missing)", str(error))
    return wrong_call(call, error) if is_wrong or files[-1] == passive_env_checker.__file__ else None


def _step_randomly(env, count, observation, info):
    """Takes `count` random steps; returns the last observation and info."""
    for _ in range(count):
        observation, _, terminated, truncated, info = step_env(env, env.action_space.sample())
        if ends_episode(terminated, truncated):
            observation, info = reset_env(env)
    return observation, info


def ends_episode(terminated, truncated):
    """Whether a step ends its episode, after a check of both flags."""
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        is_bool = type(flag) in (bool, np.bool_)
        if not is_bool and not (isinstance(flag, np.ndarray) and flag.dtype == bool and flag.shape == ()):
            raise MisfitError(f"{name} is {describe(flag)}: it must be True or False")
    return bool(terminated or truncated)


def make_writer(space, arrays, name, path=""):
    """Returns a function (row, observation) that writes into `arrays`, an iterator with one for each leaf."""
    parts = children(space)
    whole = name_part(name, path)
    if parts is None:
        return make_leaf_writer(next(arrays), whole)
    writers = [(key, make_writer(part, arrays, name, join_path(path, key))) for key, part in parts]
    is_tuple = isinstance(space, spaces.Tuple)

    def write(row, observation):
        key = None
        try:
            if is_tuple and len(observation) != len(writers):
                raise MisfitError(
                    f"{whole} is {describe(observation)}, its space is a Tuple of {len(writers)}"
                )
            for key, write_part in writers:
                write_part(row, observation[key])
        except (LookupError, TypeError):
            raise MisfitError(f"{whole} is {describe(observation)}, its space has the part {key!r}") from None

    return write


def make_leaf_writer(array, name):
    """Returns a function (row, value) that writes a value that fits, and raises MisfitError otherwise."""
    shape, dtype = array.shape[1:], array.dtype
    if shape == ():
        types = _NUMBERS if dtype.kind == "f" else {dtype.type, *([int] if dtype == np.int64 else [])}

        def write(row, value):
            try:
                array[row] = value if type(value) in types else fit(value, shape, dtype, name)
            except OverflowError:  # an int of more than 64 bits
                fit(value, shape, dtype, name)

        return write

    def write(row, value):
        try:
            fits = value.shape == shape and value.dtype is dtype
        except AttributeError:
            fits = False
        array[row] = value if fits else fit(value, shape, dtype, name)

    return write


def make_action_reader(space):
    """Returns a function from an iterator over arrays to B actions: copies, which an environment may keep."""
    parts = children(space)
    if parts is None:
        if isinstance(space, spaces.Discrete):
            return lambda arrays: next(arrays).tolist()
        return lambda arrays: list(next(arrays).copy())
    keys, readers = [key for key, _ in parts], [make_action_reader(part) for _, part in parts]
    is_dict = isinstance(space, spaces.Dict)

    def read(arrays):
        rows = zip(*[reader(arrays) for reader in readers], strict=True)
        return [dict(zip(keys, row, strict=True)) for row in rows] if is_dict else list(rows)

    return read


class FromPyEnvironment(gymnasium.Env):
    """A TF-Agents `PyEnvironment` as a `gymnasium.Env`. Raises ConfigError if it is none, or batched.

    Its specs are nests of dicts, tuples and lists. An episode that ends with discount 0 is terminated; with
    any other discount it is truncated. `reset(seed=)` calls `env.seed` if that is implemented. With
    `reads_info` the info is that of `env.get_info`, if that is implemented, else it is empty.
    """

    def __init__(self, env, reads_info=False):
        if not hasattr(env, "time_step_spec"):  # an isinstance would need an import of TF-Agents
            raise ConfigError(
                f"{env!r} is neither a gymnasium.Env nor a TF-Agents PyEnvironment; load_pettingzoo takes "
                "games of PettingZoo"
            )
        if env.batched:
            raise ConfigError(f"{env} is batched already: use it without load or PythonEnvironment")
        self._env, self._reads_info = env, reads_info
        self.observation_space = _space_from_spec(env.observation_spec())
        self.action_space = _space_from_spec(env.action_spec())
        reward_shape = env.reward_spec().shape
        if reward_shape:
            self.reward_space = spaces.Box(-np.inf, np.inf, reward_shape, np.float32)

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            with contextlib.suppress(NotImplementedError):
                self._env.seed(seed)
        return self._env.reset().observation, self._get_info()

    def step(self, action):
        time_step = self._env.step(action)
        ended = bool(time_step.is_last())
        terminated = ended and bool(time_step.discount == 0)
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
