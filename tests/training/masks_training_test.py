# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs in environments with action masks: no algorithm takes a forbidden action."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import alf
from tests.training.train_test import SMALL

REPLAY = {"num_envs": 2, "num_groups": 1, "initial_collect_steps": 16, "mini_batch_size": 8, "seed": 0}


class Doors(gymnasium.Env):
    """Some of four doors are open at each step. Whoever takes a closed one gets an exception."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-1.0, 1.0, (2,), np.float32), "doors": spaces.MultiBinary(4)}
    )
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._length = 0
        return self._observe(), {}

    def step(self, action):
        if not self._open[action]:
            raise RuntimeError(f"door {action} is closed: {self._open}")
        self._length += 1
        is_over = self._length == 5
        return self._observe(is_over), float(action), is_over, False, {}

    def _observe(self, is_over=False):
        self._open = np.zeros(4, np.int8)
        # As many environments do, it forbids everything at the end.
        if not is_over:
            self._open[self.np_random.choice(4, 2, replace=False)] = 1
        return {"place": self.np_random.uniform(-1, 1, 2).astype(np.float32), "doors": self._open.copy()}


@pytest.mark.parametrize("algorithm", ["ppo", "impala", "dqn", "sac"])
def test_a_run_takes_no_forbidden_action(tmp_path, algorithm):
    settings = {"ppo": SMALL, "impala": {"num_envs": 2, "num_groups": 1, "seed": 0}}.get(algorithm, REPLAY)
    agent, run = alf.train(
        Doors, algorithm, 200, tmp_path / "run", action_mask_key="doors", num_workers=0, **settings
    )
    assert run.counters["env_steps"] >= 200 and int(agent.policy.progress.updates) > 0
    for door in range(4):
        observation = {"place": np.zeros(2, np.float32), "doors": np.eye(4, dtype=np.int8)[door]}
        assert agent.predict(observation)[0] == agent.predict(observation, deterministic=False)[0] == door
