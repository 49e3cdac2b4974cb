# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Training from replay, for tests of what an algorithm learns."""

import tensorflow as tf

from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.learner import ReplayTraining
from alf.replay import PrioritizedReplayer, UniformReplayer

REPLAYERS = {"uniform": UniformReplayer, "prioritized": PrioritizedReplayer}


def learn_from_replay(env, make_learner, unroll_length, length, num_updates, replayer="uniform", seed=0):
    """Trains through a driver and a replay buffer.

    Args:
        env: batched environment.
        make_learner: callable (observation_spec, action_spec, make_training) -> `Learner`, where
            `make_training` is a callable (policy) -> `ReplayTraining`.
        unroll_length, length: of unrolls, and of the sequences that are replayed.
        num_updates: when to end.
        replayer: "uniform" or "prioritized".
        seed: of TensorFlow.

    Returns:
        the algorithm and the average return.
    """
    tf.random.set_seed(seed)
    specs = EnvSpecs([env])

    def make_training(policy):
        unroll_spec = specs.unroll_spec(policy, unroll_length)
        return ReplayTraining(
            REPLAYERS[replayer](unroll_spec, num_envs=1, capacity=20_000),
            mini_batch_size=64,
            mini_batch_length=length,
            initial_collect_steps=256,
            replay_ratio=0.25,
        )

    learner = make_learner(specs.observation, specs.action, make_training)
    driver = SyncOffPolicyDriver([env], learner, unroll_length=unroll_length)
    try:
        driver.start()
        while int(learner.progress.updates) < num_updates:
            driver.collect()
            learner.train()
        results = {metric.name: metric.result() for metric in driver.get_metrics()}
    finally:
        driver.stop()
    return learner.algorithm, results["AverageReturn"]
