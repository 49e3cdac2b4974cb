# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Loads the trained policy of a run, for the subcommands that act with it or export it."""

import contextlib

from alf.bin.arguments import read_settings, take_one
from alf.bin.command import start_work
from alf.config.parsing import check_dead_bindings, wrong_calls_are_config_errors


def load_run(arguments, known):
    """Adds the configuration of the run that is named, and settings, to gin's, and makes the policy.

    Args:
        arguments: `Arguments`.
        known: the subcommand's flags, a `flags.FlagValues`, with "checkpoint".

    Returns:
        the `Policy`, or a `PolicyGroup` of all policies; the path of the checkpoint; the `SavedRun`; and the
        full names of the settings.

    Raises:
        ConfigError: if an argument or a setting is wrong.
    """
    root_dir = take_one(arguments, "the folder of a run, or alf:TASK")
    start_work()
    # Here, because it imports TensorFlow, which `start_work` starts without its own lines.
    from alf.core.devices import hide_gpus
    from alf.runs.saved_run import SavedRun

    hide_gpus()  # a saved policy acts on the host
    saved = SavedRun(root_dir)
    saved.read_config()
    names = list(read_settings(arguments, known))
    with wrong_calls_are_config_errors():
        policy = saved.make_policy()
    return policy, saved.restore(policy, known.checkpoint), saved, names


@contextlib.contextmanager
def open_run(arguments, known, batch_size, render_mode=None):
    """Context that gives the `Agent` of a run, a batched environment and the checkpoint's path.

    Args:
        arguments, known: as in `load_run`; there are also the flags "policy" and "seed".
        batch_size, render_mode: arguments of the environment, if `Experiment.env` has them.

    Raises:
        ConfigError: if an argument or a setting is wrong.
    """
    policy, path, saved, names = load_run(arguments, known)
    from alf.games.players import add_players
    from alf.policies.agent import Agent
    from alf.runs.saved_run import make_env

    players = known.policy
    with wrong_calls_are_config_errors():
        env = make_env(known.seed, batch_size, render_mode, maps_policies=players is None)
    with contextlib.closing(env):
        if players is not None:
            policy, env = add_players(saved, policy, env, players, known.checkpoint, known.seed)
        # Only now: a setting may be for the environment, or for another player.
        check_dead_bindings(names)
        yield Agent(policy), env, path
