# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PPO in one file of PyTorch, for speed on few cores.

`python benchmarks/peers/torch_ppo.py --workload=pong` measures steps per second. With --env it trains, for
--steps or until the average return of 100 episodes is at --target_return. Prints one JSON line; of training,
the average return of the last 100 episodes after parts of the steps, with the seconds of training until then,
and whether it was at the target.
"""

import collections
import json
import math

import gymnasium as gym
import numpy as np
import torch
from curve import Curve
from envs import make_vector
from meter import Meter
from networks import make_torso, orthogonal
from setups import SETUPS, make_parser
from torch import nn

SETTINGS = {
    "num_envs": 8,
    "unroll_length": 32,
    "epochs": 1,
    "minibatches": 1,
    "learning_rate": 3e-4,
    "anneals": False,  # the learning rate, to 0 at max_steps
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip": 0.2,
    "entropy": 0.0,
    "max_grad_norm": 0.5,
    "shares_layers": True,  # between policy and value
    "normalizes": False,  # observations and rewards, by what was seen so far
}


class ActorCritic(nn.Module):
    """Logits of a categorical or the mean of a normal distribution, and the value.

    `dtype` is what autocast computes in.
    """

    def __init__(self, observation_space, action_space, hidden, shares_layers=True, dtype="float32"):
        super().__init__()
        self.torso, size = make_torso(observation_space, hidden)
        self.value_torso = None if shares_layers else make_torso(observation_space, hidden)[0]
        self.dtype = getattr(torch, dtype)
        self.is_discrete = isinstance(action_space, gym.spaces.Discrete)
        outputs = int(action_space.n) if self.is_discrete else action_space.shape[0]
        self.head = orthogonal(nn.Linear(size, outputs), 0.01)
        self.value = orthogonal(nn.Linear(size, 1), 1.0)
        self.log_std = nn.Parameter(torch.zeros(0 if self.is_discrete else outputs))

    def forward(self, obs):
        with torch.autocast(obs.device.type, self.dtype, enabled=self.dtype != torch.float32):
            x = self.torso(obs)
            y = x if self.value_torso is None else self.value_torso(obs)
            head, value = self.head(x), self.value(y)
        return head.float(), value.float().squeeze(-1)

    def act(self, obs):
        """Draws actions; returns them with their log probabilities and the values."""
        head, value = self(obs)
        if self.is_discrete:
            action = (head - torch.empty_like(head).exponential_().log_()).argmax(-1)
        else:
            action = head + torch.randn_like(head) * self.log_std.exp()
        return action, self.log_prob(head, action)[0], value

    def log_prob(self, head, action):
        """Returns the log probability of actions and the entropy."""
        if self.is_discrete:
            logits = head.log_softmax(-1)
            chosen = logits.gather(-1, action.unsqueeze(-1)).squeeze(-1)
            return chosen, -(logits.exp() * logits).sum(-1)
        z, constant = (action - head) * (-self.log_std).exp(), 0.5 * math.log(2 * math.pi)
        log_prob = (-0.5 * z * z - self.log_std - constant).sum(-1)
        return log_prob, (self.log_std + constant + 0.5).sum().expand(len(log_prob))


class Moments:
    """Mean and variance of what was seen so far, as `gymnasium.wrappers.NormalizeObservation` has them."""

    def __init__(self):
        self.count, self.mean, self.var = 1e-4, 0.0, 1.0

    def update(self, batch):
        """Adds a batch [B, ...]."""
        size, total = len(batch), self.count + len(batch)
        delta = batch.mean(axis=0) - self.mean
        squares = self.var * self.count + batch.var(axis=0) * size + delta**2 * self.count * size / total
        self.mean, self.var, self.count = self.mean + delta * size / total, squares / total, total


class Unroll:
    """What one vector environment has done, time-major; row T of some is what the next unroll begins with.

    `gamma` normalizes observations and rewards, by the deviation of sums discounted with it; None does not.
    """

    def __init__(self, env, length, device="cpu", gamma=None):
        self.env, self.device, self.gamma = env, device, gamma
        self.moments, self.reward_moments, self.sums = Moments(), Moments(), 0.0
        obs, *_ = env.recv()
        space, B, T = env.action_space, len(obs), length
        self.obs = torch.zeros((T + 1, *obs.shape), dtype=torch.from_numpy(obs[:0]).dtype)
        self.obs = self.obs.float() if self.obs.dtype == torch.float64 else self.obs
        self.is_discrete = isinstance(space, gym.spaces.Discrete)
        self.action = torch.zeros(
            (T, B, *space.shape), dtype=torch.int64 if self.is_discrete else torch.float32
        )
        self.log_prob, self.reward = torch.zeros(T, B), torch.zeros(T, B)
        self.value = torch.zeros(T + 1, B)
        self.terminated = torch.zeros(T, B, dtype=torch.bool)
        self.ended = torch.zeros(T + 1, B, dtype=torch.bool)  # row t: the step before t has ended an episode
        self.returns, self.episodes = np.zeros(B), collections.deque(maxlen=100)
        self.observe(0)

    def begin(self):
        self.obs[0], self.ended[0] = self.obs[-1], self.ended[-1]

    def observe(self, t):
        """Takes what step t - 1 brought."""
        obs, reward, terminated, truncated = self.env.recv()
        if self.gamma is not None:
            self.moments.update(obs)
            obs = ((obs - self.moments.mean) / np.sqrt(self.moments.var + 1e-8)).clip(-10, 10)
        self.obs[t] = torch.from_numpy(obs)
        if t == 0:
            return
        self.returns += reward
        if self.gamma is not None:
            self.sums = self.sums * self.gamma * ~self.ended[t - 1].numpy() + reward
            self.reward_moments.update(self.sums)
            reward = (reward / np.sqrt(self.reward_moments.var + 1e-8)).clip(-10, 10)
        self.reward[t - 1], self.terminated[t - 1] = torch.from_numpy(reward), torch.from_numpy(terminated)
        self.ended[t] = torch.from_numpy(terminated | truncated)
        for i in np.flatnonzero(terminated | truncated):
            self.episodes.append(self.returns[i])
            self.returns[i] = 0.0

    @torch.no_grad()
    def act(self, t, agent):
        """Begins step t."""
        self.action[t], self.log_prob[t], self.value[t] = agent.act(self.obs[t].to(self.device))
        actions, space = self.action[t].numpy(), self.env.action_space
        self.env.send(actions if self.is_discrete else actions.clip(space.low, space.high))

    @torch.no_grad()
    def batch(self, agent, gamma, gae_lambda):
        """Returns the steps that are no resets: observation, action, log prob., advantage, target."""
        self.value[-1] = agent(self.obs[-1].to(self.device))[1]
        advantage, sums = torch.zeros_like(self.reward), torch.zeros_like(self.reward[0])
        bootstrap = self.value[1:] * ~self.terminated
        deltas = self.reward + gamma * bootstrap - self.value[:-1]
        keeps = gamma * gae_lambda * ~self.ended[1:]
        for t in reversed(range(len(deltas))):
            advantage[t] = sums = deltas[t] + keeps[t] * sums
        fields = self.obs[:-1], self.action, self.log_prob, advantage, advantage + self.value[:-1]
        fields, valid = [x.flatten(0, 1).to(self.device) for x in fields], ~self.ended[:-1].flatten()
        return fields if valid.all() else [x[valid.to(self.device)] for x in fields]


def train(agent, optimizer, batch, settings):
    """Makes the updates of one batch; returns how many."""
    rows, count = len(batch[0]), settings["minibatches"]
    for _ in range(settings["epochs"]):
        order = torch.randperm(rows) if count > 1 else torch.arange(rows)
        for chosen in order.chunk(count):
            part = [x[chosen] for x in batch] if count > 1 else batch
            optimizer.zero_grad(set_to_none=True)
            _loss(agent, *part, settings).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), settings["max_grad_norm"], foreach=True)
            optimizer.step()
    return settings["epochs"] * count


def _loss(agent, obs, action, old_log_prob, advantage, target, settings):
    head, value = agent(obs)
    log_prob, entropy = agent.log_prob(head, action)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio, clip = (log_prob - old_log_prob).exp(), settings["clip"]
    gain = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
    return -gain + 0.5 * (value - target).square().mean() - settings["entropy"] * entropy.mean()


def run(unrolls, agent, settings, count, max_steps=None):
    """Trains while `count(steps, updates)` is true, and until `max_steps`; returns the steps."""
    optimizer = torch.optim.Adam(agent.parameters(), settings["learning_rate"], eps=1e-5, foreach=True)
    total, steps, updates = 0, 0, 0
    while count(steps, updates) and (max_steps is None or total < max_steps):
        for t in range(settings["unroll_length"]):
            for unroll in unrolls:
                if t:
                    unroll.observe(t)
                else:
                    unroll.begin()
                unroll.act(t, agent)
        if settings["anneals"]:
            optimizer.param_groups[0]["lr"] = settings["learning_rate"] * max(0.0, 1 - total / max_steps)
        steps, updates = 0, 0
        for unroll in unrolls:
            unroll.observe(settings["unroll_length"])
            batch = unroll.batch(agent, settings["gamma"], settings["gae_lambda"])
            updates += train(agent, optimizer, batch, settings)
            steps += len(batch[0])
        total += steps
    return total


def main():
    parser = make_parser(__doc__, ("inprocess", "workers", "vector", "envpool"))
    parser.add_argument("--groups", type=int, default=1, help="vector environments that step in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="of the network, such as cuda")
    parser.add_argument("--env", help="Gymnasium id, in place of the workload")
    parser.add_argument("--target_return", type=float)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--settings", type=json.loads, default={}, help="in place of SETTINGS, as JSON")
    flags = parser.parse_args()
    setup = SETUPS[flags.workload]
    own = {"num_envs": setup.batch_envs, "unroll_length": setup.unroll_length, "max_grad_norm": 40.0}
    own |= setup.settings
    settings = {**SETTINGS, **({} if flags.env else own), **flags.settings}
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    env, count = flags.env or setup.env, settings["num_envs"]
    seeds = [1000 * flags.seed + i * count for i in range(flags.groups)]
    envs = [make_vector(flags.vector, env, count, flags.groups, seed) for seed in seeds]
    hidden, dtype = ((64, 64), "float32") if flags.env else (setup.hidden, setup.dtype)
    spaces = envs[0].observation_space, envs[0].action_space
    agent = ActorCritic(*spaces, hidden, settings["shares_layers"], dtype).to(flags.device)
    gamma = settings["gamma"] if settings["normalizes"] else None
    unrolls = [Unroll(x, settings["unroll_length"], flags.device, gamma) for x in envs]
    if flags.env is None:
        meter = Meter(flags.seconds)
        run(unrolls, agent, settings, meter.count)
        meter.report(variant=f"{flags.vector}, {flags.groups} groups, {flags.threads} threads")
        return
    curve, episodes, total = Curve(flags.steps, flags.target_return), unrolls[0].episodes, 0

    def count(steps, updates):
        nonlocal total
        total += steps
        curve.advance(total, episodes)
        return not curve.reached

    run(unrolls, agent, settings, count, flags.steps)
    curve.note(total, episodes)
    print(json.dumps({"reached": curve.reached, "curve": curve.points}))


if __name__ == "__main__":
    main()
