# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes PettingZoo's games usable as Gymnasium environments, so that worker processes can run them.

`alf.environments.MultiAgentEnvironment` then makes one row of a batch for each agent.
"""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from alf.errors import ConfigError
from alf.workers.arrays import (
    FIRST,
    LAST,
    MID,
    MisfitError,
    check_space,
    children,
    describe,
    fit,
    without_bools,
)
from alf.workers.env_calls import reset_env, step_env
from alf.workers.info import make_info_reader
from alf.workers.masks import ACTION_MASK, count_choices, draw_allowed
from alf.workers.py_environment import Adapter

IS_TURN = "is_turn"  # an entry that ALF adds: whether the agent acts now
_FLOAT = np.dtype(np.float32)


def make_game(make, max_episode_steps=None, info_keys=()):
    """Makes a `Game` from an environment of PettingZoo.

    Args:
        make: callable without arguments -> `ParallelEnv` or `AECEnv`.
        max_episode_steps, info_keys: passed to `Game`.

    Raises:
        ConfigError: if `make` returns something else.
    """
    import pettingzoo  # here, because only games need this extra

    env = make()
    if isinstance(env, pettingzoo.ParallelEnv):
        return Game(_Parallel(env), max_episode_steps, info_keys)
    if isinstance(env, pettingzoo.AECEnv):
        return Game(_Turns(env), max_episode_steps, info_keys)
    raise ConfigError(
        f"load_pettingzoo.name makes {describe(env)}: it must make a ParallelEnv or an AECEnv of PettingZoo"
    )


class Seen(NamedTuple):
    """The outcome of a reset or a step for one agent that is in the game."""

    observation: Any
    info: dict
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class Game(Adapter):
    """A game of A agents as one Gymnasium environment.

    The observation is a dict: "agents", a dict from name to observation in the order of `possible_agents`;
    "step_type", int32 [A]; "discount", float32 [A]; with `info_keys` also "info", float32 [A, K]. The action
    is a dict by name. The reward is float32 [A]. The time steps of each agent follow the conventions of
    `alf.data_structures`. An agent that is not in the game, because it has ended or has not entered yet, has
    FIRST steps with a blank observation: zeros, or the nearest numbers in its space. One that comes back
    after its end begins an episode of its own. The game terminates when no agent is in it.

    Args:
        table: `_Parallel` or `_Turns`, which holds the environment.
        max_episode_steps: int, steps after which agents that are still in the game are truncated; None for no
            limit.
        info_keys: tuple of the K keys that are read from each agent's info.

    Raises:
        ConfigError: if the agents or their spaces are not supported.
        MisfitError: from `reset` and `step`, if a result breaks PettingZoo's interface.
    """

    def __init__(self, table, max_episode_steps=None, info_keys=()):
        self._table, self._env, self.metadata = table, table.env, getattr(table.env, "metadata", {})
        self._names = _name_agents(table.env)
        self._max_steps, self._num_steps = max_episode_steps, 0
        self._num_keys, self._read_info = len(info_keys), make_info_reader(info_keys)
        self._living = []
        observed = {name: table.observation_space(agent) for agent, name in self._names.items()}
        agents = _AgentSpaces([(name, without_bools(space)) for name, space in observed.items()])
        check_space(agents, "the observation space")
        self._blank = {name: _make_blank(space) for name, space in agents.items()}
        self.action_space = table.make_action_space(self._names)
        size = len(self._names)
        self.reward_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        parts = {
            "agents": agents,
            "step_type": spaces.Box(FIRST, LAST, (size,), np.int32),
            "discount": spaces.Box(0.0, 1.0, (size,), np.float32),
        }
        if info_keys:
            parts["info"] = spaces.Box(-np.inf, np.inf, (size, self._num_keys), np.float32)
        self.observation_space = spaces.Dict(parts)

    def reset(self, *, seed=None, options=None):
        self._num_steps, self._living = 0, []
        observation, _ = self._show(self._table.reset(seed))
        if not self._living:
            raise MisfitError("reset() began a game without agents")
        return observation, {}

    def step(self, action):
        self._num_steps += 1
        # The policy acts for all agents, but only living ones may have an action in PettingZoo.
        actions = {agent: action[self._names[agent]] for agent in self._living}
        for agent, x in self._table.choose(actions).items():
            space = self.action_space[self._names[agent]]
            if not space.contains(x):
                raise MisfitError(f"the action of agent {agent!r} is {describe(x)}, its space is {space}")
        observation, reward = self._show(self._table.step(actions))
        return observation, reward, not self._living, False, {}

    def render(self):
        return self._table.env.render()

    def close(self):
        self._table.env.close()

    def _show(self, seen):
        """Makes the observation and the reward from `seen`, a dict from the agents in the game to `Seen`."""
        size, agents, living = len(self._names), {}, []
        step_type, reward = np.full(size, FIRST, np.int32), np.zeros(size, np.float32)
        discount, info = np.ones(size, np.float32), np.full((size, self._num_keys), np.nan, np.float32)
        is_late = self._num_steps == self._max_steps  # a time limit truncates all agents at once
        for i, (agent, name) in enumerate(self._names.items()):
            if agent not in seen:
                agents[name] = self._blank[name]
                continue
            x = seen[agent]
            agents[name], info[i] = x.observation, self._read_info(x.info)
            ends = x.terminated or x.truncated or is_late
            if agent in self._living:  # otherwise it has just entered: this is its FIRST step
                step_type[i] = LAST if ends else MID
                reward[i] = fit(x.reward, (), _FLOAT, f"the reward of agent {agent!r}")
                # A truncated agent keeps its discount, so that the value of its last observation counts.
                discount[i] = 0.0 if x.terminated else 1.0
            if not ends:
                living.append(agent)
        # Only now: above, the agents of the step before tell MID from FIRST.
        self._living = living
        observation = {"agents": agents, "step_type": step_type, "discount": discount}
        return {**observation, "info": info} if self._num_keys else observation, reward


class _Parallel:
    """Plays a `ParallelEnv`, in which all agents act at the same time."""

    def __init__(self, env):
        self.env, self._ended = env, set()

    def observation_space(self, agent):
        return self.env.observation_space(agent)

    def make_action_space(self, names):
        """Makes the Dict of all agents' action spaces. `names` is a dict from the agents to their keys."""
        return spaces.Dict([(name, self.env.action_space(agent)) for agent, name in names.items()])

    def reset(self, seed):
        """Begins a game. Returns a dict from the agents in it to `Seen`."""
        self._ended = set()  # before the environment begins: all agents may enter the new game
        result = reset_env(self.env, seed)
        return {agent: _see(agent, *result) for agent in self.env.agents}

    def choose(self, actions):
        """Returns the part of `actions`, a dict by agent, that the next step uses."""
        return actions

    def step(self, actions):
        """Plays a step. Returns a dict to `Seen` from the agents that were in the game or enter it."""
        observations, *outcomes, infos = step_env(self.env, actions)
        seen = {}
        for agent in actions:
            reward, terminated, truncated = (
                _get(agent, x, name) for x, name in zip(outcomes, ("reward", "termination", "truncation"))
            )
            seen[agent] = _see(agent, observations, infos, reward, bool(terminated), bool(truncated))
            if terminated or truncated:
                self._ended.add(agent)
            elif agent not in self.env.agents:
                raise _left(agent)
        # Some environments keep ended agents in their list `agents`; these do not enter again. An agent that
        # has left the list may come back. Without that nobody can tell an agent that is back from one that
        # has ended and shows it only once.
        self._ended &= set(self.env.agents)
        for agent in self._ended - seen.keys():
            if all(agent in flags and not flags[agent] for flags in outcomes[1:]):
                raise _stayed(agent)
        entered = [x for x in self.env.agents if x not in seen and x not in self._ended]
        return {**seen, **{agent: _see(agent, observations, infos) for agent in entered}}


class _Turns:
    """Plays an `AECEnv`: one agent acts in each step and the others wait. It has the methods of `_Parallel`.

    Each agent's observation has an "action_mask". While an agent waits, its mask allows only the first
    action, which then has probability 1: the policy gets no gradient, but the value is learned. Because a
    position may be worth much to the agent whose turn it is and little to the other, observations also have
    "is_turn", float32 [1], 1 or 0.
    """

    def __init__(self, env):
        self.env, self._ended = env, set()  # those that have ended, but are not removed yet
        self._waiting = {}  # from agent to its mask while it waits
        self._has_mask = {}  # from agent to a bool: whether the environment's observation has a mask

    def observation_space(self, agent):
        space, own = self.env.observation_space(agent), self.env.action_space(agent)
        if not isinstance(own, (spaces.Discrete, spaces.MultiDiscrete)):
            raise ConfigError(
                f"load_pettingzoo.name: agents that wait for their turn need an action mask, and agent "
                f"{agent!r} has the action space {own}: use the game's parallel interface (parallel_env)"
            )
        sizes = count_choices(own)
        self._has_mask[agent] = isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
        if not self._has_mask[agent]:
            mask_space = spaces.Box(0, 1, (sum(sizes),), np.int8)
            space = spaces.Dict({"observation": space, ACTION_MASK: mask_space})
        elif space[ACTION_MASK].shape != (sum(sizes),):
            raise ConfigError(
                f"load_pettingzoo.name: the action_mask of agent {agent!r} is a {space[ACTION_MASK]}: the "
                f"action space {own} needs the shape {(sum(sizes),)}"
            )
        # The mask while the agent waits allows the first choice of each integer.
        self._waiting[agent] = np.zeros(sum(sizes), space[ACTION_MASK].dtype)
        self._waiting[agent][np.cumsum([0, *sizes[:-1]])] = 1
        return spaces.Dict({**space.spaces, IS_TURN: spaces.Box(0.0, 1.0, (1,), np.float32)})

    def make_action_space(self, names):
        self._names = names
        # Kept, because `_look` tells it which actions are legal now: random first steps are drawn from it.
        self._legal = _LegalActions([(name, self.env.action_space(agent)) for agent, name in names.items()])
        return self._legal

    def reset(self, seed):
        self._ended = set()
        self.env.reset() if seed is None else self.env.reset(seed=seed)
        return self._look_at_all()

    def choose(self, actions):
        agent = self.env.agent_selection
        if agent not in actions:
            raise MisfitError(f"it is the turn of agent {agent!r}, which is not in the game")
        return {agent: actions[agent]}

    def step(self, actions):
        env = self.env
        env.step(actions[env.agent_selection])
        rewards = dict(env.rewards)  # a copy: the steps of ended agents below clear the rewards
        ends = self._find_ends()
        ended = {
            agent: self._look(agent)._replace(terminated=a, truncated=b) for agent, (a, b) in ends.items()
        }
        self._ended = set(ends)
        self._remove_ended()
        self._ended = set(self._find_ends())
        # Observed only now that it is known whose turn it is. An agent that has ended, but is not removed
        # until others have acted, may still get a reward, so it stays in the game until then.
        seen = {**ended, **self._look_at_all()}
        for agent in actions:
            if agent not in seen:
                raise _left(agent)
        return {agent: x._replace(reward=rewards.get(agent, 0.0)) for agent, x in seen.items()}

    def _find_ends(self):
        """Returns a dict from the ended agents that are not removed to (terminated, truncated)."""
        env = self.env
        ends = {x: (bool(env.terminations[x]), bool(env.truncations[x])) for x in env.agents}
        for agent in ends:
            if agent in self._ended and not any(ends[agent]):
                raise _stayed(agent)
        return {agent: flags for agent, flags in ends.items() if any(flags)}

    def _remove_ended(self):
        """Steps ended agents with None, as PettingZoo demands, until a living agent has its turn."""
        env = self.env
        while (agent := env.agent_selection) in env.agents:
            if not (env.terminations[agent] or env.truncations[agent]):
                break
            env.step(None)
            if agent in env.agents:
                # Otherwise this loop would never end, and the worker would be killed without a reason.
                raise MisfitError(f"agent {agent!r} has ended, but its step with None does not remove it")

    def _look_at_all(self):
        seen = {agent: self._look(agent) for agent in self.env.agents}
        agent = self.env.agent_selection
        mask = np.asarray(seen[agent].observation[ACTION_MASK]) if agent in seen else self._waiting[agent]
        if mask.shape == self._waiting[agent].shape:  # else its writer raises
            begins = np.flatnonzero(self._waiting[agent])
            if not np.logical_or.reduceat(mask != 0, begins).all():
                raise MisfitError(f"it is the turn of agent {agent!r}, whose action_mask allows no action")
        return seen

    def _look(self, agent):
        """Returns the `Seen` of an agent, without reward and ends."""
        observation, info = self.env.observe(agent), self.env.infos[agent]
        if not self._has_mask[agent]:
            allowed = np.ones_like(self._waiting[agent])
            observation = {"observation": observation, ACTION_MASK: info.get(ACTION_MASK, allowed)}
        is_turn = agent == self.env.agent_selection
        observation = {**observation, IS_TURN: np.array([is_turn], np.float32)}
        if not is_turn:
            observation[ACTION_MASK] = self._waiting[agent]
        self._legal.masks[self._names[agent]] = observation[ACTION_MASK]
        return Seen(observation, info)


class _AgentSpaces(spaces.Dict):
    """A Dict by agent whose order matters in comparisons, because it is the order of the arrays [A]."""

    def __eq__(self, other):
        return super().__eq__(other) and list(self) == list(other)


class _LegalActions(spaces.Dict):
    """A Dict of Discrete and MultiDiscrete by agent, which samples actions that `masks`, a dict, allow."""

    def __init__(self, parts):
        super().__init__(parts)
        self.masks = {name: np.zeros(sum(count_choices(space))) for name, space in self.spaces.items()}

    def sample(self, mask=None, probability=None):
        return {x: draw_allowed(space, self.masks[x], self.np_random) for x, space in self.spaces.items()}


def _name_agents(env):
    """Returns a dict from an environment's possible agents to their names."""
    agents = getattr(env, "possible_agents", None)
    names = {agent: str(agent) for agent in agents or ()}
    if not names or len(set(names.values())) < len(agents):
        raise ConfigError(
            f"load_pettingzoo.name: possible_agents of {env} is {agents!r}: it must name all agents that a "
            "game may have, each of them once"
        )
    return names


def _make_blank(space):
    """Makes an observation of zeros, or of the nearest numbers in its space."""
    parts = children(space)
    if parts is not None:
        blank = {key: _make_blank(part) for key, part in parts}
        return blank if isinstance(space, spaces.Dict) else tuple(blank.values())
    low, high = 0, 0
    if isinstance(space, spaces.Box):
        low, high = space.low, space.high
    elif isinstance(space, spaces.Discrete):
        low, high = space.start, space.start + space.n - 1
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    return np.clip(np.zeros(space.shape, space.dtype), low, high).astype(space.dtype)


def _left(agent):
    return MisfitError(f"agent {agent!r} has left the game without termination or truncation")


def _stayed(agent):
    return MisfitError(
        f"agent {agent!r} goes on after its end: remove it from the list agents in the step of its end; it "
        "may come back in a later one"
    )


def _see(agent, observations, infos, *outcome):
    return Seen(_get(agent, observations, "observation"), infos.get(agent, {}), *outcome)


def _get(agent, values, name):
    """Returns an agent's value from a dict by agent, or raises MisfitError if there is none."""
    try:
        return values[agent]
    except (LookupError, TypeError):
        raise MisfitError(
            f"agent {agent!r} is in the game, but has no {name} in {describe(values)}"
        ) from None
