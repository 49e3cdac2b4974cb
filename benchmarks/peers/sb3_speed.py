# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures Stable-Baselines3: `python benchmarks/peers/sb3_speed.py`. Prints one JSON line.

--library=sbx measures SBX, which is the same in JAX.
"""

import importlib
import os

import torch
from envs import make_env
from meter import Meter
from setups import BATCH_SIZES, N_STEP, REPLAY_CAPACITY, REPLAY_RATIOS, SETUPS, make_parser
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

# DQN holds stacked frames, 28 KB for each step.
DQN_CAPACITY = REPLAY_CAPACITY // 10


class Measure(BaseCallback):
    """Gives a meter what was trained on, and ends training when it has seen enough.

    `minibatches` are the updates that the library counts as one: PPO's of an epoch.
    """

    def __init__(self, meter, minibatches):
        super().__init__()
        self._meter, self._minibatches = meter, minibatches

    def _on_rollout_start(self):
        updates = self.model._n_updates * self._minibatches
        self._goes_on = self._meter.count_total(self.num_timesteps, updates)

    def _on_step(self):
        return self._goes_on


def make_model(library, name, setup, vector):
    """Makes an agent with the settings of a workload."""
    vec_env = SubprocVecEnv if vector == "workers" else DummyVecEnv
    count, ratio = setup.batch_envs, REPLAY_RATIOS.get(name)
    envs = vec_env([lambda: make_env(setup.env)] * count)
    if setup.algorithm == "ppo":
        of = {"epochs": 1, "minibatches": 1, "learning_rate": 3e-4, "max_grad_norm": 40.0, **setup.settings}
        rows = count * setup.unroll_length
        settings = dict(n_steps=setup.unroll_length, batch_size=rows // of["minibatches"])
        settings |= dict(n_epochs=of["epochs"], ent_coef=of.get("entropy", 0.0))
        settings |= {name: of[name] for name in ("learning_rate", "max_grad_norm")}
        network = {"net_arch": list(setup.hidden)}  # of tanh, as by default
    else:
        settings = dict(train_freq=1, gradient_steps=round(ratio * count), learning_starts=1000)
        settings |= dict(batch_size=BATCH_SIZES[setup.algorithm], buffer_size=REPLAY_CAPACITY)
        network = {"net_arch": list(setup.hidden)}
    if setup.algorithm == "dqn":
        settings |= dict(n_steps=N_STEP, buffer_size=DQN_CAPACITY, learning_rate=1e-4)
    make = getattr(library, setup.algorithm.upper())
    policy = "MlpPolicy" if setup.hidden else "CnnPolicy"
    return make(policy, envs, device="cpu", policy_kwargs=network if setup.hidden else {}, **settings)


def main():
    parser = make_parser(__doc__, ("inprocess", "workers"))
    parser.add_argument("--library", default="stable_baselines3", choices=("stable_baselines3", "sbx"))
    flags = parser.parse_args()
    # Read by JAX when it is imported.
    os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(flags.threads > 1).lower()}"
    torch.set_num_threads(flags.threads)
    meter = Meter(flags.seconds)
    library = importlib.import_module(flags.library)
    setup = SETUPS[flags.workload]
    model = make_model(library, flags.workload, setup, flags.vector)
    model.learn(10**10, callback=Measure(meter, setup.settings.get("minibatches", 1)))
    meter.report(variant=f"{flags.vector}, {flags.threads} threads")


if __name__ == "__main__":
    main()
