# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Packs the agent of a run: a directory of a few files, which is read like a run but cannot be continued."""

import os
import shutil

import tensorflow as tf

from alf.config.gin_files import CONFIG_FILE
from alf.config.imports import RUN_FILE
from alf.config.registry import own_config
from alf.core.files import replace_own_folder, write_file
from alf.runs import checkpoint_files as files
from alf.runs.run_dir import checkpoints_of
from alf.runs.saved_run import SavedRun


def pack_agent(root_dir, folder):
    """Writes the configuration, the description and the policy's newest weights of a run into a folder.

    Args:
        root_dir: path, the run's directory.
        folder: path of the folder. An older agent there is replaced.

    Raises:
        ConfigError: if there is no such run, it has no checkpoint, or the folder has something else.
    """
    run = SavedRun(root_dir)
    with own_config():
        run.read_config()
        learner = tf.Module()  # in a checkpoint the policy is an attribute of the learner
        learner.policy = run.make_policy()
    path = run.restore(learner.policy)
    # Folders of this machine are of no use on another one.
    description = run.description._replace(import_paths=[], git=None)
    checkpoints = os.path.basename(checkpoints_of(folder))
    with replace_own_folder("folder", folder, {CONFIG_FILE, RUN_FILE, checkpoints}) as new:
        shutil.copyfile(os.path.join(run.root_dir, CONFIG_FILE), os.path.join(new, CONFIG_FILE))
        write_file(os.path.join(new, RUN_FILE), description.to_json())
        # Without the optimizer's moments, which are two thirds of a run's checkpoint.
        with files.replace(os.path.join(checkpoints_of(new), os.path.basename(path))) as checkpoint:
            files.write_weights(checkpoint, tf.train.Checkpoint(learner=learner))
