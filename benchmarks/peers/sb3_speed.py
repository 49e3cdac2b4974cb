# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures Stable-Baselines3: `python benchmarks/peers/sb3_speed.py`. Prints one JSON line."""

import stable_baselines3
import torch
from envs import make_env
from meter import Meter
from setups import BATCH_SIZES, N_STEP, REPLAY_CAPACITY, REPLAY_RATIOS, SETUPS, make_parser
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from torch import nn

# DQN holds stacked frames, 28 KB for each step.
DQN_CAPACITY = REPLAY_CAPACITY // 10


class Measure(BaseCallback):
    """Gives a meter what was trained on, and ends training when it has seen enough."""

    def __init__(self, meter):
        super().__init__()
        self._meter = meter

    def _on_rollout_start(self):
        self._goes_on = self._meter.count_total(self.num_timesteps, self.model._n_updates)

    def _on_step(self):
        return self._goes_on


def make_model(name, setup, vector):
    """Makes an agent with the settings of a workload."""
    vec_env = SubprocVecEnv if vector == "workers" else DummyVecEnv
    count, ratio = setup.batch_envs, REPLAY_RATIOS.get(name)
    envs = vec_env([lambda: make_env(setup.env)] * count)
    if setup.algorithm == "ppo":
        settings = dict(n_steps=setup.unroll_length, batch_size=count * setup.unroll_length, n_epochs=1)
        settings |= dict(learning_rate=3e-4, max_grad_norm=40.0)
        network = {"net_arch": list(setup.hidden), "activation_fn": nn.Tanh}
    else:
        settings = dict(train_freq=1, gradient_steps=round(ratio * count), learning_starts=1000)
        settings |= dict(batch_size=BATCH_SIZES[setup.algorithm], buffer_size=REPLAY_CAPACITY)
        network = {"net_arch": list(setup.hidden)}
    if setup.algorithm == "dqn":
        settings |= dict(n_steps=N_STEP, buffer_size=DQN_CAPACITY, learning_rate=1e-4)
    make = getattr(stable_baselines3, setup.algorithm.upper())
    policy = "MlpPolicy" if setup.hidden else "CnnPolicy"
    return make(policy, envs, device="cpu", policy_kwargs=network if setup.hidden else {}, **settings)


def main():
    parser = make_parser(__doc__, ("inprocess", "workers"))
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    meter = Meter(flags.seconds)
    model = make_model(flags.workload, SETUPS[flags.workload], flags.vector)
    model.learn(10**10, callback=Measure(meter))
    meter.report(variant=f"{flags.vector}, {flags.threads} threads")


if __name__ == "__main__":
    main()
