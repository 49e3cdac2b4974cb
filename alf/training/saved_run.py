# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SavedRun: reads a run's directory, to use what was trained. It writes nothing there."""

import inspect
import os

import tensorflow as tf
from absl import logging

from alf.errors import ConfigError
from alf.policies.agent import Agent
from alf.training import checkpoint_files as files
from alf.training.config import own_config, parse_config
from alf.training.experiment import Experiment
from alf.training.run_description import read_description
from alf.training.run_dir import CONFIG_FILE, checkpoints_of

_MAX_TRIES = 10  # to read a checkpoint of a run that goes on and removes its old ones


class SavedRun:
    """The directory of a run, which may go on meanwhile. ConfigError is raised if there is none.

    Args:
        root_dir: path.

    Attributes:
        root_dir: path, absolute.
        description: `RunDescription`.
    """

    def __init__(self, root_dir):
        self.root_dir = os.path.abspath(os.path.expanduser(root_dir))
        self.description = read_description(self.root_dir)

    def read_config(self, gin_params=()):
        """Reads the run's configuration into gin's, and further bindings after it; may raise ConfigError."""
        parse_config([os.path.join(self.root_dir, CONFIG_FILE)], gin_params)

    def load_policy(self, checkpoint="newest"):
        """Makes the run's `Policy` with the weights of a checkpoint, after `read_config`.

        Args:
            checkpoint: "newest", "best" (see `Evaluator`), a train iteration, or a checkpoint's path.

        Returns:
            the policy, and the path of the checkpoint.

        Raises:
            ConfigError: if there is no such checkpoint, it is damaged, or it does not fit the configuration.
        """
        policy = Experiment().make_policy(*self.description[:3])
        for _ in range(_MAX_TRIES):
            path = self.find_checkpoint(checkpoint)
            try:
                restore_policy(policy, path)
                return policy, path
            except (OSError, tf.errors.OpError) as error:
                cause = error
                if os.path.exists(path + files.COMPLETE):
                    break
        raise ConfigError(f"the checkpoint {path} cannot be read: {cause}")

    def find_checkpoint(self, checkpoint="newest"):
        """Finds the checkpoint that `load_policy` names; returns its path."""
        folder = checkpoints_of(self.root_dir)
        if checkpoint in ("newest", "best"):
            folder = os.path.join(folder, "best") if checkpoint == "best" else folder
            numbers = files.list_numbers(folder)
            if not numbers:
                raise ConfigError(f"there is no {checkpoint} checkpoint in {folder!r}")
            paths = [files.path_of(folder, number) for number in reversed(numbers)]
        else:
            is_number = str(checkpoint).isdecimal()
            paths = [files.path_of(folder, checkpoint) if is_number else os.path.abspath(checkpoint)]
            if not os.path.exists(paths[0] + files.COMPLETE):
                known = ", ".join(map(str, files.list_numbers(folder)))
                raise ConfigError(f"there is no checkpoint {checkpoint!r}; {folder!r} has {known or 'none'}")
        for path in paths:
            damage = files.find_damage(path)
            # One that the run has just removed is not damaged.
            if damage is None or not os.path.exists(path + files.COMPLETE):
                return path
            logging.error("%s is damaged: %s", path, damage)
        raise ConfigError(f"the checkpoint {paths[0]} is damaged: {damage}")


def make_env(seed, batch_size=None, render_mode=None):
    """Makes one batched environment by `Experiment.env_ctor`, with those settings that are its arguments."""
    env_ctor = Experiment().env_ctor
    settings = {"batch_size": batch_size, "render_mode": render_mode}
    known = inspect.signature(env_ctor).parameters
    return env_ctor(seed=seed, **{k: v for k, v in settings.items() if v is not None and k in known})


def restore_policy(policy, path):
    """Gives a `Policy` the weights of a checkpoint, and the statistics of its data transformers.

    Raises:
        ConfigError: if the checkpoint is of another policy.
        OSError, tf.errors.OpError: if the files cannot be read.
    """
    learner = tf.Module()
    learner.policy = policy
    try:
        status = tf.train.Checkpoint(learner=learner).read(path).assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"the checkpoint {path} does not fit this policy: {text}") from None
    status.expect_partial()


def load_agent(root_dir, checkpoint="newest"):
    """Loads what was trained: an `Agent`, without environments. Nothing in the run's directory changes.

    The run may go on meanwhile. Gin's configuration is the same afterwards; no other thread may use gin
    during the call.

    Args:
        root_dir: the run's directory.
        checkpoint: "newest", "best" (see `Evaluator`), a train iteration, or a checkpoint's path.

    Raises:
        ConfigError: if there is no such run or checkpoint, it is damaged, or the run's modules are missing.
    """
    run = SavedRun(root_dir)
    with own_config():
        run.read_config()
        policy, _ = run.load_policy(checkpoint)
    return Agent(policy)
