# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Atari games through ale-py's vector environment, which steps in C++ threads."""

import gin
import gymnasium
import numpy as np

from alf.environments.extras import import_extra
from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.errors import ConfigError, check_int
from alf.seeds import spawn_seeds


@gin.configurable(module="alf.environments")
def load_atari(
    name,
    batch_size,
    seed=None,
    frame_skip=4,
    screen_size=84,
    grayscale=True,
    num_stack=4,
    sticky_actions=0.0,
    noop_max=30,
    episodic_life=False,
    full_action_space=False,
    max_episode_frames=108_000,
    num_threads=0,
):
    """Returns B Atari games as one batched environment. It steps in C++, without the GIL.

    The defaults are the usual protocol (Mnih et al. 2015, Machado et al. 2018, arXiv 1709.06009) without
    sticky actions. Rewards are those of the game: the learner clips them if it should.

    Args:
        name: such as "Pong", "pong", "MsPacman" or "ALE/Pong-v5".
        batch_size: int, B.
        seed: int or None; each game gets its own seed from it, for the first reset.
        frame_skip: int, frames that an action is repeated for; an observation is the maximum of the last two.
        screen_size: int, height and width in pixels.
        grayscale: bool, whether observations are gray.
        num_stack: int, how many observations are stacked: uint8 [B, num_stack, height, width].
        sticky_actions: probability that the emulator repeats the previous action; 0.25 in the later protocol.
        noop_max: int; an episode begins with a random number of no-ops, at most this many.
        episodic_life: bool, whether the loss of a life ends the episode, as a termination.
        full_action_space: bool, whether all 18 actions are offered, or only those that the game uses.
        max_episode_frames: int, time limit in frames (default: 30 minutes), a truncation.
        num_threads: int, C++ threads; 0 starts one for each core.

    Raises:
        ConfigError: if ale-py is missing, the game is unknown or a setting is wrong.
    """
    vector_env = import_extra("ale_py.vector_env", "atari")
    for setting, value in (
        ("batch_size", batch_size),
        ("frame_skip", frame_skip),
        ("screen_size", screen_size),
        ("num_stack", num_stack),
        ("max_episode_frames", max_episode_frames),
    ):
        check_int(f"load_atari.{setting}", value)
    env = vector_env.AtariVectorEnv(
        _find_game(name),
        num_envs=batch_size,
        num_threads=num_threads,
        max_num_frames_per_episode=max_episode_frames,
        repeat_action_probability=sticky_actions,
        full_action_space=full_action_space,
        img_height=screen_size,
        img_width=screen_size,
        grayscale=grayscale,
        stack_num=num_stack,
        frameskip=frame_skip,
        noop_max=noop_max,
        episodic_life=episodic_life,
        reward_clipping=False,
        autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP,
    )
    seeds = None if seed is None else np.array(spawn_seeds(seed, batch_size))
    # ale-py returns new observation arrays at every step.
    return GymnasiumEnvironment(env, seed=seeds, copy_observations=False)


def _find_game(name):
    """Returns ale-py's name of a game, which is snake case, for a name in any usual spelling."""
    roms = import_extra("ale_py.roms", "atari").get_all_rom_ids()
    games = {rom.replace("_", ""): rom for rom in roms}
    plain = str(name).removeprefix("ALE/").partition("-v")[0].replace("_", "").lower()
    if plain not in games:
        raise ConfigError(f"load_atari.name: no Atari game {name!r}; there are {', '.join(sorted(roms))}")
    return games[plain]
