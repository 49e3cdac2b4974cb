# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the peers run: the workloads of `benchmarks.workloads` in plain values, without TensorFlow."""

import argparse
from typing import NamedTuple


class Setup(NamedTuple):
    """A workload, as a peer sees it.

    Attributes:
        env: a Gymnasium id.
        algorithm: "ppo" for what ALF trains by IMPALA, "sac" or "dqn".
        batch_envs: environments whose steps make a batch. With "ppo" ALF has twice as many, in two groups.
        unroll_length: steps of each environment in a batch of PPO.
        vectors: kinds of vector environment (`envs.make_vector`) that PyTorch may use for it.
        hidden: units of the layers; () for the Nature CNN.
    """

    env: str
    algorithm: str
    batch_envs: int
    unroll_length: int
    vectors: tuple
    hidden: tuple = (64, 64)


SETUPS = {
    "cartpole_python": Setup("CartPole-v1", "ppo", 1024, 16, ("inprocess", "workers")),
    "cartpole_vector": Setup("CartPole-v1", "ppo", 1024, 32, ("vector",)),
    "pong": Setup("ALE/Pong-v5", "ppo", 32, 16, ("vector", "envpool"), ()),
    "halfcheetah": Setup("HalfCheetah-v5", "ppo", 256, 32, ("inprocess", "workers")),
    "halfcheetah_envpool": Setup("HalfCheetah-v5", "ppo", 256, 32, ("envpool",)),
    "sac_halfcheetah": Setup("HalfCheetah-v5", "sac", 16, 1, ("inprocess", "workers"), (256, 256)),
    "dqn_pong": Setup("ALE/Pong-v5", "dqn", 16, 1, ("vector", "envpool"), ()),
}
REPLAY_RATIOS = {"sac_halfcheetah": 1.0, "dqn_pong": 0.25}
BATCH_SIZES = {"sac": 256, "dqn": 32}
REPLAY_CAPACITY = 1_000_000  # steps, as ALF's default
N_STEP = 3  # of DQN


def make_parser(doc, vectors=()):
    """Makes the parser of a peer's script, with the flags that all of them have.

    `vectors` are the kinds of vector environment of a peer with variants, the default first; it has
    --threads, too.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workload", choices=sorted(SETUPS), default="cartpole_python")
    parser.add_argument("--seconds", type=float, default=10.0, help="that are measured")
    if vectors:
        parser.add_argument("--vector", choices=vectors, default=vectors[0], help="kind, see envs.py")
        parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    return parser
