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
        dtype: "bfloat16" computes the networks so, PyTorch by autocast.
        preset: the preset of ALF whose settings all have; "" for a workload of `benchmarks.workloads`. ALF's
            environments are then `batch_envs`.
        settings: dict in place of the SETTINGS of `torch_ppo.py`.
    """

    env: str
    algorithm: str
    batch_envs: int
    unroll_length: int
    vectors: tuple
    hidden: tuple = (64, 64)
    dtype: str = "float32"
    preset: str = ""
    settings: dict = {}


# What ALF's presets set, by the names of `torch_ppo.py`.
_NETWORKS = {"shares_layers": False, "max_grad_norm": 0.5}
PRESETS = {
    "ppo": {**_NETWORKS, "epochs": 10, "learning_rate": 3e-4, "gae_lambda": 0.95, "entropy": 0.0},
    "impala": {**_NETWORKS, "epochs": 1, "learning_rate": 1e-3, "gae_lambda": 0.95, "entropy": 0.01},
}
UNROLL_LENGTHS = {"ppo": 128, "impala": 32}
MINI_BATCH_SIZE = 64  # steps, of PPO, as the preset has with its 16 environments
IMPALA_PARTS, SEGMENT = 4, 16  # minibatches of a batch, and the steps that stay together


def _make_small(preset, num_envs):
    """Makes the setup of CartPole with few environments."""
    length = UNROLL_LENGTHS[preset]
    steps = num_envs * length
    parts = steps // MINI_BATCH_SIZE if preset == "ppo" else min(IMPALA_PARTS, steps // SEGMENT)
    vectors, settings = ("vector", "inprocess"), {**PRESETS[preset], "minibatches": parts}
    return Setup("CartPole-v1", "ppo", num_envs, length, vectors, preset=preset, settings=settings)


def preset_settings(preset, num_envs):
    """Returns ALF's settings, by their short names, with which a preset has so many environments."""
    return {"num_envs": num_envs} | ({"mini_batch_size": MINI_BATCH_SIZE} if preset == "ppo" else {})


SETUPS = {
    "cartpole_python": Setup("CartPole-v1", "ppo", 1024, 16, ("inprocess", "workers")),
    "cartpole_vector": Setup("CartPole-v1", "ppo", 1024, 32, ("vector",)),
    "pong": Setup("ALE/Pong-v5", "ppo", 32, 16, ("vector", "envpool"), ()),
    "pong_bfloat16": Setup("ALE/Pong-v5", "ppo", 32, 16, ("vector", "envpool"), (), "bfloat16"),
    "halfcheetah": Setup("HalfCheetah-v5", "ppo", 256, 32, ("inprocess", "workers")),
    "halfcheetah_envpool": Setup("HalfCheetah-v5", "ppo", 256, 32, ("envpool",)),
    "sac_halfcheetah": Setup("HalfCheetah-v5", "sac", 16, 1, ("inprocess", "workers"), (256, 256)),
    "dqn_pong": Setup("ALE/Pong-v5", "dqn", 16, 1, ("vector", "envpool"), ()),
}
SMALL = {f"{preset}_cartpole_{n}": _make_small(preset, n) for preset in PRESETS for n in (1, 8, 16, 64)}
SETUPS |= SMALL
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
