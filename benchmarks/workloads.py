# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the benchmarks run. Each workload holds the settings that were measured to be best on 2 cores."""

import dataclasses
import functools
from collections.abc import Callable

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, SacAlgorithm
from alf.drivers import DriverSettings, EnvSpecs
from alf.environments import load, load_atari
from alf.learner import LearnerSettings, ReplayLearner, UnrollLearner, optimizers
from alf.networks import ActorCriticNetwork, NatureEncoder, QValueNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.policies.data_transformers import FrameStacker, Pipeline
from alf.replay import make_replayer
from alf.testing.toy_environments import NullEnvironment

DRIVER_SETTINGS = "num_env_threads", "num_actor_queues", "learn_queue_cap", "actor_queue_cap"


@dataclasses.dataclass(frozen=True)
class Workload:
    """An environment, an agent and the settings of learner and driver.

    Attributes:
        env: callable (batch_size, seed) -> batched environment.
        agent: `Agent`.
        num_groups, batch_size, unroll_length, num_env_threads, num_actor_queues, actor_queue_cap,
            learn_queue_cap: as in `DriverSettings` and `Driver`.
        num_workers: worker processes that `env` starts; None for its default.
        intra_op_threads: as in `Experiment`.
        data_transformers: as in `Experiment`.
        exp_replayer: as in `Experiment`.
        replay_ratio, initial_collect_steps, mini_batch_size, mini_batch_length: as in `ReplayLearner`.
    """

    env: Callable
    agent: "Agent"
    num_groups: int
    batch_size: int
    unroll_length: int
    num_env_threads: int | None = None
    num_actor_queues: int = 1
    actor_queue_cap: int = 1
    learn_queue_cap: int = 1
    num_workers: int | None = None
    intra_op_threads: int | None = None
    data_transformers: tuple = ()
    exp_replayer: str = "one_time"
    replay_ratio: float | None = None
    initial_collect_steps: int = 1000
    mini_batch_size: int = 256
    mini_batch_length: int = 1

    def make_envs(self):
        settings = {} if self.num_workers is None else {"num_workers": self.num_workers}
        return [self.env(self.batch_size, seed, **settings) for seed in range(self.num_groups)]

    def make_learner(self, envs):
        specs = EnvSpecs(envs)
        transformer = Pipeline(specs.observation, specs.reward, self.data_transformers)
        policy = self.agent.policy(transformer.observation_spec, specs.action, data_transformer=transformer)
        replayer = make_replayer(
            self.exp_replayer,
            specs.unroll_spec(policy, self.unroll_length),
            specs.num_groups,
            transformer.context,
        )
        names = "mini_batch_size", "mini_batch_length", "initial_collect_steps", "replay_ratio"
        sizes = {} if self.replay_ratio is None else {name: getattr(self, name) for name in names}
        return self.agent.learner(self.agent.algorithm(policy), replayer=replayer, **sizes)

    def driver_settings(self):
        """Makes the settings of the asynchronous driver."""
        return DriverSettings(**{name: getattr(self, name) for name in DRIVER_SETTINGS})


@dataclasses.dataclass(frozen=True)
class Agent:
    """What acts and how it learns: constructors as in `Experiment`."""

    policy: Callable
    algorithm: Callable
    learner: Callable


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


def _halfcheetah_envpool(batch_size, seed):
    # A thread of C++ for each of the two environments.
    return load("envpool:HalfCheetah-v5", batch_size, seed=seed, num_threads=1)


def _pong_frames(batch_size, seed):
    return load_atari("Pong", batch_size, seed=seed, num_stack=1)


def _adam(learning_rate=3e-4):
    return optimizers.Adam(learning_rate)


def _clipped(max_grad_norm):
    return LearnerSettings(max_grad_norm=max_grad_norm)


def make_impala(**network):
    """Makes the `Agent` of IMPALA; `network` are arguments of `ActorCriticNetwork`."""
    # Shared, as where speed matters, and as in the loops that ALF was compared with.
    make_network = functools.partial(ActorCriticNetwork, share_layers=True, **network)
    return Agent(
        functools.partial(ActorCriticPolicy, network=make_network),
        ImpalaAlgorithm,
        lambda algorithm, **kwargs: UnrollLearner(algorithm, _adam(), settings=_clipped(40.0), **kwargs),
    )


# Frames are divided by 255, as other libraries do, so that all compute the same network.
_NATURE = {"fc_layer_params": (), "encoder": functools.partial(NatureEncoder, standardize=False)}


def _nature(compute_dtype):
    return make_impala(**_NATURE, compute_dtype=compute_dtype)


def _sac():
    def make_learner(algorithm, **kwargs):
        optimizers = {group: _adam() for group in algorithm.parameter_groups()}
        return ReplayLearner(algorithm, optimizers, settings=LearnerSettings(jit_compile=True), **kwargs)

    return Agent(SacPolicy, SacAlgorithm, make_learner)


def _dqn():
    make_network = functools.partial(QValueNetwork, **_NATURE)
    return Agent(
        functools.partial(EpsilonGreedyPolicy, network=make_network),
        functools.partial(DqnAlgorithm, n_step=3),
        lambda algorithm, **kwargs: ReplayLearner(algorithm, _adam(1e-4), settings=_clipped(10.0), **kwargs),
    )


WORKLOADS = {
    "cartpole_vector": Workload(
        _cartpole,
        make_impala(fc_layer_params=(64, 64)),
        num_groups=2,
        batch_size=1024,
        unroll_length=32,
        num_env_threads=1,
        num_actor_queues=0,
        intra_op_threads=1,
    ),
    "cartpole_python": Workload(
        _cartpole_python,
        make_impala(fc_layer_params=(64, 64)),
        num_groups=2,
        batch_size=1024,
        unroll_length=16,
        num_actor_queues=0,
        intra_op_threads=1,
    ),
    "pong": Workload(_pong, _nature("float32"), num_groups=2, batch_size=32, unroll_length=16),
    "pong_bfloat16": Workload(
        _pong,
        _nature("bfloat16"),
        num_groups=2,
        batch_size=32,
        unroll_length=16,
    ),
    "halfcheetah": Workload(
        _halfcheetah,
        make_impala(fc_layer_params=(64, 64)),
        num_groups=2,
        batch_size=256,
        unroll_length=32,
        num_actor_queues=0,
        intra_op_threads=1,
    ),
    "halfcheetah_envpool": Workload(
        _halfcheetah_envpool,
        make_impala(fc_layer_params=(64, 64)),
        num_groups=2,
        batch_size=256,
        unroll_length=32,
        num_actor_queues=0,
    ),
    "sac_halfcheetah": Workload(
        _halfcheetah,
        _sac(),
        num_groups=2,
        batch_size=8,
        unroll_length=8,
        exp_replayer="uniform",
        replay_ratio=0.25,
    ),
    "dqn_pong": Workload(
        _pong_frames,
        _dqn(),
        num_groups=2,
        batch_size=8,
        unroll_length=8,
        data_transformers=(FrameStacker,),
        exp_replayer="prioritized",
        replay_ratio=0.25,
        mini_batch_size=32,
        mini_batch_length=3,
    ),
    "toy": Workload(
        _null,
        make_impala(fc_layer_params=(16,)),
        num_groups=2,
        batch_size=32,
        unroll_length=128,
    ),
}
