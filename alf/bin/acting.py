# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Loads the trained policy of a run, by the flags that several commands share."""

import contextlib

from absl.flags import FLAGS

from alf.bin.command import start_work
from alf.config.parsing import check_dead_bindings, wrong_calls_are_config_errors
from alf.errors import ConfigError


def take_run(arguments):
    """Sets --root_dir to the argument of a command, if it has one; ConfigError: there is one too many."""
    if len(arguments) + bool(FLAGS.root_dir) > 1:
        raise ConfigError(f"unexpected argument {arguments[-1]!r}: name one run")
    if arguments:
        FLAGS.root_dir = arguments[0]


def load_run():
    """Adds the run's configuration to gin's, and makes the policy. A wrong flag raises ConfigError.

    Returns:
        the `Policy`, or a `PolicyGroup` of all policies; the path of the checkpoint; and the `SavedRun`.
    """
    if not FLAGS.root_dir:
        raise ConfigError("--root_dir is missing: name the directory of a run, or alf:TASK")
    start_work()
    # Here, because it imports TensorFlow, which `start_work` starts without its own lines.
    from alf.core.devices import hide_gpus
    from alf.runs.saved_run import SavedRun

    hide_gpus()  # a saved policy acts on the host
    saved = SavedRun(FLAGS.root_dir)
    saved.read_config(FLAGS.gin_param)
    with wrong_calls_are_config_errors():
        policy = saved.make_policy()
    return policy, saved.restore(policy, FLAGS.checkpoint), saved


@contextlib.contextmanager
def open_run(batch_size, render_mode=None):
    """Context that gives the `Agent` of the flags, a batched environment and the checkpoint's path.

    Args:
        batch_size, render_mode: arguments of the environment, if `Experiment.env` has them.

    Raises:
        ConfigError: if a flag is wrong.
    """
    policy, path, saved = load_run()
    from alf.games.players import add_players
    from alf.policies.agent import Agent
    from alf.runs.saved_run import make_env

    players = FLAGS.policy
    with wrong_calls_are_config_errors():
        env = make_env(FLAGS.seed, batch_size, render_mode, maps_policies=players is None)
    with contextlib.closing(env):
        if players is not None:
            policy, env = add_players(saved, policy, env, players, FLAGS.checkpoint, FLAGS.seed)
        # Only now: a binding may be for the environment, or for another player.
        check_dead_bindings(FLAGS.gin_param)
        yield Agent(policy), env, path
