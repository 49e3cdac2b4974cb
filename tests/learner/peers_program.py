# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A program: one of two learner processes, which TF_CONFIG names, that train together with PPO.

`peers_program.py FOLDER` pickles what it saw and what became of its weights to FOLDER/0 or FOLDER/1. Then the
first process makes an update too many.
"""

import pathlib
import pickle
import sys
import time

import numpy as np
import tensorflow as tf

import alf  # noqa: F401  (before TensorFlow)
from alf.drivers import SyncOffPolicyDriver
from alf.errors import LostPeerError
from alf.learner import UnrollLearner, optimizers
from alf.learner.peers import Peers, make_multi_worker_strategy
from alf.policies.data_transformers import ObservationNormalizer
from alf.training import Experiment
from tests.builders import build_learner, collect_and_observe, driver_of
from tests.learner.replicas_program import parts

NUM_ITERATIONS = 3
TIMEOUT = 3.0  # seconds that the update too many waits
SECONDS = 200  # that the other process lives on at most


def make_driver(strategy):
    def make_learner(algorithm, replayer, **settings):
        # Not Adam, which makes steps of equal size from gradients that are 0 but for rounding.
        optimizer = optimizers.SGD(0.1)
        return build_learner(
            algorithm, optimizer, UnrollLearner, replayer, num_epochs=2, max_grad_norm=1.0, **settings
        )

    return driver_of(
        Experiment(
            **parts("ppo"),
            num_groups=1,
            data_transformers=(ObservationNormalizer,),
            learner=make_learner,
            driver=SyncOffPolicyDriver,
            unroll_length=8,
            seed=0,
            strategy=strategy,
        )
    )


def values(learner):
    return [v.numpy() for v in learner.variables]


def main():
    folder = pathlib.Path(sys.argv[1])
    strategies = []

    def make_strategy():
        strategies.append(make_multi_worker_strategy(start_timeout=100.0))
        return strategies[0]

    driver = make_driver(make_strategy)
    learner, observed, summaries = driver.learner, [], []
    observe = learner.observe
    learner.observe = lambda experience: (observed.append(experience), observe(experience))
    own_start = values(learner)
    learner.synchronize()
    driver.start()
    start = values(learner)
    for _ in range(NUM_ITERATIONS):
        collect_and_observe(driver)
        summaries.append({name: float(x) for name, x in learner.train().items()})
    index = learner.peers.index
    result = {
        "own start": own_start,
        "start": start,
        "end": values(learner),
        "observed": tf.nest.map_structure(np.asarray, observed),
        "summaries": summaries,
    }
    if index == 0:
        learner.peers = Peers(strategies[0], timeout=TIMEOUT)
        result["update too many"] = try_another_update(driver)
    (folder / str(index)).write_bytes(pickle.dumps(result))
    deadline = time.monotonic() + SECONDS
    while not (folder / "0").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    driver.stop()


def try_another_update(driver):
    """Begins an update alone; returns the text of the error, or None."""
    try:
        driver.learner.observe(driver.get_training_exps())
    except LostPeerError as error:
        return str(error)
    return None


if __name__ == "__main__":
    main()
