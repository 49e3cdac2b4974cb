# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SAC in one file of PyTorch, for speed on few cores: `python benchmarks/peers/torch_sac.py`.

Environments step in workers while the updates of the steps before are made. Prints one JSON line.
"""

import copy
import math

import numpy as np
import torch
from envs import make_vector
from meter import Meter
from networks import make_mlp
from setups import BATCH_SIZES, REPLAY_CAPACITY, REPLAY_RATIOS, SETUPS, make_parser
from torch import nn
from torch.nn import functional

INITIAL_STEPS = 1000
GAMMA, TAU, LEARNING_RATE = 0.99, 0.005, 3e-4


class Actor(nn.Module):
    """A normal distribution whose draws go through tanh."""

    def __init__(self, observations, actions, hidden):
        super().__init__()
        self.torso = make_mlp([observations, *hidden], nn.ReLU)
        self.head = nn.Linear(hidden[-1], 2 * actions)

    def forward(self, obs):
        """Draws actions in [-1, 1]; returns them with their log probabilities."""
        mean, log_std = self.head(self.torso(obs)).chunk(2, -1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.randn_like(mean)
        z = mean + noise * log_std.exp()
        log_prob = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        log_prob = log_prob - 2 * (math.log(2) - z - functional.softplus(-2 * z))
        return z.tanh(), log_prob.sum(-1)


class Critics(nn.Module):
    """Two critics as one batched network."""

    def __init__(self, inputs, hidden):
        super().__init__()
        sizes = [inputs, *hidden, 1]
        layers = [(nn.Linear(i, o), nn.Linear(i, o)) for i, o in zip(sizes, sizes[1:])]
        self.weights = nn.ParameterList(torch.stack([x.weight.T for x in pair]) for pair in layers)
        self.biases = nn.ParameterList(torch.stack([x.bias[None] for x in pair]) for pair in layers)

    def forward(self, obs, action):
        """Returns the values [2, B]."""
        x = torch.cat([obs, action], -1).expand(2, -1, -1)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            x = torch.baddbmm(bias, x if i == 0 else x.relu(), weight)
        return x.squeeze(-1)


class Replay:
    """A ring of steps, one row each: observation, action, next observation, reward, discount."""

    def __init__(self, observations, actions):
        self._sizes = observations, actions, observations, 1, 1
        self._rows = torch.from_numpy(np.zeros((REPLAY_CAPACITY, sum(self._sizes)), np.float32))
        self.count = 0

    def add(self, *fields):
        rows = torch.cat([x.reshape(len(x), -1) for x in fields], -1)
        self._rows[(self.count + torch.arange(len(rows))) % REPLAY_CAPACITY] = rows
        self.count += len(rows)

    def sample(self, size):
        rows = torch.randint(min(self.count, REPLAY_CAPACITY), (size,))
        return self._rows[rows].split(self._sizes, -1)


class Learner:
    """Actor, critics, temperature and their updates."""

    def __init__(self, observations, actions, hidden):
        self.actor, self.critics = (
            Actor(observations, actions, hidden),
            Critics(observations + actions, hidden),
        )
        self._target = copy.deepcopy(self.critics).requires_grad_(False)
        self._log_alpha = torch.zeros((), requires_grad=True)
        self._target_entropy = -float(actions)
        groups = self.actor.parameters(), self.critics.parameters(), [self._log_alpha]
        self._optimizers = [torch.optim.Adam(x, LEARNING_RATE, foreach=True) for x in groups]

    def update(self, obs, action, next_obs, reward, discount):
        of_actor, of_critics, of_alpha = self._optimizers
        alpha = self._log_alpha.detach().exp()
        with torch.no_grad():
            next_action, log_prob = self.actor(next_obs)
            bootstrap = self._target(next_obs, next_action).min(0).values - alpha * log_prob
            target = reward.squeeze(-1) + discount.squeeze(-1) * bootstrap
        _step(of_critics, (self.critics(obs, action) - target).square().mean(-1).sum())
        self.critics.requires_grad_(False)
        drawn, log_prob = self.actor(obs)
        _step(of_actor, (alpha * log_prob - self.critics(obs, drawn).min(0).values).mean())
        self.critics.requires_grad_(True)
        _step(of_alpha, -self._log_alpha.exp() * (log_prob.detach().mean() + self._target_entropy))
        with torch.no_grad():
            torch._foreach_lerp_(list(self._target.parameters()), list(self.critics.parameters()), TAU)


def _step(optimizer, loss):
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def run(env, learner, replay, ratio, count):
    """Trains with `ratio` updates for each step while `count(steps, updates)` is true."""
    read = lambda: [torch.tensor(x) for x in env.recv()]  # noqa: E731  (copies)
    (obs, _, _, _), ended, due = read(), None, 0.0
    steps = updates = 0
    while count(steps, updates):
        with torch.no_grad():
            action, _ = learner.actor(obs.float())
        env.send(action.numpy())  # HalfCheetah's actions are in [-1, 1]
        updates = 0
        while due >= 1:  # while the workers step
            learner.update(*replay.sample(BATCH_SIZES["sac"]))
            updates, due = updates + 1, due - 1
        next_obs, reward, terminated, truncated = read()
        discount = GAMMA * ~terminated
        valid = slice(None) if ended is None else ~ended  # the others were resets
        fields = [x[valid].float() for x in (obs, action, next_obs, reward, discount)]
        replay.add(*fields)
        steps, obs, ended = len(fields[0]), next_obs, terminated | truncated
        if replay.count >= INITIAL_STEPS:
            due += ratio * steps


def main():
    parser = make_parser(__doc__, ("inprocess", "workers", "vector", "envpool"))
    parser.set_defaults(workload="sac_halfcheetah")
    flags = parser.parse_args()
    setup = SETUPS[flags.workload]
    env = make_vector(flags.vector, setup.env, setup.batch_envs)
    torch.set_num_threads(flags.threads)
    sizes = env.observation_space.shape[0], env.action_space.shape[0]
    meter = Meter(flags.seconds)
    run(env, Learner(*sizes, setup.hidden), Replay(*sizes), REPLAY_RATIOS[flags.workload], meter.count)
    meter.report(variant=f"{flags.vector}, {flags.threads} threads")


if __name__ == "__main__":
    main()
