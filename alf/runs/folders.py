# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the folder of a run, a sweep or a population holds. Without TensorFlow."""

import os

from alf.config.gin_files import CONFIG_FILE
from alf.errors import ConfigError

DONE_FILE = "done.json"
SWEEP_FILE, POPULATION_FILE = "sweep.json", "population.json"
_KINDS = {CONFIG_FILE: "a run", SWEEP_FILE: "a sweep", POPULATION_FILE: "a population"}


def check_kind(path, own_file):
    """Raises ConfigError if a folder holds another kind of work than the one whose file is `own_file`."""
    for name, kind in _KINDS.items():
        if name != own_file and os.path.exists(os.path.join(path, name)):
            raise ConfigError(f"root_dir {path!r} holds {kind}: choose another root_dir")


def checkpoints_of(path):
    """The directory of the checkpoints of the run in `path`."""
    return os.path.join(path, "checkpoints")


def has_checkpoints(path):
    """Whether the run in `path` has saved a checkpoint; without one it has nothing to lose."""
    folder = checkpoints_of(path)
    return os.path.isdir(folder) and bool(os.listdir(folder))
