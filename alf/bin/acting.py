# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the commands have in common in which a trained agent acts: flags, and how they open a run."""

import contextlib

from absl import flags

from alf.bin import run_flags
from alf.bin.command import wrong_calls_are_config_errors
from alf.bin.run_flags import GIN_PARAM, ROOT_DIR
from alf.errors import ConfigError
from alf.policies.agent import Agent
from alf.training.config import check_dead_bindings
from alf.training.saved_run import SavedRun, make_env

flags.adopt_module_key_flags(run_flags)
CHECKPOINT = flags.DEFINE_string("checkpoint", "newest", "newest, best, a train iteration, or a path.")
SAMPLE = flags.DEFINE_bool("sample", False, "Explores as in training, in place of acting as well as it can.")
SEED = flags.DEFINE_integer("seed", None, "Of the environments; without it they have another one each time.")
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
    if not ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory of a run")
    saved = SavedRun(ROOT_DIR.value)
    saved.read_config(GIN_PARAM.value)
    with wrong_calls_are_config_errors():
        policy = saved.make_policy()
        path = saved.restore(policy, CHECKPOINT.value)
        env = make_env(SEED.value, batch_size, render_mode)
    with contextlib.closing(env):
        check_dead_bindings(GIN_PARAM.value)
        yield Agent(policy), env, path
