# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures RLlib's IMPALA on CartPole-v1; `python -m benchmarks.compare_rllib` runs it beside ALF's.

Needs an environment of its own (`pip install "ray[rllib]" torch`) and nothing of ALF:
`python benchmarks/rllib_impala.py --workers=4 --envs=32`. Prints one JSON object: environment steps per
second that the learner trained on, after a warm-up. The settings are those of RLlib's tuned example for
CartPole (cartpole_impala.py), except for the flags, the size of the network, and `--sampler_timeout`.
"""

import argparse
import json
import time

import ray
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

_START_SECONDS = 120.0  # until the learner's first update


def make_algorithm(arguments):
    config = (
        IMPALAConfig()
        .environment("CartPole-v1")
        .env_runners(
            num_env_runners=arguments.workers,
            num_envs_per_env_runner=arguments.envs,
            rollout_fragment_length=arguments.unroll_length,
            gym_env_vectorize_mode=arguments.vectorize,
        )
        .training(
            train_batch_size_per_learner=arguments.batch_size or arguments.envs * arguments.unroll_length,
            timeout_s_sampler_manager=arguments.sampler_timeout,
            grad_clip=40.0,
            grad_clip_by="global_norm",
            lr=0.0005,
            vf_loss_coeff=0.05,
            entropy_coeff=0.0,
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], vf_share_layers=True))
        .reporting(min_time_s_per_iteration=1)
    )
    return config.build_algo()


def trained_steps(result):
    """Environment steps that the learner has trained on so far; 0 before its first update.

    RLlib counts one step more for each piece of an episode in a batch, the one that is there for its value.
    """
    learner = result.get("learners", {}).get("__all_modules__", {})
    return float(learner.get("num_env_steps_trained_lifetime", 0))


def train(algorithm, seconds, is_enough=lambda result: True):
    """Trains for at least so many seconds, until `is_enough(result)`; returns the last result."""
    start, result = time.monotonic(), algorithm.train()
    while (passed := time.monotonic() - start) < seconds or not is_enough(result):
        if passed > seconds + _START_SECONDS:
            raise TimeoutError(f"RLlib has trained on nothing in {passed:.0f} s")
        result = algorithm.train()
    return result


def measure(algorithm, seconds):
    """Trains to warm up, then for `seconds`; returns a dict of what the second part did."""
    train(algorithm, 0, trained_steps)
    before, start = train(algorithm, seconds / 5), time.monotonic()
    after = train(algorithm, seconds)
    passed = time.monotonic() - start
    sampled = [result["env_runners"]["num_env_steps_sampled_lifetime"] for result in (before, after)]
    return {
        "trained_steps_per_second": (trained_steps(after) - trained_steps(before)) / passed,
        "sampled_steps_per_second": float(sampled[1] - sampled[0]) / passed,
        "seconds": passed,
        "average_return": float(after["env_runners"].get("episode_return_mean", 0.0)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="processes that step environments")
    parser.add_argument("--envs", type=int, default=32, help="environments of each")
    parser.add_argument("--unroll_length", type=int, default=32, help="steps of a fragment")
    parser.add_argument(
        "--batch_size", type=int, help="steps of an update; default: one fragment of each env"
    )
    parser.add_argument("--vectorize", default="vector_entry_point", help="or sync: one by one")
    # With 0, the default of RLlib, the main process spins and takes a core from the others.
    parser.add_argument("--sampler_timeout", type=float, default=0.01, help="seconds to wait for fragments")
    parser.add_argument("--seconds", type=float, default=20.0, help="that are measured")
    arguments = parser.parse_args()
    # RLlib asks for a core for each of its processes; here they share those that there are.
    ray.init("local", num_cpus=arguments.workers + 8, include_dashboard=False, logging_level="error")
    algorithm = make_algorithm(arguments)
    try:
        outcome = measure(algorithm, arguments.seconds)
    finally:
        algorithm.stop()
        ray.shutdown()
    print(json.dumps({**vars(arguments), **outcome, "ray": ray.__version__}))


if __name__ == "__main__":
    main()
