# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Short runs, for tests of what an algorithm learns. They are the same each time on one machine."""

import ast
import functools

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import zeros_from_spec
from alf.data_structures import FIRST, LAST, TimeStep
from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.learner import ReplayLearner
from alf.replay import UniformReplayer
from alf.testing.toy_environments import RememberEnvironment
from tests.builders import build_driver, collect_and_observe

DELAY = 2


def train(env, make_learner, unroll_length, num_updates):
    """Trains through a driver in this thread; returns the learner and the average return.

    Args:
        env: batched environment.
        make_learner: callable (`EnvSpecs`) -> `Learner`.
        unroll_length: of the unrolls.
        num_updates: when to end.
    """
    tf.random.set_seed(0)
    learner = make_learner(EnvSpecs([env]))
    driver = build_driver(SyncOffPolicyDriver, [env], learner, unroll_length=unroll_length)
    try:
        driver.start()
        for _ in range(num_updates):  # more than enough
            collect_and_observe(driver)
            learner.train()
            if int(learner.progress.updates) >= num_updates:
                break
        results = {metric.name: metric.result() for metric in driver.get_metrics()}
    finally:
        driver.stop()
    return learner, results["AverageReturn"]


def replay_training(specs, policy, unroll_length, length, make_replayer=UniformReplayer):
    """Training on sequences of `length` steps from a replay buffer."""
    replayer = make_replayer(specs.unroll_spec(policy, unroll_length), num_groups=1, capacity=20_000)
    return functools.partial(
        ReplayLearner,
        replayer=replayer,
        mini_batch_size=64,
        mini_batch_length=length,
        initial_collect_steps=256,
        replay_ratio=0.25,
    )


def find_private_names(source):
    """Returns the set of the private attributes that the text of a module uses and does not set itself."""
    nodes = [x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.Attribute) and x.attr[:1] == "_"]
    return {x.attr for x in nodes} - {x.attr for x in nodes if isinstance(x.ctx, ast.Store)}


def remembering_env(batch_size, seed=0):
    """Unrolls of 4 steps begin anywhere in its episodes, so that the state that entered them matters."""
    return RememberEnvironment(batch_size, DELAY, seed)


def check_memory(policy):
    """Checks that the greedy policy remembers, and that it does so by its state, which is carried by hand."""
    assert _average_reward(policy, keep_state=True) > 0.95, "of 1"
    assert _average_reward(policy, keep_state=False) < 0.7, "one action in all rows is right in half of them"


def _average_reward(policy, keep_state):
    env = remembering_env(64, seed=7)
    zeros = zeros_from_spec(policy.policy_step_spec.state, env.batch_size)
    ids = tf.range(env.batch_size)
    state, step, action, rewards = zeros, env.reset(), np.zeros(env.batch_size, np.int64), []
    for _ in range(3 * (DELAY + 1)):
        is_first = step.step_type == FIRST
        state = tf.nest.map_structure(lambda x, f=is_first: tf.where(f[:, np.newaxis], 0.0, x), state)
        answer = policy.predict(
            TimeStep(*map(tf.constant, (*step, action)), ids), state if keep_state else zeros
        )
        action, state = answer.action.numpy(), answer.state
        step = env.step(action)
        rewards.extend(step.reward[step.step_type == LAST])
    return np.mean(rewards)
