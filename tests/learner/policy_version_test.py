# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""No answer comes from weights older than its `policy_version`: an update is counted when it is done."""

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.data_structures import LossInfo, PolicyStep
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.environments import load
from alf.learner import UnrollLearner
from alf.learner.optimizers import SGD
from alf.policies.policy import Policy
from tests.builders import build_driver, collect_and_observe

SIZE, NUM_WEIGHTS = 256, 40


class ShowsWeight(Policy):
    """Writes the last weight that it uses into `info`."""

    def __init__(self, observation_spec, action_spec):
        super().__init__(observation_spec, action_spec, info_spec=tf.TensorSpec((), tf.float32))
        self.weights = [tf.Variable(tf.zeros((SIZE, SIZE))) for _ in range(NUM_WEIGHTS)]

    def rollout_step(self, time_step, state):
        rows = time_step.step_type.shape[0]
        used = tf.matmul(tf.ones((rows, SIZE)) / SIZE, self.weights[-1])
        return PolicyStep(tf.zeros((rows,), self.action_spec.dtype), state, used[:, 0])


class AddsOne(Algorithm):
    """Adds 1 to each weight at each update."""

    def train_step(self, experience, prepared):
        return ()

    def calc_loss(self, experience, train_info):
        return LossInfo(-tf.add_n([tf.reduce_sum(weight) for weight in self.policy.weights]))


class MovesTarget(AddsOne):
    """Changes a variable of its own, too, and keeps the graph of the update."""

    def __init__(self, policy):
        super().__init__(policy)
        self.target = tf.Variable(0.0, trainable=False)

    def after_update(self, experience, train_info):
        self.graph = tf.compat.v1.get_default_graph()
        self.target.assign_add(1.0)


class KeepsVersions(UnrollLearner):
    """Keeps the weight that each answer used, and the version that it says."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    def observe(self, experience):
        rows = experience.info[:, :-1], experience.policy_version[:, :-1]
        self.seen.append([x.numpy().ravel() for x in rows])
        super().observe(experience)


def make_parts(algorithm=AddsOne, num_epochs=1):
    envs = [load("CartPole-v1", 16, seed=i, num_workers=0) for i in range(2)]
    specs = EnvSpecs(envs)
    learner = KeepsVersions(
        algorithm(ShowsWeight(specs.observation, specs.action)), SGD(1.0), num_epochs=num_epochs
    )
    return envs, learner


@pytest.mark.parametrize("num_epochs", [1, 2])
def test_answers_are_never_of_older_weights_than_they_say(num_epochs):
    envs, learner = make_parts(num_epochs=num_epochs)
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=8)
    driver.start()
    try:
        for _ in range(300):
            collect_and_observe(driver)
            learner.train()
    finally:
        driver.stop()
    used, version = map(np.concatenate, zip(*learner.seen, strict=True))
    assert version.max() > 250 * num_epochs  # the actors saw most of the updates
    assert np.count_nonzero(np.round(used) < version) == 0


def list_earlier(operation):
    """Returns the set of the names of all operations that run before one."""
    found, queue = set(), [operation]
    while queue:
        present = queue.pop()
        before = [x.op for x in present.inputs] + list(present.control_inputs)
        queue += [x for x in before if x.name not in found]
        found |= {x.name for x in before}
    return found


def test_the_counter_waits_for_every_change():
    envs, learner = make_parts(MovesTarget)
    spec = EnvSpecs(envs).unroll_spec(learner.policy, 8)
    learner.observe(tf.nest.map_structure(lambda x: tf.zeros((1, *x.shape), x.dtype), spec))
    learner.train()
    for env in envs:
        env.close()
    graph = learner.algorithm.graph
    captured = {id(outer): inner for outer, inner in graph.captures}

    def find_change(variable):
        handle = captured[id(variable.handle)]
        (change,) = (x for x in handle.consumers() if x.type.startswith("Assign"))
        return change

    earlier = list_earlier(find_change(learner.progress.updates))
    changed = [*learner.policy.weights, learner.algorithm.target]
    assert len(changed) > NUM_WEIGHTS and all(find_change(x).name in earlier for x in changed)
