# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Flags of the commands that use what was trained, and how they load it."""

from absl import flags

from alf.bin import checkpoint_flags, run_flags
from alf.bin.checkpoint_flags import CHECKPOINT
from alf.bin.run_flags import GIN_PARAM, ROOT_DIR
from alf.config.parsing import wrong_calls_are_config_errors
from alf.errors import ConfigError
from alf.runs.saved_run import SavedRun

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(checkpoint_flags)
SAMPLE = flags.DEFINE_bool("sample", False, "Explores as in training, in place of acting as well as it can.")


POLICY = flags.DEFINE_string(
    "policy",
    None,
    "Which policies act, where a run has several or a game several agents: PLAYER, or AGENT=PLAYER,... A "
    "PLAYER is the name of a policy ('policy' if there is one), NAME@CHECKPOINT, or random.",
)


def load_policy():
    """Reads the run's configuration into gin's; returns its policy, and the path of the checkpoint.

    That is a `Policy`, or a `PolicyGroup` of all of them. ConfigError is raised if a flag is wrong.
    """
    policy, path, _ = load_run()
    return policy, path


def load_run():
    """As `load_policy`; returns the `SavedRun`, too."""
    if not ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory of a run")
    saved = SavedRun(ROOT_DIR.value)
    saved.read_config(GIN_PARAM.value)
    with wrong_calls_are_config_errors():
        policy = saved.make_policy()
    return policy, saved.restore(policy, CHECKPOINT.value), saved
