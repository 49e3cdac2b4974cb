# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures RLlib's IMPALA: `python benchmarks/peers/rllib.py --workload=pong`. Prints one JSON line.

`python -m benchmarks.compare_rllib` gives it the number of workers, environments and steps. The settings are
those of RLlib's tuned example for CartPole (cartpole_impala.py), except for the flags and the network.
"""

import numpy as np
import ray
from envs import CORES, make_env
from gymnasium.wrappers import TransformObservation
from meter import Meter
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env
from setups import SETUPS, make_parser

_CONVOLUTIONS = [[32, 8, 4], [64, 4, 2], [64, 3, 1]]  # of the Nature CNN


def make_frames(config):
    """Makes an Atari environment with frames [84, 84, 4] of float32, which RLlib's network takes."""
    env = make_env(config["env"])
    space = type(env.observation_space)(0.0, 1.0, (84, 84, 4), np.float32)
    return TransformObservation(env, lambda x: np.moveaxis(np.asarray(x, np.float32) / 255, 0, -1), space)


def make_algorithm(flags, setup):
    """Makes the algorithm with the settings of a workload, where no flag replaces them."""
    rows = flags.envs or 2 * setup.batch_envs // flags.workers
    steps = flags.unroll_length or setup.unroll_length
    env, env_config, mode = setup.env, {}, "vector_entry_point" if "vector" in setup.vectors else "sync"
    network = {"fcnet_hiddens": list(setup.hidden), "fcnet_activation": "tanh"}
    if not setup.hidden:
        register_env("frames", make_frames)
        env, env_config, mode = "frames", {"env": setup.env}, "sync"
        network = {"conv_filters": _CONVOLUTIONS, "head_fcnet_hiddens": [512]}
        network["head_fcnet_activation"] = "relu"
    config = (
        IMPALAConfig()
        .environment(env, env_config=env_config)
        .env_runners(
            num_env_runners=flags.workers,
            num_envs_per_env_runner=rows,
            rollout_fragment_length=steps,
            gym_env_vectorize_mode=mode,
        )
        .training(
            train_batch_size_per_learner=(rows if flags.envs else setup.batch_envs) * steps,
            # With 0, the default of RLlib, the main process spins and takes a core from the others.
            timeout_s_sampler_manager=0.01,
            grad_clip=40.0,
            grad_clip_by="global_norm",
            lr=0.0005,
            vf_loss_coeff=0.05,
            entropy_coeff=0.0,
        )
        .rl_module(model_config=DefaultModelConfig(vf_share_layers=True, **network))
        .reporting(min_time_s_per_iteration=1)
    )
    return config.build_algo()


def trained_steps(result):
    """Environment steps that the learner has trained on so far; 0 before its first update.

    RLlib counts one step more for each piece of an episode in a batch, the one that is there for its value.
    """
    learner = result.get("learners", {}).get("__all_modules__", {})
    return float(learner.get("num_env_steps_trained_lifetime", 0))


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--workers", type=int, default=CORES, help="processes that step environments")
    parser.add_argument("--envs", type=int, help="environments of each; a batch is one fragment of them")
    parser.add_argument("--unroll_length", type=int, help="steps of a fragment")
    flags = parser.parse_args()
    # RLlib asks for a core for each of its processes; here they share those that there are.
    ray.init("local", num_cpus=flags.workers + 8, include_dashboard=False, logging_level="error")
    setup, meter = SETUPS[flags.workload], Meter(flags.seconds)
    algorithm = make_algorithm(flags, setup)
    steps_of_batch, steps = algorithm.config.train_batch_size_per_learner, 0.0
    try:
        while meter.count_total(steps, steps / steps_of_batch):
            steps = trained_steps(algorithm.train())
    finally:
        algorithm.stop()
        ray.shutdown()
    meter.report(variant="IMPALA", ray=ray.__version__)


if __name__ == "__main__":
    main()
