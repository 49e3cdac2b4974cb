# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learners of every algorithm with small networks, and an unroll for them, without a driver."""

import functools

import tensorflow as tf

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, SacAlgorithm
from alf.core.nest_utils import zero_where, zeros_from_spec
from alf.data_structures import FIRST, Experience, TimeStep
from alf.drivers import EnvSpecs
from alf.drivers.actor_thread import act
from alf.learner import ReplayLearner, UnrollLearner, optimizers
from alf.networks import ActorCriticNetwork, CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.ops.draws import Stream
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.policies.data_transformers import Pipeline
from alf.replay import UniformReplayer
from alf.testing.toy_environments import MatchObservationEnvironment
from tests.builders import build_learner

T = 4  # steps of an unroll


def make_env(continuous=False):
    return MatchObservationEnvironment(4, episode_length=3, continuous=continuous)


def make_learner(algorithm, env, rnn=None, optimizer=None, transformers=(), **settings):
    """Makes a learner; that of SAC and DQN trains on all sequences of its buffer in turn.

    Args:
        algorithm: class of an algorithm, or a partial of it.
        env: the environment whose experience it gets.
        rnn: what makes recurrent layers, or None.
        optimizer: as in `Learner`; None is SGD.
        transformers: as in `Pipeline`.
        **settings: of `Learner`.
    """
    specs = EnvSpecs([env])
    small = lambda cls: functools.partial(cls, fc_layer_params=(8,), rnn=rnn, seed=0)  # noqa: E731
    pipeline = Pipeline(specs.observation, specs.reward, transformers)
    acting, more = (pipeline.observation_spec, specs.action), {"data_transformer": pipeline}
    if algorithm is DqnAlgorithm:
        policy = EpsilonGreedyPolicy(*acting, small(QValueNetwork), **more)
        algorithm = DqnAlgorithm(policy, target_update_period=2)
    elif algorithm is SacAlgorithm:
        critic = small(CriticsNetwork)
        policy = SacPolicy(*acting, small(PolicyNetwork), critic if rnn else None, **more)
        algorithm = SacAlgorithm(policy, None if rnn else critic, initial_alpha=0.1)
    else:
        policy = ActorCriticPolicy(*acting, small(ActorCriticNetwork), **more)
        algorithm = algorithm(policy)
    if algorithm in (DqnAlgorithm, SacAlgorithm):
        replayer = UniformReplayer(specs.unroll_spec(policy, T), specs.num_groups)
        training = functools.partial(
            ReplayLearner,
            replayer=replayer,
            mini_batch_size=8,
            mini_batch_length=1,
            whole_replay_buffer_training=True,
        )
    else:
        is_ppo = algorithm is not ImpalaAlgorithm
        training = functools.partial(UnrollLearner, num_epochs=2, num_minibatches=2) if is_ppo else None
    optimizer = optimizer or optimizers.SGD(0.1)
    return build_learner(algorithm, optimizer, training, **settings)


def without_graph(learner):
    """Lets a learner of unrolls update in eager mode, and returns it: tracing would take most of the time."""

    def update(tensors, count):
        tf.config.run_functions_eagerly(True)
        try:
            return learner._make_updates(tensors, False)
        finally:
            tf.config.run_functions_eagerly(False)

    learner._train_on = update
    return learner


def collect(env, learner, num_steps=T):
    """Acts some steps, without a graph: an `Experience` of [1, T+1, B, ...] for `Learner.observe`."""
    policy, size = learner.policy, env.batch_size
    state = first_state = zeros_from_spec(policy.policy_step_spec.state, size)
    action, env_id = zeros_from_spec(policy.action_spec, size), tf.range(size)
    rows, step, stream = [], env.reset(), Stream()
    for t in range(num_steps + 1):
        signals = (tf.constant(x) for x in step)  # step type, reward, discount, observation
        time_step = TimeStep(*signals, zero_where(tf.constant(step.step_type == FIRST), action), env_id)
        if t < num_steps:  # the last row has no answer yet
            answer, version = act(policy, stream, time_step, state, counters=[(0, t)])
            action, state = answer.action, answer.state
        versions = tf.fill((size,), version)
        rows.append(Experience(*time_step, answer.action, answer.info, versions, ()))
        step = env.step(action.numpy()) if t < num_steps else None
    rows = tf.nest.map_structure(lambda *x: tf.stack(x)[tf.newaxis], *rows)
    return rows._replace(state=tf.nest.map_structure(lambda x: x[tf.newaxis], first_state))
