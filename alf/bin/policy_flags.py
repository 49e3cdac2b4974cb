# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Flags of the commands that use what was trained, and how they load it."""

from absl import flags

from alf.bin import checkpoint_flags, run_flags
from alf.bin.checkpoint_flags import CHECKPOINT
from alf.bin.run_flags import GIN_PARAM, ROOT_DIR
from alf.errors import ConfigError
from alf.training.config import wrong_calls_are_config_errors
from alf.training.saved_run import SavedRun

flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(checkpoint_flags)
SAMPLE = flags.DEFINE_bool("sample", False, "Explores as in training, in place of acting as well as it can.")


def load_policy():
    """Reads the run's configuration into gin's; returns its `Policy`, and the path of the checkpoint.

    ConfigError is raised if a flag is wrong.
    """
    if not ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory of a run")
    saved = SavedRun(ROOT_DIR.value)
    saved.read_config(GIN_PARAM.value)
    with wrong_calls_are_config_errors():
        policy = saved.make_policy()
    return policy, saved.restore(policy, CHECKPOINT.value)
