# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the benchmarks run. Each workload holds the settings that were measured to be best on 2 cores."""

import dataclasses
import functools
from collections.abc import Callable

import gin
import tensorflow as tf

from alf.algorithms import ActorCriticPolicy, DqnAlgorithm, ImpalaAlgorithm, SacAlgorithm
from alf.environments import load
from alf.environments.atari import load_atari
from alf.nest_utils import to_tensor_spec
from alf.networks import ActorCriticNetwork, NatureNetwork, QValueNetwork
from alf.policies.data_transformers import FrameStacker, Pipeline
from alf.testing.toy_environments import NullEnvironment


@dataclasses.dataclass(frozen=True)
class Workload:
    """An environment, an algorithm and the settings of the driver.

    Attributes:
        env_ctor: callable (batch_size, seed) -> batched environment.
        algorithm_ctor: callable (observation_spec, action_spec) -> `Algorithm`.
        num_envs, batch_size, unroll_length, num_actor_queues, actor_queue_cap, learn_queue_cap,
            one_env_at_a_time: as in `AsyncOffPolicyDriver`.
        env_alone_ctor: like `env_ctor`, which is the default, for the cost of the environment alone: in this
            process.
        data_transformers: as in `Trainer`.
        exp_replayer: as in `AsyncOffPolicyDriver`.
        replay_ratio, initial_collect_steps, mini_batch_size, mini_batch_length: as in `ReplayTraining`.
    """

    env_ctor: Callable
    algorithm_ctor: Callable
    num_envs: int
    batch_size: int
    unroll_length: int
    num_actor_queues: int = 1
    actor_queue_cap: int = 1
    learn_queue_cap: int = 1
    one_env_at_a_time: bool = False
    env_alone_ctor: Callable | None = None
    data_transformers: tuple = ()
    exp_replayer: str = "one_time"
    replay_ratio: float | None = None
    initial_collect_steps: int = 1000
    mini_batch_size: int = 256
    mini_batch_length: int = 1

    def make_envs(self):
        return [self.env_ctor(self.batch_size, seed) for seed in range(self.num_envs)]

    def make_algorithm(self, env):
        observation_spec, action_spec = (
            to_tensor_spec(spec) for spec in (env.observation_spec(), env.action_spec())
        )
        transformer = Pipeline(observation_spec, to_tensor_spec(env.reward_spec()), self.data_transformers)
        algorithm = self.algorithm_ctor(transformer.observation_spec, action_spec)
        algorithm.set_data_transformer(transformer)
        if self.replay_ratio is not None:
            for name in ("replay_ratio", "initial_collect_steps", "mini_batch_size", "mini_batch_length"):
                gin.bind_parameter(f"ReplayTraining.{name}", getattr(self, name))
        return algorithm

    def driver_settings(self):
        names = (
            "num_actor_queues",
            "unroll_length",
            "learn_queue_cap",
            "actor_queue_cap",
            "one_env_at_a_time",
            "exp_replayer",
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


def _pong_frames(batch_size, seed):
    return load_atari("Pong", batch_size, seed=seed, num_stack=1)


def _adam(learning_rate=3e-4):
    return tf.keras.optimizers.legacy.Adam(learning_rate)


def _impala(network_ctor, observation_spec, action_spec):
    policy_ctor = functools.partial(ActorCriticPolicy, network_ctor=network_ctor)
    return ImpalaAlgorithm(observation_spec, action_spec, _adam(), policy_ctor)


def _mlp(*sizes):
    return functools.partial(_impala, functools.partial(ActorCriticNetwork, fc_layer_params=sizes))


def _sac(observation_spec, action_spec):
    return SacAlgorithm(observation_spec, action_spec, _adam(), _adam(), _adam(), jit_compile=True)


def _dqn(observation_spec, action_spec):
    network_ctor = functools.partial(QValueNetwork, fc_layer_params=())
    return DqnAlgorithm(observation_spec, action_spec, _adam(1e-4), network_ctor, n_step=3)


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
    "pong": Workload(
        _pong, functools.partial(_impala, NatureNetwork), num_envs=2, batch_size=32, unroll_length=16
    ),
    "pong_bfloat16": Workload(
        _pong,
        functools.partial(_impala, functools.partial(NatureNetwork, compute_dtype="bfloat16")),
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
    "sac_halfcheetah": Workload(
        _halfcheetah,
        _sac,
        num_envs=2,
        batch_size=8,
        unroll_length=8,
        env_alone_ctor=functools.partial(_halfcheetah, num_workers=0),
        exp_replayer="uniform",
        replay_ratio=0.25,
    ),
    "dqn_pong": Workload(
        _pong_frames,
        _dqn,
        num_envs=2,
        batch_size=8,
        unroll_length=8,
        data_transformers=(FrameStacker,),
        exp_replayer="prioritized",
        replay_ratio=0.25,
        mini_batch_size=32,
        mini_batch_length=3,
    ),
    "toy": Workload(_null, _mlp(16), num_envs=2, batch_size=32, unroll_length=128, one_env_at_a_time=True),
}
