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
    """Returns B games as one batched environment that steps in C++, outside the GIL.

    The defaults are the usual protocol (Mnih et al. 2015, Machado et al. 2018, arXiv 1709.06009) without
    sticky actions. Rewards are the game's: clipping belongs to the learner.

    Args:
      name: such as "Pong", "pong", "MsPacman" or "ALE/Pong-v5".
      batch_size: int, B.
      seed: int or None; each game gets one of its own from it, for the first reset.
      frame_skip: frames that an action is repeated for; the observation is the maximum over the last two.
      screen_size: pixels, height and width.
      grayscale: whether observations are grey.
      num_stack: observations that are stacked: uint8 [B, num_stack, height, width].
      sticky_actions: probability that the emulator repeats the action before; 0.25 in the later protocol.
      noop_max: an episode begins with a random number of no-ops, at most so many.
      episodic_life: whether the loss of a life ends an episode, as a termination.
      full_action_space: whether there are all 18 actions, or those that the game knows.
      max_episode_frames: time limit in frames (30 minutes), a truncation.
      num_threads: C++ threads; 0 takes one for each core.

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
        _game(name),
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
    # Its observations are new arrays at every step.
    seeds = None if seed is None else np.array(spawn_seeds(seed, batch_size))
    return GymnasiumEnvironment(env, seed=seeds, copy_observations=False)


def _game(name):
    """From a name in any of the usual spellings to ale-py's, which is snake case."""
    roms = import_extra("ale_py.roms", "atari").get_all_rom_ids()
    plain = str(name).removeprefix("ALE/").partition("-v")[0].replace("_", "").lower()
    games = {rom.replace("_", ""): rom for rom in roms}
    if plain not in games:
        raise ConfigError(f"load_atari.name: no Atari game {name!r}; there are {', '.join(sorted(roms))}")
    return games[plain]
