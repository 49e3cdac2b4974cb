# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains Stable-Baselines3's PPO as examples/appo_frozenlake.gin trains ALF's.

Needs an environment of its own (`pip install stable-baselines3`) and nothing of ALF:
`python benchmarks/sb3_ppo.py --env=CliffWalking-v1 --target=-13.5`. Prints one JSON object: after how many
environment steps the average return of 100 episodes first reached the target, and what it was in the end.
"""

import argparse
import json
import time

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Returns(BaseCallback):
    """Notes the average return of the last 100 episodes after each rollout: pairs of steps and return."""

    def __init__(self):
        super().__init__()
        self.curve = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        episodes = [episode["r"] for episode in self.model.ep_info_buffer]
        if len(episodes) == 100:
            self.curve.append((self.num_timesteps, float(np.mean(episodes))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--env", default="FrozenLake-v1")
    parser.add_argument("--target", type=float, default=0.7)
    parser.add_argument("--num_env_steps", type=int, default=1_000_000)
    parser.add_argument("--learning_rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model = PPO(
        "MlpPolicy",
        make_vec_env(arguments.env, n_envs=64, seed=arguments.seed),
        learning_rate=arguments.learning_rate,
        n_steps=32,
        batch_size=256,
        n_epochs=4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.01,
        vf_coef=0.25,  # of the squared error; ALF halves that, and has 0.5
        max_grad_norm=0.5,
        seed=arguments.seed,
        device="cpu",
    )
    returns, start = Returns(), time.monotonic()
    model.learn(arguments.num_env_steps, callback=returns)
    reached = [steps for steps, value in returns.curve if value >= arguments.target]
    outcome = {
        "env": arguments.env,
        "seed": arguments.seed,
        "learning_rate": arguments.learning_rate,
        "env_steps_to_target": reached[0] if reached else None,
        "last_return": returns.curve[-1][1] if returns.curve else None,
        "seconds": round(time.monotonic() - start, 1),
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
