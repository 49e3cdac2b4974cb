# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Chooses the learner's device for a run, before TensorFlow starts: afterwards no GPU can be hidden."""

import math
import random
import re

import tensorflow as tf
from absl import logging

from alf import replay
from alf.config.registry import find_argument, unrecorded
from alf.core.devices import (
    HOST,
    check_device,
    choose_for_updates,
    find_all_gpus,
    find_gpus,
    hide_gpus,
    take_memory_as_needed,
)
from alf.drivers.driver_settings import DriverSettings
from alf.learner import ReplayLearner, UnrollLearner
from alf.policies.policy import count_row_flops


def choose_device(setting, driver, exp_replayer, strategy, sizes, make_policy):
    """Chooses the learner's device as the settings of an `Experiment` say, and hides GPUs without use.

    Args:
        setting: `Experiment.learner_device`.
        driver, exp_replayer: as in `Experiment`.
        strategy: `tf.distribute.Strategy` or None.
        sizes: the arguments num_groups, num_steps and batch_size of `count_update_rows`.
        make_policy: callable () -> `Policy`.

    Returns:
        the device, a text such as "GPU:0".

    Raises:
        ConfigError: if this process has no device like `setting`.
    """
    if not find_gpus():
        return set_up_devices(setting, HOST, False, 0, make_policy)
    with unrecorded():  # looked at, not used: a binding that nothing else reads is a mistake of the user
        settings = find_argument(driver, "settings") or DriverSettings()
        kinds = list(exp_replayer.values()) if isinstance(exp_replayer, dict) else [exp_replayer]
        num_rows = count_update_rows(kinds, settings, *sizes)
        return set_up_devices(setting, settings.actor_device, strategy is not None, num_rows, make_policy)


def set_up_devices(setting, actor_device, needs_gpus, num_rows, make_policy):
    """Chooses the learner's device; hides GPUs that the run does not use.

    Args:
        setting, actor_device: `Experiment.learner_device`, `DriverSettings.actor_device`.
        needs_gpus: bool, whether another part of the run uses GPUs, such as a `tf.distribute` strategy.
        num_rows: int, rows of an update.
        make_policy: callable () -> `Policy`, for a look at its networks.

    Returns:
        the device, a text such as "GPU:0".

    Raises:
        ConfigError: if this process has no device like `setting`.
    """
    device = HOST if setting == "auto" else setting
    if find_gpus():
        if setting == "auto":
            device = choose_for_updates(num_rows * _count_flops(make_policy))
        if not needs_gpus:
            # Those behind the last one that is used: the others keep their names.
            used = [re.fullmatch(r"GPU:(\d+)", name) for name in (device, actor_device)]
            num_used = max((int(match[1]) + 1 for match in used if match), default=0)
            if not hide_gpus(num_used) and not num_used:
                logging.info("TensorFlow has started before the run, and keeps the memory it has of the GPU")
        take_memory_as_needed()
    check_device("Experiment.learner_device", device)
    return device


def count_update_rows(kinds, settings, num_groups, num_steps, batch_size):
    """Returns the rows of an update, an int, as gin's bindings say.

    Args:
        kinds: list of values of `Experiment.exp_replayer`.
        settings: `DriverSettings`.
        num_groups: int, batched environments of all processes.
        num_steps: int, T, transitions of an unroll.
        batch_size: int, B, columns of an unroll.
    """
    if not num_groups or any(map(replay.is_of_sequences, kinds)):
        sizes = "mini_batch_size", "mini_batch_length"
        return math.prod(find_argument(ReplayLearner, name) for name in sizes)
    num_unrolls = settings.count_unrolls(num_groups)
    parts = find_argument(UnrollLearner, "num_minibatches")
    size = find_argument(UnrollLearner, "mini_batch_size")
    return size or num_unrolls * num_steps * batch_size // parts


def log_devices(learner_device, actor_device):
    """Logs where a run computes, in one line, if this machine has a GPU."""
    gpus = find_all_gpus()
    if gpus:
        logging.info(
            "this machine has %d GPU(s): updates are made on %s, actors compute on %s; "
            "Experiment.learner_device and DriverSettings.actor_device choose others",
            len(gpus),
            learner_device,
            actor_device,
        )


def _count_flops(make_policy):
    """Counts the operations of a policy for one row, with a policy in a graph that nobody runs."""
    state = random.getstate()  # of which the policy draws initial weights
    try:
        with tf.Graph().as_default():
            return count_row_flops(make_policy())
    except Exception as error:
        logging.warning(
            "updates are made on the CPU unless Experiment.learner_device is set: the work of the policy "
            "cannot be counted (%s: %s)",
            type(error).__name__,
            error,
        )
        return 0
    finally:
        random.setstate(state)
