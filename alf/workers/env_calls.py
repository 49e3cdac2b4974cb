# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes, resets and steps one environment, and checks the form of the results."""

import inspect
import re
import signal
import threading
import weakref

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from alf.errors import RAISED_BY, ConfigError, EnvError, contain
from alf.workers.arrays import (
    Layout,
    MisfitError,
    check_space,
    describe,
    missing_values,
    without_bools,
    wrong_result,
)
from alf.workers.py_environment import Adapter, FromPyEnvironment

# What Python says where a wrapper of Gymnasium unpacks the results of an environment of the old Gym.
_UNPACKED = re.compile(r"(?:not enough|too many) values to unpack \(expected ([25])(?:, got (\d+))?\)")

# The ids of the environments that are stepped in this process, with the objects that step them.
_owners: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
_lock = threading.Lock()


def ignore_signal(signum, frame):
    """Does nothing: worker processes handle signals of terminals and schedulers by it."""


def is_ctrl_c(error):
    """Whether an exception comes from the user, and not from an environment that raises KeyboardInterrupt."""
    # Python raises it in the main thread, if the handler does: not in a worker process.
    is_main = threading.current_thread() is threading.main_thread()
    is_handled = signal.getsignal(signal.SIGINT) is not ignore_signal
    return isinstance(error, KeyboardInterrupt) and is_main and is_handled


def name_error(error, name):
    """Returns the exception to raise in place of one of an environment, so that the environment is named.

    A `MisfitError`, and what `contain` replaces, becomes an `EnvError`; others get a note. Ctrl-C stays as it
    is.

    Args:
        error: exception.
        name: text, such as "environment 3, step 7".
    """
    if is_ctrl_c(error):
        return error
    misfit = error if isinstance(error, MisfitError) else _find_misfit(error)
    if misfit is not None:
        named = EnvError(f"{name}: {misfit}")
        named.__cause__ = error
        return named
    named = contain(error, name)
    if named is error and hasattr(error, "add_note"):  # from Python 3.11 on
        error.add_note(f"{RAISED_BY}{name}")
    return named


def _find_misfit(error):
    """Returns the MisfitError for results that a wrapper of Gymnasium could not unpack, or None."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    match = _UNPACKED.fullmatch(str(error)) if type(error) is ValueError else None
    if match is None or not place.startswith("gymnasium."):
        return None
    call, count = "reset" if match[1] == "2" else "step", match[2] and int(match[2])
    return missing_values(call, f"{count or 'other'} values", count)


def claim(owner, env, name):
    """Notes that `owner` steps an environment, until `free` or the end of `owner`.

    Args:
        owner: the object that steps it.
        env: `gymnasium.Env` or `gymnasium.vector.VectorEnv`.
        name: text, such as "environment 3".

    Raises:
        ConfigError: if the environment, or one that it steps, is stepped elsewhere or twice.
    """
    ids = [id(one) for one in _list_stepped(env)]
    with _lock:
        if len(set(ids)) < len(ids) or any(one in _owners for one in ids):
            raise ConfigError(
                f"{name} is an object that is another environment already, {type(env.unwrapped).__name__}: "
                "return a new one at each call"
            )
        _owners.update(dict.fromkeys(ids, owner))


def free(env):
    """Notes that an environment is stepped no more."""
    with _lock:
        for one in _list_stepped(env):
            _owners.pop(id(one), None)


def _list_stepped(env):
    """Lists the objects that a step of an environment changes."""
    base = env.unwrapped
    inner = [vars(base)["_env"]] if isinstance(base, Adapter) else []
    if isinstance(base, gymnasium.vector.SyncVectorEnv):
        inner = base.envs
    return [base, *(getattr(one, "unwrapped", one) for one in inner)]


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
    except BaseException as error:
        error = name_error(error, name)
        raise error
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
    try:
        result = env.reset() if seed is None else env.reset(seed=seed)
    except TypeError as error:
        raise _explain_reset(env, error) from error
    is_pair = isinstance(result, (tuple, list)) and len(result) == 2
    # A list of two numbers is an observation alone.
    if not is_pair or isinstance(result[1], (int, float, np.number)):
        raise wrong_result("reset", result)
    return result


def _explain_reset(env, error):
    """Returns the exception to raise in place of a TypeError of `reset`."""
    base = env.unwrapped
    try:
        lacking = [name for name in ("seed", "options") if not takes_argument(base.reset, name)]
    except (TypeError, ValueError):  # it has no signature
        return error
    # Wrappers of Gymnasium pass on both.
    if not lacking or f"unexpected keyword argument '{lacking[0]}'" not in str(error):
        return error
    return MisfitError(
        f"reset() of {type(base).__name__} takes no {lacking[0]}: define it as reset(self, *, seed=None, "
        "options=None), and seed there"
    )


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
