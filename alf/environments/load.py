# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""From a name to a batched environment."""

import difflib
import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from alf.configurable import configurable
from alf.environments.bound_values import bind_values, find_imported, find_lost
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.environments.multi_agent_env import MultiAgentEnvironment
from alf.environments.python_env import PythonEnvironment
from alf.errors import ConfigError, check_bool, check_int, check_number
from alf.seeds import spawn_seeds
from alf.workers import can_pickle, make_rendered
from alf.workers.games import make_game
from alf.workers.info import check_info_keys

_SCREEN_HEIGHT, _SCREEN_WIDTH, _SCREEN_HZ = 210, 160, 60  # of the Atari 2600


@configurable(module="alf.environments")
def load(
    name: str | Callable[..., Any],
    batch_size: int,
    seed: int | None = None,
    max_episode_steps: int | None = None,
    num_workers: int | str = "auto",
    info_keys: Sequence[str] = (),
    render_mode: str | None = None,
    max_random_steps: int | None = None,
    num_splits: int | None = None,
    **kwargs: Any,
) -> Any:
    """Returns B environments `name` as one batched environment, or as `num_splits` of them in a list.

    In gin files the name is `alf.environments.load`, because TF-Agents registers a `load` too.

    Args:
        name: text or callable. A Gymnasium id such as "CartPole-v1"; "module:id" first imports the module,
            which registers the id. `load_atari` loads "ALE/Pong-v5", `load_envpool` loads "envpool:Pong-v5",
            `load_pettingzoo` loads "pettingzoo:pettingzoo.classic.connect_four_v3:env". Or a callable that
            returns one environment: a `gymnasium.Env`, or an unbatched TF-Agents `PyEnvironment`.
        batch_size: number of sub-environments, B; of games, if they have several agents.
        seed: int or None, for the first reset.
        max_episode_steps: time limit; it ends an episode with discount 1. None for the limit that is
            registered with the id.
        num_workers: "auto" or int. With "auto", an id that has its own vector environment (NumPy or C++)
            steps in this process, if that can be imported; for anything else `PythonEnvironment` chooses. An
            int is the number of worker processes that step single environments; 0 steps them in this process.
        info_keys: which numbers of the environment's info become statistics of episodes, such as
            ("is_success",). "a/b" is the entry "b" of the dict "a". A key may be absent in a step.
        render_mode: "rgb_array" for environments that `render` frames; None for none. It goes to the
            constructor of the environment, if that has such an argument. Whatever `num_workers` is, they step
            in one worker process then, if cloudpickle can pickle what makes them.
        max_random_steps: before its first step each environment takes a random number of random actions, at
            most this many, so that episodes do not end together. It follows from `seed`. The environments of
            a vector environment (NumPy or C++) step together: they all take the same number. None for what
            `PythonEnvironment`, `load_atari` and `load_envpool` say.
        num_splits: int, k. Above 1 the result is a list of k environments of B / k rows each that share
            worker processes, see `PythonEnvironment`. An id steps in workers then, also if it has its own
            vector environment. None for what `PythonEnvironment` says.
        **kwargs: for the constructor of the environment, or for the callable.

    What gin binds to the callable, or to the constructor that an id names, reaches worker processes as
    arguments: `Mine.limit = 7`, `eval/Mine.limit = 7`, `Mine.inner = @Other()`. What the constructor itself
    calls finds no gin configuration there.

    Raises:
        ConfigError: if `name` is unknown or a setting is wrong. Errors of the environment pass through.
    """
    check_int("load.batch_size", batch_size)
    _check_render_mode("load.render_mode", render_mode)
    # A setting of `load_atari` and the others counts where this one is not set.
    wanted: dict[str, Any] = {}
    if info_keys != ():
        wanted["info_keys"] = check_info_keys("load.info_keys", info_keys)
    if max_random_steps is not None:
        wanted["max_random_steps"] = check_int("load.max_random_steps", max_random_steps, at_least=0)
    splits: dict[str, Any] = {}
    if num_splits is not None:
        splits["num_splits"] = check_int("load.num_splits", num_splits)
    limit: dict[str, Any] = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
    text = name if isinstance(name, str) else ""
    if text.startswith("pettingzoo:"):
        workers = {} if num_workers == "auto" else {"num_workers": num_workers}
        wanted = {**limit, **workers, **wanted, **splits, "render_mode": render_mode}
        return load_pettingzoo(text.removeprefix("pettingzoo:"), batch_size, seed, **wanted, **kwargs)
    if text.startswith(("ALE/", "envpool:")):
        _check_has_no_workers(name, num_workers, num_splits)
        if text.startswith("envpool:"):
            game = text.removeprefix("envpool:")
            return load_envpool(game, batch_size, seed, render_mode=render_mode, **limit, **wanted, **kwargs)
        if max_episode_steps is not None:
            raise ConfigError(f"load.max_episode_steps does not apply to {name!r}: set max_episode_frames")
        return load_atari(text, batch_size, seed, render_mode=render_mode, **wanted, **kwargs)
    if max_episode_steps is not None:
        # Gymnasium's -1 for "no limit" would end every episode of a vector environment after one step.
        check_int("load.max_episode_steps", max_episode_steps)
        kwargs["max_episode_steps"] = int(max_episode_steps)
    is_free = num_workers == "auto" and render_mode is None and num_splits in (None, 1)
    if is_free and has_vector_entry(name):
        env = gymnasium.make_vec(text, int(batch_size), vectorization_mode="vector_entry_point", **kwargs)
        return GymnasiumEnvironment(env, seed=seed, **wanted)
    call, makes, constructor = _bind(name, batch_size, kwargs)
    makes, num_workers = _render_or_step(makes, num_workers, constructor, render_mode, find_lost(call))
    try:
        return _make_single(makes, seed, num_workers, splits, wanted)
    except gymnasium.error.DependencyNotInstalled:
        if "mujoco" in str(constructor):
            import_extra("mujoco", "mujoco")  # Its error says how to install it.
        raise


def _check_render_mode(setting, render_mode):
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"{setting} is {render_mode!r}: it must be 'rgb_array' or None")


def find_env_fn(name, max_episode_steps=None, info_keys=(), **kwargs):
    """Returns what makes one of the environments that `load` would make with the same arguments.

    Returns:
        a callable without arguments, and a text that names a binding that it would lose in a worker, or None.

    Raises:
        ConfigError: if `name` is unknown, or of environments that step in C++, which `load` makes at once.
    """
    if str(name).startswith(("ALE/", "envpool:")):
        raise ConfigError(f"load.name is {name!r}: environments that step in C++ cannot be made one by one")
    if str(name).startswith("pettingzoo:"):
        import_extra("pettingzoo", "pettingzoo")
        call, [make] = _bind_call(_find_game(name.removeprefix("pettingzoo:")), 1, kwargs)
        return functools.partial(make_game, make, max_episode_steps, tuple(info_keys)), find_lost(call)
    limit = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
    call, [make], _ = _bind(name, 1, {**limit, **kwargs})
    return make, find_lost(call)


def has_vector_entry(name):
    """Whether `name` is an id that has its own vector environment, and that can be imported."""
    is_id = not callable(name) and not str(name).startswith(("ALE/", "envpool:", "pettingzoo:"))
    return is_id and _can_import_vector_entry(_find_spec(name))


def _bind(name, batch_size, kwargs):
    """Returns the call that `name` stands for, B callables that make environments, and the constructor."""
    if not callable(name):
        spec = _find_spec(name)
        return *_bind_registered(spec, batch_size, kwargs), spec.entry_point
    call, makes = _bind_call(name, batch_size, kwargs)
    return call, makes, makes[0].func


def _bind_call(constructor, batch_size, kwargs):
    call = functools.partial(constructor, **kwargs)
    return call, [bind_values(call) for _ in range(batch_size)]


def _check_has_no_workers(name, num_workers, num_splits):
    if num_workers != "auto":
        raise ConfigError(f"load.num_workers does not apply to {name!r}, which steps in C++ threads")
    if num_splits not in (None, 1):
        raise ConfigError(
            f"load.num_splits does not apply to {name!r}, which has no workers to share: set "
            "Experiment.num_envs"
        )


def _bind_registered(spec, batch_size, kwargs):
    """Returns the call of the constructor that an id names, and B callables that make environments."""
    # The spec instead of the id: a worker need not import the module that registered the id. The checker
    # of Gymnasium would check every step.
    make = functools.partial(gymnasium.make, spec, disable_env_checker=True, **kwargs)
    constructor = find_imported(spec.entry_point)  # Gin knows what is imported.
    if constructor is None:
        return make, [make] * batch_size
    _check_arguments(spec.id, constructor, kwargs)
    call = functools.partial(constructor, **{**spec.kwargs, **kwargs})
    bound = [bind_values(call) for _ in range(batch_size)]
    return call, [make if x is call else functools.partial(make, **x.keywords) for x in bound]


def _check_arguments(name, constructor, kwargs):
    """Raises TypeError, as a call does, if neither Gymnasium nor a constructor knows an argument.

    Gymnasium itself cannot raise again what gin has raised.
    """
    of_gymnasium = inspect.signature(gymnasium.make).parameters
    own = {key: value for key, value in kwargs.items() if key not in of_gymnasium}
    try:
        signature = inspect.signature(constructor)
    except ValueError:  # It is written in C, and says nothing.
        return
    try:
        signature.bind_partial(**own)
    except TypeError as error:
        raise TypeError(f"the constructor of {name!r} {error}") from None


def _render_or_step(makes, num_workers, constructor, render_mode, lost):
    """Returns what makes the environments, with the `render_mode`, and how many workers step them.

    `lost` names a binding that workers would lose, or is None.
    """
    if render_mode is not None:
        makes = [functools.partial(make_rendered, make, constructor, render_mode) for make in makes]
        # Mesa, which draws where there is no graphics card, crashes beside TensorFlow: both bring LLVM.
        return makes, int(lost is None and can_pickle(makes))
    return makes, num_workers if lost is None else _step_here(num_workers, lost)


def _step_here(num_workers, lost):
    """Returns 0, if that may be the number of workers: a worker would lose a binding."""
    if num_workers in ("auto", 0):
        return 0
    raise ConfigError(
        f"load.num_workers is {num_workers!r}: a worker would not know what gin binds to the callable "
        f"of {lost}; set load.num_workers to 0, or let gin make the object: {lost}()"
    )


def _make_single(env_fns, seed, num_workers, splits, wanted):
    """Makes a `PythonEnvironment`; returns a list of all its splits if there are several."""
    env = PythonEnvironment(env_fns, seed, num_workers, **splits, **wanted)
    return env.splits if len(env.splits) > 1 else env


def _find_spec(name):
    module, _, env_id = str(name).rpartition(":")
    if module:
        importlib.import_module(module)
    try:
        return gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        close = difflib.get_close_matches(env_id, list(gymnasium.registry))
        hint = f" Close matches: {', '.join(close)}." if close else ""
        raise ConfigError(f"load.name: no Gymnasium environment {name!r} ({error}).{hint}") from error


def _can_import_vector_entry(spec):
    """Whether `spec` has its own vector environment, and that can be imported."""
    entry_point = spec.vector_entry_point
    if entry_point is None or callable(entry_point):
        return entry_point is not None
    try:
        importlib.import_module(entry_point.partition(":")[0])
    except (ImportError, gymnasium.error.DependencyNotInstalled):
        # Without a plain entry point either, the user has to see the import error.
        if spec.entry_point is None:
            raise
        return False
    return True


@configurable(module="alf.environments")
def load_atari(
    name: str,
    batch_size: int,
    seed: int | None = None,
    frame_skip: int = 4,
    screen_size: int = 84,
    grayscale: bool = True,
    num_stack: int = 4,
    sticky_actions: float = 0.0,
    noop_max: int = 30,
    episodic_life: bool = False,
    full_action_space: bool = False,
    max_episode_frames: int = 108_000,
    num_threads: int = 0,
    info_keys: Sequence[str] = (),
    render_mode: str | None = None,
    max_random_steps: int = 0,
) -> GymnasiumEnvironment:
    """Returns B Atari games as one batched environment of ale-py.

    The defaults are the usual protocol (Mnih et al. 2015, Machado et al. 2018, arXiv 1709.06009) without
    sticky actions. Rewards are those of the game: the learner clips them if it should.

    Args:
        name: text, such as "Pong", "pong", "MsPacman" or "ALE/Pong-v5".
        batch_size: int, B.
        seed: int or None; each game gets its own seed from it, for the first reset.
        frame_skip: frames that an action is repeated for; an observation is the maximum of the last two.
        screen_size: height and width in pixels.
        grayscale: whether observations are gray. Those in colour have the channels last.
        num_stack: how many observations are stacked: uint8 [B, num_stack, height, width], or in colour
            uint8 [B, height, width, num_stack * 3].
        sticky_actions: probability that the emulator repeats the previous action; 0.25 in the later protocol.
        noop_max: an episode begins with a random number of no-ops, at most this many.
        episodic_life: whether the loss of a life ends the episode, as a termination.
        full_action_space: whether all 18 actions are offered, or only those that the game uses.
        max_episode_frames: time limit in frames (default: 30 minutes), a truncation.
        num_threads: C++ threads; 0 starts one for each core.
        info_keys: as in `load`, such as ("lives",).
        render_mode: "rgb_array" for games that `render` frames in colour and full size, for twice the work;
            None for none.
        max_random_steps: as in `load`. The games of one batch are parted by `noop_max`.

    Raises:
        ConfigError: if ale-py is missing, the game is unknown or a setting is wrong.
    """
    vector_env = import_extra("ale_py.vector_env", "atari")
    sizes = dict(batch_size=batch_size, frame_skip=frame_skip, screen_size=screen_size, num_stack=num_stack)
    for setting, value in {**sizes, "max_episode_frames": max_episode_frames}.items():
        check_int(f"load_atari.{setting}", value)
    for setting, value in dict(noop_max=noop_max, num_threads=num_threads).items():
        check_int(f"load_atari.{setting}", value, at_least=0)
    switches = dict(grayscale=grayscale, episodic_life=episodic_life, full_action_space=full_action_space)
    for setting, value in switches.items():
        check_bool(f"load_atari.{setting}", value)
    check_number("load_atari.sticky_actions", sticky_actions, at_least=0, at_most=1)
    # ale-py names games in snake case; here any usual spelling will do.
    roms = import_extra("ale_py.roms", "atari").get_all_rom_ids()
    games = {rom.replace("_", ""): rom for rom in roms}
    plain = str(name).removeprefix("ALE/").partition("-v")[0].replace("_", "").lower()
    if plain not in games:
        raise ConfigError(f"load_atari.name: no Atari game {name!r}; there are {', '.join(sorted(roms))}")
    _check_render_mode("load_atari.render_mode", render_mode)
    make = functools.partial(
        vector_env.AtariVectorEnv,
        games[plain],
        num_envs=batch_size,
        num_threads=num_threads,
        max_num_frames_per_episode=max_episode_frames,
        repeat_action_probability=sticky_actions,
        full_action_space=full_action_space,
        frameskip=frame_skip,
        noop_max=noop_max,
        episodic_life=episodic_life,
        reward_clipping=False,
        autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP,
    )
    env = make(img_height=screen_size, img_width=screen_size, grayscale=grayscale, stack_num=num_stack)
    if not grayscale:
        env = _merge_channels(env, (screen_size, screen_size, num_stack * 3))
    if render_mode:
        screens = make(img_height=_SCREEN_HEIGHT, img_width=_SCREEN_WIDTH, grayscale=False, stack_num=1)
        env = _RenderedAtari(env, screens, _SCREEN_HZ / frame_skip)
    # Games without seeds would not be those that are rendered.
    has_seeds = seed is not None or render_mode
    seeds = np.array(spawn_seeds(seed, batch_size)) if has_seeds else None
    # ale-py returns new observation arrays at every step.
    return GymnasiumEnvironment(env, seeds, False, info_keys, max_random_steps)


def _merge_channels(env, shape):
    """Wraps Atari games: from frames in colour, [B, frames, H, W, 3], to one image, [B, *shape]."""
    space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
    return gymnasium.wrappers.vector.TransformObservation(
        env,
        lambda frames: np.moveaxis(frames, 1, 3).reshape(-1, *shape),
        gymnasium.vector.utils.batch_space(space, env.num_envs),
        space,
    )


class _RenderedAtari(gymnasium.vector.VectorWrapper):
    """Atari games, which ale-py cannot render, and the same ones once more, whose observations are frames."""

    def __init__(self, env, screens, render_fps):
        super().__init__(env)
        self._screens = screens
        self.metadata = {**env.metadata, "render_fps": render_fps}

    def reset(self, *, seed=None, options=None):
        self._frames, _ = self._screens.reset(seed=seed, options=options)
        return self.env.reset(seed=seed, options=options)

    def step(self, actions):
        self._frames, *_ = self._screens.step(actions)
        return self.env.step(actions)

    def render(self):
        return tuple(self._frames[:, 0])

    def close(self):
        self._screens.close()
        self.env.close()


@configurable(module="alf.environments")
def load_envpool(
    name: str,
    batch_size: int,
    seed: int | None = None,
    num_threads: int = 0,
    info_keys: Sequence[str] = (),
    render_mode: str | None = None,
    max_random_steps: int = 0,
    **kwargs: Any,
) -> GymnasiumEnvironment:
    """Returns B of EnvPool's environments `name` as one batched environment.

    Args:
        name: text, an id of EnvPool, such as "Pong-v5" or "HalfCheetah-v4".
        batch_size: int, B.
        seed: int, or None for EnvPool's default seed, which is always the same.
        num_threads: C++ threads; 0 starts one for each core.
        info_keys: as in `load`, such as ("elapsed_step",).
        render_mode: "rgb_array" for environments that `render` frames, None for none.
        max_random_steps: as in `load`.
        **kwargs: EnvPool's settings of the environment.

    Raises:
        ConfigError: if envpool is missing, or the id is unknown.
    """
    envpool = import_extra("envpool", "envpool")
    check_int("load_envpool.batch_size", batch_size)
    check_int("load_envpool.num_threads", num_threads, at_least=0)
    _check_render_mode("load_envpool.render_mode", render_mode)
    known = envpool.list_all_envs()
    if name not in known:
        close = ", ".join(difflib.get_close_matches(str(name), known))
        raise ConfigError(f"load_envpool.name: EnvPool has no {name!r}. Close matches: {close or 'none'}.")
    module = importlib.import_module("envpool.registration").registry.specs[name][0]
    if render_mode and module.startswith("envpool.mujoco"):
        raise ConfigError(
            f"load_envpool.render_mode: EnvPool cannot render {name!r} in a process with TensorFlow: for "
            "frames set alf.environments.load.name to Gymnasium's environment"
        )
    settings = dict(num_envs=batch_size, num_threads=num_threads, render_mode=render_mode)
    make = functools.partial(envpool.make, name, env_type="gymnasium", **settings, **kwargs)
    env = _EnvPoolVectorEnv(make, batch_size, seed)
    return GymnasiumEnvironment(env, seed, info_keys=info_keys, max_random_steps=max_random_steps)


class _EnvPoolVectorEnv:
    """Gives EnvPool's object the attributes of a `gymnasium.vector.VectorEnv`.

    EnvPool takes a seed only when it is made. So a reset with a seed makes it again, unless it was just made
    with that seed.
    """

    def __init__(self, make, num_envs, seed):
        self.num_envs, self.unwrapped, self._make = num_envs, self, make
        self._start(seed)
        self.metadata = self._env.metadata
        self.single_observation_space = self._env.observation_space
        self.single_action_space = self._env.action_space

    def _start(self, seed):
        self._unused_seed = seed
        self._env = self._make() if seed is None else self._make(seed=seed)
        self.step, self.render = self._env.step, self._env.render

    def reset(self, seed=None):
        if seed is not None and seed != self._unused_seed:
            self.close()
            self._start(seed)
        self._unused_seed = None
        return self._env.reset()

    def close(self):
        self._env.close()


@configurable(module="alf.environments")
def load_pettingzoo(
    name: str | Callable[..., Any],
    batch_size: int,
    seed: int | None = None,
    max_episode_steps: int | None = None,
    num_workers: int | str = "auto",
    info_keys: Sequence[str] = (),
    render_mode: str | None = None,
    max_random_steps: int | None = None,
    num_splits: int | None = None,
    **kwargs: Any,
) -> Any:
    """Returns G games of PettingZoo with A agents each as one `MultiAgentEnvironment` of G * A rows.

    In games where the agents take turns (`AECEnv`) each ply is a step of all agents. What they observe has an
    "action_mask", for `ActorCriticPolicy.action_mask_key`: that of those who wait allows one action alone.
    The actions of such games are Discrete or MultiDiscrete.

    Args:
        name: text or callable. "MODULE:FUNCTION", such as "pettingzoo.mpe.simple_spread_v3:parallel_env";
            without a function the module's `parallel_env` counts, or else its `env`. Or a callable. It
            returns a `ParallelEnv` or an `AECEnv`.
        batch_size: G.
        max_episode_steps: steps after which a game is truncated; where agents take turns, its plies.
        info_keys: which numbers of each agent's own info become statistics of episodes, as in `load`.
        max_random_steps: as in `load`; the random actions are those that the masks allow.
        seed, num_workers, render_mode, num_splits: as in `load`.
        **kwargs: for the function. What gin binds to it reaches worker processes, as with `load`.

    Raises:
        ConfigError: if PettingZoo is missing, there is no such function, it returns something else, or a
            setting is wrong. Errors of the environment pass through.
    """
    import_extra("pettingzoo", "pettingzoo")
    check_int("load_pettingzoo.batch_size", batch_size)
    _check_render_mode("load_pettingzoo.render_mode", render_mode)
    check_int("load_pettingzoo.max_episode_steps", max_episode_steps, optional=True)
    info_keys = check_info_keys("load_pettingzoo.info_keys", info_keys)
    wanted = {"info_keys": ()}  # the games read the infos of their agents
    if max_random_steps is not None:
        setting = "load_pettingzoo.max_random_steps"
        wanted["max_random_steps"] = check_int(setting, max_random_steps, at_least=0)
    constructor = name if callable(name) else _find_game(name)
    call, makes = _bind_call(constructor, batch_size, kwargs)
    makes, num_workers = _render_or_step(makes, num_workers, constructor, render_mode, find_lost(call))
    makes = [functools.partial(make_game, make, max_episode_steps, info_keys) for make in makes]
    splits = {} if num_splits is None else {"num_splits": num_splits}
    made = _make_single(makes, seed, num_workers, splits, wanted)
    if isinstance(made, list):
        return [MultiAgentEnvironment(env, info_keys) for env in made]
    return MultiAgentEnvironment(made, info_keys)


def _find_game(name):
    """Returns the function that "MODULE:FUNCTION" names, or "MODULE" alone."""
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


def import_extra(module, extra):
    """Imports and returns `module`; the ConfigError without it says how to install ALF's extra `extra`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f'the package {module} is not installed: pip install "alf-tf[{extra}]"') from error
