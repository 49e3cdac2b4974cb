# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Training from replay, for tests of what an algorithm learns."""

import gin
import tensorflow as tf

from alf.drivers import SyncOffPolicyDriver
from alf.nest_utils import to_tensor_spec


def learn_from_replay(env, make_algorithm, unroll_length, length, num_updates, replayer="uniform"):
    """Trains through a driver and a replay buffer.

    Args:
        env: batched environment.
        make_algorithm: callable (observation_spec, action_spec) -> `Algorithm`.
        unroll_length, length: of unrolls, and of the sequences that are replayed.
        num_updates: when to end.
        replayer: "uniform" or "prioritized".

    Returns:
        the algorithm and the average return.
    """
    tf.random.set_seed(0)
    gin.parse_config(f"""
        ReplayTraining.mini_batch_size = 64
        ReplayTraining.mini_batch_length = {length}
        ReplayTraining.initial_collect_steps = 256
        ReplayTraining.replay_ratio = 0.25
        UniformReplayer.capacity = 20_000
        PrioritizedReplayer.capacity = 20_000
    """)
    algorithm = make_algorithm(
        *(to_tensor_spec(spec) for spec in (env.observation_spec(), env.action_spec()))
    )
    driver = SyncOffPolicyDriver([env], algorithm, unroll_length=unroll_length, exp_replayer=replayer)
    try:
        driver.start()
        while int(algorithm.train_step_counter) < num_updates:
            driver.run()
            algorithm.train()
        results = {metric.name: metric.result() for metric in driver.get_metrics()}
    finally:
        driver.stop()
    return algorithm, results["AverageReturn"]
