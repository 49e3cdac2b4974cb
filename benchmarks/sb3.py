# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains an agent of Stable-Baselines3: `python benchmarks/sb3.py --env=CartPole-v1 --steps=100_000`.

Needs an environment of its own (`pip install stable-baselines3`) and nothing of ALF. Without --settings and
--num_envs it takes the defaults. --library=sbx trains one of SBX (`pip install sbx-rl`), which is the same in
JAX. Prints one JSON object with the average return of the last 100 episodes after parts of the steps, and the
seconds of training until then; and whether it was at --target_return, which ends training.
"""

import argparse
import importlib
import json

import torch
from peers.curve import Curve
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize


class Returns(BaseCallback):
    """Keeps a `Curve`, and ends training when that has reached its target."""

    def __init__(self, curve):
        super().__init__()
        self._curve = curve

    def _on_step(self):
        if any(self.locals["dones"]):  # most steps end no episode
            self._curve.advance(self.num_timesteps, self._returns())
        return not self._curve.reached

    def _on_training_end(self):
        self._curve.note(self.num_timesteps, self._returns())

    def _returns(self):
        return [episode["r"] for episode in self.model.ep_info_buffer]


def make_envs(name, num_envs, seed):
    """Makes environments; returns them and whether they have images."""
    if name.startswith("MinAtar/"):
        from minatar import gym as minatar_gym

        minatar_gym.register_envs()
    if not name.startswith("ALE/"):
        return make_vec_env(name, n_envs=num_envs, seed=seed), False
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    return VecFrameStack(make_atari_env(name, n_envs=num_envs, seed=seed), 4), True


def find_activation(library, name):
    """Returns a library's activation, by the name of the class of `torch.nn`."""
    if library == "sbx":
        import flax

        return getattr(flax.linen, name.lower())
    return getattr(torch.nn, name)


def make_settings(arguments):
    """Returns the algorithm's settings; an activation is the name of a class of `torch.nn` in the flag."""
    settings = dict(arguments.settings)
    if arguments.anneal:
        rate = settings["learning_rate"]
        settings["learning_rate"] = lambda remaining: rate * remaining
    network = settings.get("policy_kwargs", {})
    if "activation_fn" in network:
        activation = find_activation(arguments.library, network["activation_fn"])
        settings["policy_kwargs"] = {**network, "activation_fn": activation}
    return settings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--library", default="stable_baselines3", choices=("stable_baselines3", "sbx"))
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--algorithm", default="ppo", choices=("ppo", "sac", "dqn", "td3", "a2c"))
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num_envs", type=int, default=1)
    parser.add_argument("--target_return", type=float)
    parser.add_argument("--normalize", action="store_true", help="observations and rewards")
    parser.add_argument("--anneal", action="store_true", help="the learning rate, to 0")
    parser.add_argument("--settings", type=json.loads, default={}, help="Of the algorithm, as JSON.")
    arguments = parser.parse_args()
    envs, has_images = make_envs(arguments.env, arguments.num_envs, arguments.seed)
    make = getattr(importlib.import_module(arguments.library), arguments.algorithm.upper())
    policy = "CnnPolicy" if has_images else "MlpPolicy"
    envs = VecNormalize(envs) if arguments.normalize else envs
    model = make(policy, envs, seed=arguments.seed, device="cpu", **make_settings(arguments))
    curve = Curve(arguments.steps, arguments.target_return)
    model.learn(arguments.steps, callback=Returns(curve))
    print(json.dumps({**vars(arguments), "curve": curve.points, "reached": curve.reached}))


if __name__ == "__main__":
    main()
