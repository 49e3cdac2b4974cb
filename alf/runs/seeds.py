# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Seeds the random numbers of a process, when a run begins and when it continues."""

import random

import numpy as np
import tensorflow as tf

from alf.core.randomness import spawn_seeds
from alf.networks.user_models import loaded_libraries
from alf.ops.draws import ENVIRONMENTS, LEARNERS, Stream


def spawn_seed(seed, *numbers):
    """Returns the seed of one part of a run, an int, from the run's seed and the numbers of that part.

    Without the numbers, parts that run beside each other would collect the same experience. None returns
    None.
    """
    return None if seed is None else spawn_seeds([seed, *numbers], 1)[0]


def seed_everything(seed, num_groups):
    """Seeds Python, NumPy, TensorFlow and Keras; returns a seed for each batched environment.

    Args:
        seed: int, or None, which leaves the generators as they are and draws the environments' seeds.
        num_groups: int, batched environments. More of them do not change the seeds of the first ones.

    Returns:
        list of `num_groups` ints in [0, 2^31).
    """
    if seed is not None:
        # Layers draw the seeds of their initial weights from Python's generator.
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002  (for users; all that NumPy takes)
        for library in loaded_libraries():  # Keras has a generator of its own
            library.utils.set_random_seed(seed % 2**32)
        # The last, because Keras gives TensorFlow 32 bits of the seed.
        tf.random.set_seed(seed)
    return spawn_seeds(seed, num_groups)


def seed_draws(driver, learner, seed):
    """Gives the environments of a driver, and each learner, a stream of draws of their own.

    Args:
        driver: `Driver`.
        learner: `Learner` or `LearnerGroup`. A policy keeps its place in the group, so that it draws the same
            when the run continues.
        seed: int, or None, which leaves the streams as they are.
    """
    if seed is None:
        return
    driver.stream = Stream(seed, ENVIRONMENTS)
    for place, name in enumerate(learner.policy.policies):
        if name in learner.learners:
            learner.learners[name].stream = Stream(seed, LEARNERS, place)


def seed_continued_run(driver, iterations):
    """Seeds a run that continues after `iterations` train iterations.

    With the seeds of its beginning the environments would repeat their first episodes each time that the run
    is continued. The streams of draws stay: their counts go on where they were.
    """
    driver.reseed(iterations)
    # For users who draw from the generators of this process; the driver has the environments.
    if tf.compat.v1.get_seed(None)[0] is not None:  # without a seed they do not repeat anything
        seed_everything(spawn_seed(driver.stream.seed, iterations), 0)
