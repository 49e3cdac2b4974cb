# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures a lean loop on CartPole: `python -m benchmarks.limits.loop --preset=ppo --num_envs=8`.

One thread samples and updates in turn, with the settings of ALF's preset. Prints one JSON line.
"""

import argparse

import gymnasium as gym
import numpy as np
import tensorflow as tf

from benchmarks.limits.alf_presets import Preset
from benchmarks.limits.sampling import NumpyPolicy, Sampler
from benchmarks.peers.meter import Meter
from benchmarks.peers.setups import preset_settings

_ENV = "CartPole-v1"


def make_sampler(preset, algorithm, compute, num_envs):
    """Makes a `Sampler` with the unrolls and the discount of a `Preset`."""
    envs = gym.make_vec(_ENV, num_envs, vectorization_mode="vector_entry_point")
    return Sampler(envs, compute, preset.unroll_length, **preset.read(algorithm, "discount"))


def make_ppo(preset):
    """Returns a callable that samples a batch and learns from it, and the steps and updates of a call."""
    return _make(preset, preset.make_ppo(), "PPOAlgorithm")


def make_impala(preset):
    """Makes the same of IMPALA."""
    return _make(preset, preset.make_impala(), "ImpalaAlgorithm")


def _make(preset, lean, algorithm):
    sizes, rng = preset.read_orders(), np.random.default_rng(0)
    policy = NumpyPolicy(lean)
    sampler = make_sampler(preset, algorithm, policy, preset.num_envs)
    steps = preset.num_envs * preset.unroll_length
    segments = steps // sizes["recurrence"]
    updates = sizes["num_epochs"] * min(preset.num_minibatches, segments)

    def iterate():
        orders = [rng.permutation(segments) for _ in range(sizes["num_epochs"])]
        orders = tf.constant(np.reshape(orders, (updates, -1)), tf.int32)
        lean.train(tf.nest.map_structure(tf.constant, sampler.collect()), orders)
        policy.read()

    return iterate, steps, updates


MAKERS = {"ppo": make_ppo, "impala": make_impala}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--preset", choices=sorted(MAKERS), default="ppo")
    parser.add_argument("--num_envs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0, help="that are measured")
    flags = parser.parse_args()
    preset = Preset(_ENV, flags.preset, **preset_settings(flags.preset, flags.num_envs))
    iterate, steps, updates = MAKERS[flags.preset](preset)
    iterate()
    meter = Meter(flags.seconds)
    while meter.count(steps, updates):
        iterate()
    meter.report()


if __name__ == "__main__":
    main()
