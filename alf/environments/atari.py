# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Atari games of ale-py, which step in C++ threads."""

import functools

import gymnasium
import numpy as np

from alf.config.kinds import Fraction, NonNegativeInt, PositiveInt
from alf.config.settings import Seed, configurable
from alf.core.randomness import spawn_seeds
from alf.environments.arguments import InfoKeys, NumThreads, RenderMode
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.errors import ConfigError, import_extra

_SCREEN_HEIGHT, _SCREEN_WIDTH, _SCREEN_HZ = 210, 160, 60  # of the Atari 2600


@configurable("alf.environments")
def load_atari(
    name: str,
    batch_size: PositiveInt,
    seed: Seed = None,
    frame_skip: PositiveInt = 4,
    screen_size: PositiveInt = 84,
    grayscale: bool = True,
    num_stack: PositiveInt = 4,
    sticky_actions: Fraction = 0.0,
    noop_max: NonNegativeInt = 30,
    episodic_life: bool = False,
    full_action_space: bool = False,
    max_episode_frames: PositiveInt = 108_000,
    num_threads: NumThreads = 0,
    info_keys: InfoKeys = (),
    render_mode: RenderMode = None,
    max_random_steps: NonNegativeInt = 0,
) -> GymnasiumEnvironment:
    """Returns B Atari games as one batched environment of ale-py.

    The defaults are the usual protocol (Mnih et al. 2015, Machado et al. 2018, arXiv 1709.06009) without
    sticky actions. Rewards are the points of the game: the learner may clip them.

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
        info_keys: which numbers of the game's info become statistics of episodes, such as ("lives",).
        render_mode: "rgb_array" for games that `render` frames in colour and full size, for twice the work.
            None: they cannot render.
        max_random_steps: before their first step all games take the same random number of random actions, at
            most this many. `noop_max` lets the games of one batch begin at different times.

    Raises:
        ConfigError: if ale-py is missing, the game is unknown or a setting is wrong.
    """
    vector_env = import_extra("ale_py.vector_env", "atari")
    # ale-py names games in snake case; this accepts any usual spelling.
    roms = import_extra("ale_py.roms", "atari").get_all_rom_ids()
    games = {rom.replace("_", ""): rom for rom in roms}
    plain = str(name).removeprefix("ALE/").partition("-v")[0].replace("_", "").lower()
    if plain not in games:
        raise ConfigError(f"load_atari.name: no Atari game {name!r}; there are {', '.join(sorted(roms))}")
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
        # Metrics show the points of the game; the learner's `RewardClipping` clips what it trains on.
        reward_clipping=False,
        autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP,
    )
    env = make(img_height=screen_size, img_width=screen_size, grayscale=grayscale, stack_num=num_stack)
    # ale-py stacks frames in an axis of its own, which encoders of images do not know.
    if not grayscale:
        env = _merge_channels(env, (screen_size, screen_size, num_stack * 3))
    if render_mode:
        screens = make(img_height=_SCREEN_HEIGHT, img_width=_SCREEN_WIDTH, grayscale=False, stack_num=1)
        env = _RenderedAtari(env, screens, _SCREEN_HZ / frame_skip)
    # Without seeds the second set of games, which renders, would not be the same as the first.
    has_seeds = seed is not None or render_mode
    seeds = np.array(spawn_seeds(seed, batch_size)) if has_seeds else None
    # ale-py returns new observation arrays at every step.
    return GymnasiumEnvironment(env, seeds, False, info_keys, max_random_steps)


def _merge_channels(env, shape):
    """Wraps Atari games: frames in colour, [B, frames, H, W, 3], become one image, [B, *shape]."""
    space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
    return gymnasium.wrappers.vector.TransformObservation(
        env,
        lambda frames: np.moveaxis(frames, 1, 3).reshape(-1, *shape),
        gymnasium.vector.utils.batch_space(space, env.num_envs),
        space,
    )


class _RenderedAtari(gymnasium.vector.VectorWrapper):
    """Renders Atari games, which ale-py cannot do: a second set of the same games observes the frames."""

    def __init__(self, env, screens, render_fps):
        super().__init__(env)
        self._screens = screens
        self.metadata = {**env.metadata, "render_fps": render_fps}

    def reset(self, *, seed=None, options=None):
        # With the same seeds, and then the same actions, both sets go through the same games.
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
