# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Double DQN with n-step returns in one file of PyTorch, for speed: `python benchmarks/peers/torch_dqn.py`.

Environments step in C++ threads while the updates of the steps before are made. Replay is uniform and holds
each frame once. Prints one JSON line.
"""

import copy

import numpy as np
import torch
from envs import make_vector
from meter import Meter
from networks import NatureCnn
from setups import BATCH_SIZES, N_STEP, REPLAY_CAPACITY, REPLAY_RATIOS, SETUPS, make_parser
from torch import nn
from torch.nn import functional

INITIAL_STEPS = 1000
RANDOM = np.random.default_rng(0)
GAMMA, LEARNING_RATE, EPSILON, TARGET_PERIOD, STACK = 0.99, 1e-4, 0.05, 2000, 4


class Replay:
    """A ring of frames [T, B, 84, 84] with the action, reward and end of each step."""

    def __init__(self, num_envs, frame_shape):
        self._length, self._num_envs = REPLAY_CAPACITY // num_envs, num_envs
        shape = self._length, num_envs
        self._frame = np.zeros((*shape, *frame_shape), np.uint8)
        self._action, self._reward = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        self._terminated, self._ended = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        self._count = 0

    def add(self, frame, action, reward, terminated, ended):
        """Adds a step: the frame before it, and what came of it."""
        t = self._count % self._length
        self._frame[t], self._action[t], self._reward[t] = frame, action, reward
        self._terminated[t], self._ended[t] = terminated, ended
        self._count += 1

    def sample(self, size):
        """Returns observations, actions, n-step returns, discounts and the observations n steps later."""
        filled = min(self._count, self._length)
        i = RANDOM.integers(STACK, filled - N_STEP, size)
        t = (self._count - filled + i) % self._length
        env = RANDOM.integers(self._num_envs, size=size)
        t -= self._ended[t - 1, env]  # in place of a reset, the step before it
        reward, keeps = np.zeros(size, np.float32), np.ones(size, np.bool_)
        discount = np.full(size, GAMMA**N_STEP, np.float32)
        for k in range(N_STEP):
            at = (t + k) % self._length, env
            reward += GAMMA**k * keeps * self._reward[at]
            discount *= ~(keeps & self._terminated[at])
            keeps &= ~self._ended[at]
        later = (t + N_STEP) % self._length
        arrays = self._stack(t, env), self._action[t, env], reward, discount
        return [torch.from_numpy(x) for x in (*arrays, self._stack(later, env))]

    def _stack(self, t, env):
        """Frames [B, 4, 84, 84] up to t; those of an earlier episode are zeros."""
        times = (t[:, None] + np.arange(1 - STACK, 1)) % self._length
        resets = self._ended[times[:, :-1] - 1, env[:, None]]
        own = ~np.logical_or.accumulate(resets[:, ::-1], 1)[:, ::-1]
        frames = self._frame[times, env[:, None]]
        frames[:, :-1] *= own[:, :, None, None]
        return frames


class Learner:
    """The network, its target and the updates."""

    def __init__(self, num_actions):
        self.network = nn.Sequential(NatureCnn(), nn.Linear(512, num_actions))
        self._target = copy.deepcopy(self.network)
        self._optimizer = torch.optim.Adam(self.network.parameters(), LEARNING_RATE, foreach=True)
        self._count = 0

    def update(self, obs, action, reward, discount, later):
        with torch.no_grad():
            best = self.network(later).argmax(-1, keepdim=True)
            target = reward + discount * self._target(later).gather(-1, best).squeeze(-1)
        value = self.network(obs).gather(-1, action[:, None]).squeeze(-1)
        self._optimizer.zero_grad(set_to_none=True)
        functional.smooth_l1_loss(value, target).backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 10.0, foreach=True)
        self._optimizer.step()
        self._count += 1
        if self._count % TARGET_PERIOD == 0:
            self._target.load_state_dict(self.network.state_dict())


def run(env, learner, replay, ratio, count):
    """Trains with `ratio` updates for each step while `count(steps, updates)` is true."""
    obs, due, total, steps, updates = env.recv()[0].copy(), 0.0, 0, 0, 0
    while count(steps, updates):
        with torch.no_grad():
            action = learner.network(torch.from_numpy(obs)).argmax(-1).numpy()
        explores = RANDOM.random(len(action)) < EPSILON
        action = np.where(explores, RANDOM.integers(env.action_space.n, size=len(action)), action)
        env.send(action)
        updates = 0
        while due >= 1:  # while the environments step
            learner.update(*replay.sample(BATCH_SIZES["dqn"]))
            updates, due = updates + 1, due - 1
        later, reward, terminated, truncated = env.recv()
        replay.add(obs[:, -1], action, reward, terminated, terminated | truncated)
        obs, steps = later.copy(), len(action)
        total += steps
        if total >= INITIAL_STEPS:
            due += ratio * steps


def main():
    parser = make_parser(__doc__, ("vector", "envpool", "inprocess", "workers"))
    parser.set_defaults(workload="dqn_pong")
    flags = parser.parse_args()
    setup = SETUPS[flags.workload]
    torch.set_num_threads(flags.threads)
    env = make_vector(flags.vector, setup.env, setup.batch_envs)
    meter = Meter(flags.seconds)
    learner, replay = Learner(int(env.action_space.n)), Replay(setup.batch_envs, (84, 84))
    run(env, learner, replay, REPLAY_RATIOS[flags.workload], meter.count)
    meter.report(variant=f"{flags.vector}, {flags.threads} threads")


if __name__ == "__main__":
    main()
