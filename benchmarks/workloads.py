# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the benchmarks run. Each workload holds the settings that were measured to be best on 2 cores."""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from alf.algorithms import ActorCriticPolicy, ImpalaAlgorithm
from alf.algorithms.networks import ActorCriticNetwork, NatureNetwork
from alf.environments import load
from alf.environments.toy import NullEnvironment


@dataclasses.dataclass(frozen=True)
class Workload:
    """An environment, a network and the settings of the driver.

    Attributes:
        env_ctor: callable (batch_size, seed) -> batched environment.
        network_ctor: callable (observation_spec, num_outputs) -> network.
        num_envs, batch_size, unroll_length, num_actor_queues, actor_queue_cap, learn_queue_cap,
            one_env_at_a_time: as in `AsyncOffPolicyDriver`.
        env_alone_ctor: like `env_ctor`, which is the default, for the cost of the environment alone: in this
            process.
    """

    env_ctor: Callable
    network_ctor: Callable
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
        optimizer = tf.keras.optimizers.legacy.Adam(3e-4)
        policy_ctor = functools.partial(ActorCriticPolicy, network_ctor=self.network_ctor)
        return ImpalaAlgorithm(observation_spec, action_spec, optimizer, policy_ctor)

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


def _pong(batch_size, seed):
    return load("ALE/Pong-v5", batch_size, seed=seed)


def _halfcheetah(batch_size, seed, num_workers=1):
    return load("HalfCheetah-v5", batch_size, seed=seed, num_workers=num_workers)


def _mlp(*sizes):
    return functools.partial(ActorCriticNetwork, fc_layer_params=sizes)


WORKLOADS = {
    "cartpole_vector": Workload(
        _cartpole, _mlp(64, 64), num_envs=2, batch_size=1024, unroll_length=32, one_env_at_a_time=True
    ),
    "cartpole_python": Workload(
        _cartpole_python,
        _mlp(64, 64),
        num_envs=2,
        batch_size=1024,
        unroll_length=16,
        env_alone_ctor=functools.partial(_cartpole_python, num_workers=0),
    ),
    "pong": Workload(_pong, NatureNetwork, num_envs=2, batch_size=32, unroll_length=16),
    "pong_bfloat16": Workload(
        _pong,
        functools.partial(NatureNetwork, compute_dtype="bfloat16"),
        num_envs=2,
        batch_size=32,
        unroll_length=16,
    ),
    "halfcheetah": Workload(
        _halfcheetah,
        _mlp(64, 64),
        num_envs=2,
        batch_size=256,
        unroll_length=32,
        env_alone_ctor=functools.partial(_halfcheetah, num_workers=0),
    ),
    "toy": Workload(_null, _mlp(16), num_envs=2, batch_size=32, unroll_length=128, one_env_at_a_time=True),
}
