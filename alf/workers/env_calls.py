# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes, resets and steps one environment, and checks the form of the results."""

import inspect

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from alf.errors import contain
from alf.workers.arrays import (
    Layout,
    MisfitError,
    check_space,
    describe,
    without_bools,
    wrong_result,
)
from alf.workers.py_environment import FromPyEnvironment

# Exceptions that would end a thread, a generator or the process silently if an environment raised them.
# KeyboardInterrupt is not among them: it comes from the user.
CONTROL = (SystemExit, GeneratorExit, StopIteration, StopAsyncIteration)


def make_rendered(make, constructor, render_mode):
    """Calls `make`, with `render_mode` if the constructor takes it."""
    return make(render_mode=render_mode) if takes_argument(constructor, "render_mode") else make()


def make_limited(make, constructor, max_episode_steps, **kwargs):
    """Calls `make(**kwargs)` and truncates the episodes of its environment after `max_episode_steps`."""
    # The environment may have a limit of its own, which may be lower.
    if "max_episode_steps" in inspect.signature(constructor).parameters:
        kwargs["max_episode_steps"] = max_episode_steps
    # Only `EnvBatch` knows later whether it reads infos.
    env = _as_gymnasium(make(**kwargs), reads_info=True)
    return gymnasium.wrappers.TimeLimit(env, max_episode_steps)


def takes_argument(constructor, name):
    """Returns whether a constructor, or the one that Gymnasium finds by a text, has an argument `name`."""
    constructor = load_env_creator(constructor) if isinstance(constructor, str) else constructor
    parameters = inspect.signature(constructor).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def make_env(env_fn, name, reads_info):
    """Makes an environment as a `gymnasium.Env`.

    Args:
        env_fn: callable without arguments -> `gymnasium.Env` or TF-Agents `PyEnvironment`.
        name: text for errors, such as "the constructor of environment 3".
        reads_info: bool, whether a PyEnvironment's info is read.
    """
    try:
        env = env_fn()
    except CONTROL as error:
        raise contain(error, name) from error
    return _as_gymnasium(env, reads_info)


def _as_gymnasium(env, reads_info):
    return env if isinstance(env, gymnasium.Env) else FromPyEnvironment(env, reads_info)


def find_owner(env, name):
    """Returns the environment that has an attribute or a method: `env` itself, or one that it wraps.

    Raises AttributeError if none has it.
    """
    owner = env
    while owner is not None:
        # Not by `hasattr`: wrappers of TF-Agents and PettingZoo show the attributes of the environment that
        # they wrap, but keep for themselves a value that is set.
        if name in vars(owner) or hasattr(type(owner), name):
            return owner
        owner = vars(owner).get("env", vars(owner).get("_env"))
    raise AttributeError(f"{type(env.unwrapped).__name__} has no attribute {name!r}")


def layout_of(env, info_keys):
    """Returns the `Layout` of an environment. Raises ConfigError if a space is not supported."""
    observation_space = without_bools(getattr(env, "observation_space", None))
    action_space = getattr(env, "action_space", None)
    check_space(observation_space, "the observation space")
    check_space(action_space, "the action space")
    # MO-Gymnasium's name, for vector rewards. Wrappers of Gymnasium do not pass it on.
    reward_space = getattr(env.unwrapped, "reward_space", None)
    if reward_space is None:
        return Layout(observation_space, action_space, (), info_keys)
    check_space(reward_space, "the reward space")
    return Layout(observation_space, action_space, tuple(reward_space.shape), info_keys)


def reset_env(env, seed=None):
    """Resets an environment. Returns the observation and the info."""
    result = env.reset() if seed is None else env.reset(seed=seed)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise wrong_result("reset", result)
    return result


def step_env(env, action):
    """Steps an environment. Returns observation, reward, terminated, truncated and info."""
    result = env.step(action)
    if not isinstance(result, (tuple, list)) or len(result) != 5:
        raise wrong_result("step", result)
    return result


def ends_episode(terminated, truncated):
    """Returns whether a step ends its episode. Raises MisfitError unless both flags are bools."""
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        is_bool = type(flag) in (bool, np.bool_)
        if not is_bool and not (isinstance(flag, np.ndarray) and flag.dtype == bool and flag.shape == ()):
            raise MisfitError(f"{name} is {describe(flag)}: it must be True or False")
    return bool(terminated or truncated)
