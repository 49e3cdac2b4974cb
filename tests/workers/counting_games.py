# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Games of several agents that count, for tests. Nothing here imports TensorFlow.

Each agent observes numbers, float64 [5]: the process id, the seed, the game, the step of the game, and what
its own last action was (-1 before the first one). A reward is 100 * (index of the agent) + step + 0.5.
"""

import os
import sys

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

PID, SEED, GAME, STEP, ACTION = range(5)  # of the numbers
NUMBERS = spaces.Box(-np.inf, np.inf, (5,), np.float64)


def reward_of(index, step):
    return 100 * index + step + 0.5


class _Counting:
    """What both kinds of games count."""

    def _begin(self, seed):
        self._seed = self._seed if seed is None else seed
        self._game += 1
        self._step, self._last = 0, dict.fromkeys(self.possible_agents, -1.0)

    def _numbers(self, agent):
        return np.array([os.getpid(), self._seed, self._game, self._step, self._last[agent]], np.float64)

    def action_space(self, agent):
        return self.action_spaces[agent]

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def render(self):
        return np.full((2, 3, 3), self._step, np.uint8) if self.render_mode == "rgb_array" else None

    def close(self):
        pass


class ParallelGame(_Counting, ParallelEnv):
    """Agents that enter and end at different steps; those of even games live one step longer.

    The infos have "code", 1000 * index + step, in even steps "deep/even", the step, and "tensorflow", whether
    the process has imported it.

    Args:
        same: whether all agents have the same spaces.
        at, act: `act()` is called in step `at`, counted from 1 over all games.
        render_mode: as of Gymnasium.
    """

    possible_agents = ["short", "long", "late", "twin"]
    # The step in which each enters, the one in which it ends in odd games, and whether by termination.
    LIVES = {"short": (0, 2, True), "long": (0, 6, False), "late": (3, 5, True), "twin": (1, 6, True)}
    metadata = {"render_fps": 7}

    def __init__(self, same=False, at=None, act=None, render_mode=None):
        few, many = spaces.Discrete(5), spaces.Discrete(7)
        deep = spaces.Dict({"x": NUMBERS, "k": spaces.Discrete(3, start=2)})
        self.observation_spaces = dict.fromkeys(self.possible_agents, NUMBERS)
        self.action_spaces = dict.fromkeys(self.possible_agents, few)
        if not same:
            self.observation_spaces["long"], self.action_spaces["twin"] = deep, many
            self.action_spaces["long"] = spaces.Box(-1, 1, (2,), np.float32)
        self.render_mode = render_mode
        self._seed, self._game, self._steps, self._at, self._act = -1, 0, 0, at, act

    def end_of(self, agent):
        return self.LIVES[agent][1] + (self._game % 2 == 0)

    def reset(self, seed=None, options=None):
        self._begin(seed)
        self.agents = self._enter(0)
        return {x: self._observe(x) for x in self.agents}, {}

    def step(self, actions):
        assert list(actions) == self.agents, (actions, self.agents)
        self._step += 1
        self._steps += 1
        if self._steps == self._at:
            self._act()
        for agent, action in actions.items():
            assert self.action_spaces[agent].contains(action), (agent, action)
            self._last[agent] = float(np.ravel(action)[0])
        entered = self._enter(self._step)
        seen = [*self.agents, *entered]
        index = self.possible_agents.index
        ended = {x for x in self.agents if self._step == self.end_of(x)}
        has_tensorflow = "tensorflow" in sys.modules
        infos = {x: {"code": 1000 * index(x) + self._step, "tensorflow": has_tensorflow} for x in seen}
        if self._step % 2 == 0:
            infos = {x: {**info, "deep": {"even": self._step}} for x, info in infos.items()}
        observations = {x: self._observe(x) for x in seen}
        rewards = {x: reward_of(index(x), self._step) for x in seen}  # also for those that enter
        terminated = {x: x in ended and self.LIVES[x][2] for x in seen}
        truncated = {x: x in ended and not self.LIVES[x][2] for x in seen}
        self.agents = [x for x in self.possible_agents if x in seen and x not in ended]
        return observations, rewards, terminated, truncated, infos

    def _enter(self, step):
        return [x for x in self.possible_agents if self.LIVES[x][0] == step]

    def _observe(self, agent):
        is_deep = self.observation_spaces[agent] is not NUMBERS
        return {"x": self._numbers(agent), "k": 2 + self._step % 3} if is_deep else self._numbers(agent)


class TurnGame(_Counting, AECEnv):
    """Agents take turns. "third" enters after ply 2, "second" ends in ply 4, the others in ply 9, or 10.

    Args:
        masks: where the masks are: "observation", "info", or "" for nowhere.
        late: "second" ends a ply earlier, and is removed when it would be its turn: after ply 4, too.
        render_mode: as of Gymnasium.
    """

    possible_agents = ["first", "second", "third"]
    metadata = {"render_fps": 2}
    TURNS = ["first", "second", "third", "first", "third", "first", "third", "first", "third", "first"]
    SIZES = {"first": 4, "second": 5, "third": 4}  # of the masks

    def __init__(self, masks="observation", late=False, render_mode=None):
        self._masks, self._late, self.render_mode = masks, late, render_mode
        some = spaces.Discrete(4)
        self.action_spaces = {"first": some, "second": spaces.MultiDiscrete([2, 3]), "third": some}
        self.observation_spaces = {x: self._make_space(size) for x, size in self.SIZES.items()}
        self._seed, self._game = -1, 0

    def _make_space(self, size):
        if self._masks != "observation":
            return NUMBERS
        return spaces.Dict({"observation": NUMBERS, "action_mask": spaces.MultiBinary(size)})

    @classmethod
    def mask_of(cls, agent, ply):
        """What an agent may do after a ply: all, but the first action in every third ply alone."""
        mask = np.ones(cls.SIZES[agent], np.int8)
        mask[0] = ply % 3 == 0
        return mask

    def reset(self, seed=None, options=None):
        self._begin(seed)
        self.agents, self._skip_agent_selection = [], None
        self.rewards, self._cumulative_rewards, self.infos = {}, {}, {}
        self.terminations, self.truncations = {}, {}
        self._add("first")
        self._add("second")
        self.agent_selection = "first"

    def _add(self, agent):
        self.agents.append(agent)
        self.rewards[agent] = self._cumulative_rewards[agent] = 0.0
        self.terminations[agent] = self.truncations[agent] = False
        self.infos[agent] = {}

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            if self._late and self.agents:
                self.agent_selection = self._next(agent)
            return
        assert self.action_spaces[agent].contains(action), (agent, action)
        self._step += 1
        self._last[agent] = float(np.ravel(action)[-1])
        self.rewards = {x: reward_of(self.possible_agents.index(x), self._step) for x in self.agents}
        self._accumulate_rewards()
        if self._step == 2:
            self._add("third")
        if self._step == 4 - self._late:
            self.terminations["second"] = True
        if self._step == 9 + (self._game % 2 == 0):
            self.truncations["first"] = self.terminations["third"] = True
        self.agent_selection = self._next(agent)
        if not self._late:
            self._deads_step_first()

    def _next(self, agent):
        """Whose turn it is after an agent: dead ones have one, too, if they are removed late."""
        order, start = self.possible_agents, self.possible_agents.index(agent) + 1
        ended = {} if self._late else {x for x in self.agents if self.terminations[x] or self.truncations[x]}
        turns = [x for x in order[start:] + order[:start] if x in self.agents]
        return next((x for x in turns if x not in ended), turns[0])

    def observe(self, agent):
        mask = self.mask_of(agent, self._step)
        if self._masks == "info":
            self.infos[agent] = {"action_mask": mask}
        numbers = self._numbers(agent)
        return {"observation": numbers, "action_mask": mask} if self._masks == "observation" else numbers


def make_list():
    return [1, 2]
