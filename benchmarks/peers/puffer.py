# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures PufferLib's PPO: `python benchmarks/peers/puffer.py --workload=pong`. Prints one JSON line."""

import contextlib
import functools
import sys

import gymnasium
import pufferlib.emulation
import pufferlib.vector
import torch
from envs import CORES, make_env
from meter import Meter
from networks import make_torso, orthogonal
from pufferlib import pufferl
from setups import SETUPS, make_parser
from torch import nn


class Policy(nn.Module):
    """The workload's network."""

    def __init__(self, observation_space, action_space, hidden):
        super().__init__()
        self.torso, size = make_torso(observation_space, hidden)
        is_discrete = isinstance(action_space, gymnasium.spaces.Discrete)
        outputs = int(action_space.n) if is_discrete else action_space.shape[0]
        self.head = orthogonal(nn.Linear(size, outputs), 0.01)
        self.value = orthogonal(nn.Linear(size, 1), 1.0)
        self.log_std = None if is_discrete else nn.Parameter(torch.zeros(outputs))

    def forward(self, observations, state=None):
        x = self.torso(observations if observations.dtype == torch.uint8 else observations.float())
        head = self.head(x)
        if self.log_std is not None:
            head = torch.distributions.Normal(head, self.log_std.exp().expand_as(head))
        return head, self.value(x)

    forward_eval = forward


def _make(name, buf=None, seed=0):
    return pufferlib.emulation.GymnasiumPufferEnv(make_env(name), buf=buf, seed=seed)


def make_trainer(setup, vector):
    """Makes the trainer: two batches of environments that step in turn, one update for each batch."""
    make = functools.partial(_make, setup.env)
    rows, steps = 2 * setup.batch_envs, 2 * setup.batch_envs * setup.unroll_length
    backend = {"inprocess": pufferlib.vector.Serial, "workers": pufferlib.vector.Multiprocessing}[vector]
    workers = {} if vector == "inprocess" else {"num_workers": CORES, "batch_size": setup.batch_envs}
    envs = pufferlib.vector.make(make, num_envs=rows, backend=backend, **workers)
    policy = Policy(envs.single_observation_space, envs.single_action_space, setup.hidden)
    with contextlib.redirect_stdout(sys.stderr):
        config = _default_config()
    config |= dict(device="cpu", batch_size=steps, minibatch_size=steps // 2, max_minibatch_size=steps // 2)
    config |= dict(bptt_horizon=setup.unroll_length, update_epochs=1, optimizer="adam", max_grad_norm=40.0)
    config |= dict(total_timesteps=10**10, learning_rate=3e-4, checkpoint_interval=10**9, env="peer")
    return pufferl.PuffeRL(config, envs, policy)


def _default_config():
    argv, sys.argv = sys.argv, sys.argv[:1]
    try:
        return pufferl.load_config("default")["train"] | {"use_rnn": False}
    finally:
        sys.argv = argv


def main():
    parser = make_parser(__doc__, ("workers", "inprocess"))
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    meter = Meter(flags.seconds)
    with contextlib.redirect_stdout(sys.stderr):  # it draws a dashboard
        trainer = make_trainer(SETUPS[flags.workload], flags.vector)
        updates = 0
        while meter.count_total(trainer.global_step, updates):
            trainer.evaluate()
            trainer.train()
            updates += trainer.total_minibatches
        trainer.utilization.stop()
        trainer.vecenv.close()
    meter.report(variant=f"{flags.vector}, {flags.threads} threads")


if __name__ == "__main__":
    main()
