# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the commands have in common in which a trained agent acts: flags, and how they open a run."""

import contextlib

from absl import flags

from alf.bin import policy_flags
from alf.bin.checkpoint_flags import CHECKPOINT
from alf.bin.policy_flags import POLICY, load_run
from alf.bin.run_flags import GIN_PARAM
from alf.config.parsing import check_dead_bindings, wrong_calls_are_config_errors
from alf.games.players import add_players
from alf.policies.agent import Agent
from alf.runs.saved_run import make_env

flags.adopt_module_key_flags(policy_flags)
SEED = flags.DEFINE_integer(
    "seed", None, "Of the environments; without it they have another one each time.", lower_bound=0
)
NUM_EPISODES = flags.DEFINE_integer(
    "num_episodes", None, "Episodes: without it alf-play has 1, and alf-evaluate 100.", lower_bound=1
)


@contextlib.contextmanager
def open_run(batch_size, render_mode=None):
    """Context that gives what the flags name: the `Agent`, a batched environment, and the checkpoint's path.

    Args:
        batch_size, render_mode: of the environment, if `Experiment.env_ctor` has such arguments.

    Raises:
        ConfigError: if a flag is wrong.
    """
    policy, path, saved = load_run()
    players = POLICY.value
    with wrong_calls_are_config_errors():
        env = make_env(SEED.value, batch_size, render_mode, maps_policies=players is None)
    with contextlib.closing(env):
        if players is not None:
            policy, env = add_players(saved, policy, env, players, CHECKPOINT.value, SEED.value)
        check_dead_bindings(GIN_PARAM.value)
        yield Agent(policy), env, path
