# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the benchmarks run. Each workload holds the settings that were measured to be best on 2 cores."""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.algorithms.networks import ActorCriticNetwork
from alf.environments import load
from alf.environments.toy import NullEnvironment


@dataclasses.dataclass(frozen=True)
class Workload:
    """An environment, a network and the settings of the driver.

    Attributes:
        env_ctor: callable (batch_size, seed) -> batched environment.
        fc_layer_params: hidden layers of the actor-critic.
        num_envs, batch_size, unroll_length, num_actor_queues, actor_queue_cap, learn_queue_cap,
            one_env_at_a_time: as in `AsyncOffPolicyDriver`.
        env_alone_ctor: like `env_ctor`, which is the default, for the cost of the environment alone: in this
            process.
    """

    env_ctor: Callable
    fc_layer_params: tuple
    num_envs: int
    batch_size: int
    unroll_length: int
    num_actor_queues: int = 1
    actor_queue_cap: int = 1
    learn_queue_cap: int = 1
    one_env_at_a_time: bool = False
    env_alone_ctor: Callable | None = None

    def make_envs(self):
        return [self.env_ctor(self.batch_size, seed) for seed in range(self.num_envs)]

    def make_algorithm(self, observation_spec, action_spec):
        """V-trace with Adam."""

        def network_ctor(*args):
            return ActorCriticNetwork(*args, fc_layer_params=self.fc_layer_params)

        optimizer = tf.keras.optimizers.legacy.Adam(3e-4)
        return ImpalaAlgorithm(observation_spec, action_spec, optimizer, network_ctor)

    def driver_settings(self):
        names = (
            "num_actor_queues",
            "unroll_length",
            "learn_queue_cap",
            "actor_queue_cap",
            "one_env_at_a_time",
        )
        return {name: getattr(self, name) for name in names}


def _cartpole(batch_size, seed):
    return load("CartPole-v1", batch_size, seed=seed)


def _cartpole_python(batch_size, seed, num_workers=1):
    return load("CartPole-v1", batch_size, seed=seed, num_workers=num_workers)


def _null(batch_size, seed):
    return NullEnvironment(batch_size)


WORKLOADS = {
    "cartpole_vector": Workload(
        _cartpole, (64, 64), num_envs=2, batch_size=1024, unroll_length=32, one_env_at_a_time=True
    ),
    "cartpole_python": Workload(
        _cartpole_python,
        (64, 64),
        num_envs=2,
        batch_size=512,
        unroll_length=32,
        env_alone_ctor=functools.partial(_cartpole_python, num_workers=0),
    ),
    "toy": Workload(_null, (16,), num_envs=2, batch_size=32, unroll_length=128, one_env_at_a_time=True),
}
