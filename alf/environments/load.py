# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes a batched environment from a name."""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import gymnasium

from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.registry import bind_arguments
from alf.config.settings import Seed, configurable
from alf.core.pickling import can_pickle
from alf.environments.arguments import InfoKeys, NumWorkers, RenderMode
from alf.environments.atari import load_atari
from alf.environments.envpool import load_envpool
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.environments.multi_agent_env import MultiAgentEnvironment
from alf.environments.names import find_callable, find_newer, find_spec
from alf.environments.python_env import PythonEnvironment
from alf.errors import ConfigError, import_extra
from alf.workers import make_limited, make_rendered, takes_argument
from alf.workers.games import make_game
from alf.workers.info import check_info_keys

_OF_VECTORS = {"num_envs": "batch_size", "vectorization_mode": "num_workers"}
_MEANT = {**_OF_VECTORS, "id": "name"}  # from arguments of Gymnasium to the settings of `load` for them


@configurable("alf.environments", claims_name=True)
def load(
    name: str | Callable[..., Any],
    batch_size: PositiveInt = 1,
    seed: Seed = None,
    max_episode_steps: PositiveInt | None = None,
    num_workers: NumWorkers = "auto",
    info_keys: InfoKeys = (),
    render_mode: RenderMode = None,
    max_random_steps: NonNegativeInt | None = None,
    **kwargs: Any,
) -> Any:
    """Returns B environments `name` as one batched environment.

    Args:
        name: text or callable. A Gymnasium id such as "CartPole-v1"; "module:id" first imports the module,
            which registers the id; "module:Class" is a class or function of the module. `load_atari` loads
            "ALE/Pong-v5", `load_envpool` loads "envpool:Pong-v5", `load_pettingzoo` loads
            "pettingzoo:pettingzoo.classic.connect_four_v3:env". "dm_control:cartpole/balance" is a task of
            dm_control's suite. Or a callable that returns one environment: a `gymnasium.Env`, or an unbatched
            TF-Agents `PyEnvironment`.
        batch_size: number of sub-environments, B, or of games with several agents. In an experiment it
            follows from `Experiment.num_envs`, and must not be set.
        seed: int or None, for the first reset.
        max_episode_steps: time limit; it ends an episode with discount 1. None for the limit that is
            registered with the id. A callable gets it, too, if it has an argument of that name.
        num_workers: "auto", "thread" or int. With "auto", an id that has its own vector environment (NumPy or
            C++) steps in this process, if that can be imported; for anything else `PythonEnvironment`
            chooses. An int is the number of worker processes that step single environments; 0 steps them in
            this process, "thread" in one thread of it, which also makes and closes them.
        info_keys: which numbers of the environment's info become statistics of episodes, such as
            ("is_success",). "a/b" is this entry, or the entry "b" of the dict "a". A key may be absent in a
            step.
        render_mode: "rgb_array" for environments that `render` frames. None: they cannot render. It goes to
            the constructor of the environment, if that has such an argument. With it, environments step in
            one worker process whatever `num_workers` is, if cloudpickle can pickle their constructors.
        max_random_steps: before its first step each environment takes a random number of random actions, at
            most this many, so that episodes do not end together. It follows from `seed`. The environments of
            a vector environment (NumPy or C++) step together: they all take the same number. None for the
            setting of `PythonEnvironment`, `load_atari` or `load_envpool`.
        **kwargs: arguments of the environment's constructor, or of the callable.

    Gin's bindings of the callable, or of the constructor that an id names, reach worker processes as
    arguments: `Mine.limit = 7`, `eval/Mine.limit = 7`, `Mine.inner = @Other()`. Functions that the
    constructor calls find no gin configuration there.

    Raises:
        ConfigError: if `name` is unknown or a setting is wrong. Errors of the environment pass through.
    """
    name = find_callable(name)
    # Only the arguments that are set, so that gin's bindings of `load_atari` and the others count otherwise.
    wanted: dict[str, Any] = {}
    if info_keys != ():
        wanted["info_keys"] = tuple(info_keys)
    if max_random_steps is not None:
        wanted["max_random_steps"] = max_random_steps
    limit: dict[str, Any] = {"max_episode_steps": int(max_episode_steps)} if max_episode_steps else {}
    text = name if isinstance(name, str) else ""
    if text.startswith("pettingzoo:"):
        workers = {} if num_workers == "auto" else {"num_workers": num_workers}
        wanted = {**limit, **workers, **wanted, "render_mode": render_mode}
        return load_pettingzoo(text.removeprefix("pettingzoo:"), batch_size, seed, **wanted, **kwargs)
    if text.startswith(("ALE/", "envpool:")):
        if num_workers != "auto":
            raise ConfigError(f"load.num_workers does not apply to {name!r}, which steps in C++ threads")
        if text.startswith("envpool:"):
            game = text.removeprefix("envpool:")
            return load_envpool(game, batch_size, seed, render_mode=render_mode, **limit, **wanted, **kwargs)
        if max_episode_steps is not None:
            raise ConfigError(f"load.max_episode_steps does not apply to {name!r}: set max_episode_frames")
        return load_atari(text, batch_size, seed, render_mode=render_mode, **wanted, **kwargs)
    # Its own vector environment only if nothing asks for workers or frames, which it cannot give.
    if num_workers == "auto" and render_mode is None and has_vector_entry(name):
        _check_arguments_of_make(kwargs)
        # Its NumPy or C++ code steps all rows in one call.
        kwargs = {**limit, **kwargs, "vectorization_mode": "vector_entry_point"}
        env = gymnasium.make_vec(text, int(batch_size), **kwargs)
        return GymnasiumEnvironment(env, seed=seed, **wanted)
    # Gin is not configured in workers, so its bindings become arguments here, in this process.
    makes, constructor = _bind(name, batch_size, limit, kwargs)
    makes, num_workers = _render_or_step(makes, num_workers, constructor, render_mode)
    try:
        return PythonEnvironment(makes, seed, num_workers, **wanted)
    except gymnasium.error.DependencyNotInstalled:
        if "mujoco" in str(constructor):
            import_extra("mujoco", "mujoco")  # Its error says how to install it.
        raise
    except ImportError as error:  # of an old version, such as HalfCheetah-v2
        newer = None if callable(name) else find_newer(find_spec(name))
        if newer is None:
            raise
        reason = str(error).partition("\n")[0]  # without the calls that gin adds
        raise ConfigError(f"load.name is {name!r}: {reason} Write {newer}") from error


def _check_arguments_of_make(kwargs, constructor=None):
    """Raises ConfigError if `kwargs` for an environment have arguments that ALF itself gives to Gymnasium.

    The `constructor` of a single environment may have arguments of its own with the names of arguments that
    Gymnasium takes for a vector environment.
    """
    for name in kwargs.keys() & {*_MEANT, "disable_env_checker"}:
        if name in _OF_VECTORS and constructor is not None and takes_argument(constructor, name):
            continue
        hint = f": did you mean alf.environments.load.{_MEANT[name]} ?" if name in _MEANT else ""
        raise ConfigError(f"load.{name} is {kwargs[name]!r}: load has no such setting{hint}")


def find_env_fn(name, max_episode_steps=None, info_keys=(), **kwargs):
    """Finds the constructor of one of the environments that `load` would make with the same arguments.

    Returns:
        a callable without arguments.

    Raises:
        ConfigError: if `name` is unknown, or names environments that step in C++, which `load` makes
            together.
    """
    name = find_callable(name)
    if str(name).startswith(("ALE/", "envpool:")):
        raise ConfigError(f"load.name is {name!r}: environments that step in C++ cannot be made one by one")
    if str(name).startswith("pettingzoo:"):
        import_extra("pettingzoo", "pettingzoo")
        [make] = _bind_call(_find_game(name.removeprefix("pettingzoo:")), 1, kwargs)
        return functools.partial(make_game, make, max_episode_steps, tuple(info_keys))
    limit = {"max_episode_steps": max_episode_steps} if max_episode_steps else {}
    [make], _ = _bind(name, 1, limit, kwargs)
    return make


def has_vector_entry(name):
    """Whether `name` is an id that has its own vector environment, and that can be imported."""
    name = find_callable(name)
    is_id = not callable(name) and not str(name).startswith(("ALE/", "envpool:", "pettingzoo:"))
    return is_id and _can_import_vector_entry(find_spec(name))


def _bind(name, batch_size, limit, kwargs):
    """Returns B callables that each make the environment `name`, and its constructor."""
    if not callable(name):
        spec = find_spec(name)
        _check_arguments_of_make(kwargs, spec.entry_point)
        return _bind_registered(spec, batch_size, {**limit, **kwargs}), spec.entry_point
    makes = _bind_call(name, batch_size, kwargs)
    limited = [functools.partial(make_limited, x, x.func, **limit) for x in makes] if limit else makes
    return limited, makes[0].func


def _bind_call(constructor, batch_size, kwargs):
    # One by one, because gin makes another object of `@Other()` for each environment.
    call = functools.partial(constructor, **kwargs)
    return [bind_arguments(call) for _ in range(batch_size)]


def _bind_registered(spec, batch_size, kwargs):
    """Returns B callables that make environments of an id."""
    # The spec instead of the id: so a worker need not import the module that registered the id. Without the
    # checker of Gymnasium, which would check every step.
    make = functools.partial(gymnasium.make, spec, disable_env_checker=True, **kwargs)
    constructor = _find_imported(spec.entry_point)  # Gin can only have bindings of imported ones.
    if constructor is None:
        return [make] * batch_size
    _check_arguments(spec.id, constructor, kwargs)
    call = functools.partial(constructor, **{**spec.kwargs, **kwargs})
    bound = [bind_arguments(call) for _ in range(batch_size)]
    return [make if x is call else functools.partial(make, **x.keywords) for x in bound]


def _find_imported(entry_point):
    """Returns the constructor that an entry point of Gymnasium names, or None if it is not imported yet."""
    if callable(entry_point):
        return entry_point
    module, _, name = str(entry_point).partition(":")
    return getattr(sys.modules.get(module), name, None)


def _check_arguments(name, constructor, kwargs):
    """Raises TypeError, as a call does, if neither Gymnasium nor a constructor knows an argument.

    Gymnasium itself cannot raise again what gin has raised.
    """
    of_gymnasium = inspect.signature(gymnasium.make).parameters
    own = {key: value for key, value in kwargs.items() if key not in of_gymnasium}
    try:
        signature = inspect.signature(constructor)
    except ValueError:  # It is written in C and has no signature.
        return
    try:
        signature.bind_partial(**own)
    except TypeError as error:
        raise TypeError(f"the constructor of {name!r} {error}") from None


def _render_or_step(makes, num_workers, constructor, render_mode):
    """Returns the callables that make environments, with the `render_mode`, and the number of workers."""
    if render_mode is None:
        return makes, num_workers
    makes = [functools.partial(make_rendered, make, constructor, render_mode) for make in makes]
    # Mesa, which draws where there is no graphics card, crashes beside TensorFlow: both bring LLVM.
    return makes, 1 if can_pickle(makes) else "thread" if num_workers == "thread" else 0


def _can_import_vector_entry(spec):
    """Whether `spec` has its own vector environment that can be imported."""
    entry_point = spec.vector_entry_point
    if entry_point is None or callable(entry_point):
        return entry_point is not None
    try:
        importlib.import_module(entry_point.partition(":")[0])
    except (ImportError, gymnasium.error.DependencyNotInstalled):
        # Without a plain entry point there is nothing else to load, so the user must see the import error.
        if spec.entry_point is None:
            raise
        return False
    return True


@configurable("alf.environments")
def load_pettingzoo(
    name: str | Callable[..., Any],
    batch_size: PositiveInt,
    seed: Seed = None,
    max_episode_steps: PositiveInt | None = None,
    num_workers: NumWorkers = "auto",
    info_keys: InfoKeys = (),
    render_mode: RenderMode = None,
    max_random_steps: NonNegativeInt | None = None,
    **kwargs: Any,
) -> Any:
    """Returns G games of PettingZoo with A agents each as one `MultiAgentEnvironment` of G * A rows.

    In games where the agents take turns (`AECEnv`) each ply is a step of all agents. What they observe has an
    "action_mask", for `ActorCriticPolicy.action_mask_key`. The masks of agents that wait allow only one
    action. The actions of such games are Discrete or MultiDiscrete.

    Args:
        name: text or callable. "MODULE:FUNCTION", such as "mpe2.simple_spread_v3:parallel_env"; without a
            function the module's `parallel_env` counts, or else its `env`. Or a callable. It returns a
            `ParallelEnv` or an `AECEnv`.
        batch_size: number of games, G.
        max_episode_steps: steps after which a game is truncated; if agents take turns, plies.
        info_keys: which numbers of each agent's own info become statistics of episodes.
        max_random_steps: before its first step each game takes a random number of random actions, at most
            this many; of an `AECEnv`, actions that the masks allow.
        seed, num_workers, render_mode: the same settings of `load`.
        **kwargs: arguments of the function. Gin's bindings of it reach worker processes, too.

    Raises:
        ConfigError: if PettingZoo is missing, there is no such function, it returns something else, or a
            setting is wrong. Errors of the environment pass through.
    """
    import_extra("pettingzoo", "pettingzoo")
    info_keys = check_info_keys("load_pettingzoo.info_keys", info_keys)
    wanted: dict[str, Any] = {"info_keys": ()}  # the games read the infos of their agents
    if max_random_steps is not None:
        wanted["max_random_steps"] = max_random_steps
    constructor = name if callable(name) else _find_game(name)
    makes = _bind_call(constructor, batch_size, kwargs)
    makes, num_workers = _render_or_step(makes, num_workers, constructor, render_mode)
    # The game is made by the same call as its environment, in the worker.
    makes = [functools.partial(make_game, make, max_episode_steps, info_keys) for make in makes]
    return MultiAgentEnvironment(PythonEnvironment(makes, seed, num_workers, **wanted), info_keys)


def _find_game(name):
    """Returns the function that "MODULE:FUNCTION" or only "MODULE" names."""
    module_name, _, function = str(name).partition(":")
    setting = f"load_pettingzoo.name is {name!r}"
    try:
        module = importlib.import_module(module_name)
    # PettingZoo's modules raise an AttributeError of their own for versions that do not exist any more.
    except (ImportError, ValueError, gymnasium.error.Error) as error:
        raise ConfigError(f"{setting}: {module_name!r} cannot be imported: {error}") from error
    for attribute in [function] if function else ["parallel_env", "env"]:
        if callable(getattr(module, attribute, None)):
            return getattr(module, attribute)
    raise ConfigError(f"{setting}: {module_name} has no function {function or 'parallel_env or env'}")
