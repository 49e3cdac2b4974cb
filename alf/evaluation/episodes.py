# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluation: what an agent reaches in exactly N episodes."""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from alf.config.kinds import PositiveInt
from alf.config.settings import checked
from alf.core.annotations import Environment
from alf.core.nest_utils import find_mismatch, to_tensor_spec
from alf.core.statistics import bootstrap_interval
from alf.data_structures import FIRST, LAST, OWNER
from alf.drivers.env_specs import get_info_keys
from alf.errors import ConfigError
from alf.games.mapping import get_agents

_NUM_RESAMPLES = 10_000


class Episodes(NamedTuple):
    """Whole episodes, ordered by sub-environment, then by time: arrays [N]."""

    returns: Any  # float64; undiscounted sums of rewards, of all components of a vector reward
    lengths: Any  # int64; steps
    # dict of float64 [N] by the names of docs/metrics.md, "info/KEY" and "info_last/KEY" for each of the
    # environment's `info_keys`; NaN where an episode has no value.
    info: Any
    components: Any  # dict of float64 [N], "return_0" and so on for those of a vector reward
    # dict of bool [N] by label: "agents/NAME", whose episodes they are in games of several agents, and
    # "policies/NAME", which of several policies acted.
    labels: Any
    # float64 [N], 1 where the return is above those of all other agents of the game; () for one agent
    wins: Any


@checked
def evaluate(
    agent: Any,
    env: Environment,
    num_episodes: PositiveInt,
    deterministic: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[], Any] = lambda: None,
) -> Episodes:
    """Lets an agent act until each sub-environment has ended its share of the episodes.

    Sub-environment i of B contributes its first N // B episodes, one more if i < N % B. So short episodes are
    not preferred, as they would be among the first N that end. An episode that a worker's restart breaks off
    does not count. In games of several agents N counts games, and each agent has an episode in each.

    Args:
        agent: `Agent`.
        env: batched environment of the agent's specs; it is reset first.
        num_episodes: N, int.
        deterministic: as in `Agent.predict`.
        should_stop: callable () -> bool, asked before every step.
        on_step: callable (), called after the reset and after every step.

    Returns:
        the `Episodes`; only those that have ended, if `should_stop` returned True.

    Raises:
        ConfigError: if the environment has other specs than the agent.
    """
    _check_specs(agent, env)
    batch_size = env.batch_size
    games = _Games(env, num_episodes)
    # From (game, its number) to (row, owner, sums of each reward, length, info) of each episode that ended.
    ended = collections.defaultdict(list)
    reward_shape = tuple(env.reward_spec().shape)
    num_rewards = int(np.prod(reward_shape))
    sums, lengths = np.zeros([batch_size, num_rewards]), np.zeros([batch_size], np.int64)
    info = _InfoFigures(env)
    time_step, state = env.reset(), None
    on_step()
    while games.are_missing() and not should_stop():
        action, state = agent.act(*time_step, state, deterministic)
        time_step = env.step(action)
        on_step()
        is_first = time_step.step_type == FIRST
        reward = np.asarray(time_step.reward, np.float64).reshape(batch_size, num_rewards)
        sums = np.where(is_first[:, np.newaxis], 0.0, sums + reward)
        lengths = np.where(is_first, 0, lengths + 1)
        info.add(is_first)
        owner = time_step.observation[OWNER] if games.policies else np.zeros(batch_size, int)
        for place in games.find_broken_off():
            ended.pop(place, None)
        for row, place in games.find_ended(time_step.step_type):
            ended[place].append((row, owner[row], sums[row], lengths[row], info.of(row)))
        games.advance(time_step.step_type)
    episodes = [(place, *episode) for place in sorted(ended) for episode in ended[place]]
    columns: Any = map(list, zip(*episodes)) if episodes else ([],) * 6
    places, rows, owner, sums, lengths, figures = columns
    figures = np.array(figures, np.float64).reshape(len(rows), len(info.names))
    sums = np.array(sums).reshape(len(rows), num_rewards)
    num_components = num_rewards if reward_shape else 0
    returns = sums.sum(axis=1)
    return Episodes(
        returns=returns,
        lengths=np.array(lengths, np.int64),
        info=dict(zip(info.names, figures.T, strict=True)),
        components={f"return_{i}": sums[:, i] for i in range(num_components)},
        labels=games.label(np.array(rows, int), np.array(owner, int)),
        wins=_find_wins(places, returns) if len(games.agents) > 1 else (),
    )


class _Games:
    """Counts the games of each sub-environment that are over; one of one agent is over when it ends.

    Args:
        env: batched environment.
        num_games: int, of all sub-environments together.

    Attributes:
        agents, policies: tuples of texts; () without several.
    """

    def __init__(self, env, num_games):
        self._env = env
        self.agents, self.policies = get_agents(env), tuple(getattr(env, "policies", ()))
        self._num_agents = max(1, len(self.agents))
        count = env.batch_size // self._num_agents
        self._share = np.full(count, num_games // count)
        self._share[: num_games % count] += 1
        self._over = np.zeros(count, np.int64)

    def are_missing(self):
        return bool((self._over < self._share).any())

    def find_ended(self, step_type):
        """The rows whose episodes end with a step, and count; each with its game and the game's number."""
        rows = np.flatnonzero(step_type == LAST)
        places = [(row // self._num_agents, int(self._over[row // self._num_agents])) for row in rows]
        return [(row, place) for row, place in zip(rows, places) if place[1] < self._share[place[0]]]

    def find_broken_off(self):
        """Games that begin: what there is of the same number was broken off by a worker's restart."""
        begins = self._env.game_begins if self._num_agents > 1 else ()
        return [(game, int(self._over[game])) for game in np.flatnonzero(begins)]

    def advance(self, step_type):
        """Counts the games that are over after a step."""
        # Others go on in a game without an agent whose episode has ended.
        self._over += self._env.game_ends if self._num_agents > 1 else step_type == LAST

    def label(self, rows, owner):
        """The labels of episodes: see `Episodes`."""
        agents = self.agents if self._num_agents > 1 else ()
        labels = {f"agents/{name}": rows % self._num_agents == i for i, name in enumerate(agents)}
        return labels | {f"policies/{name}": owner == i for i, name in enumerate(self.policies)}


def _find_wins(places, returns):
    """Whether each return is above all others of the same game, float64 [N]."""
    of_game = collections.defaultdict(list)
    for place, value in zip(places, returns, strict=True):
        of_game[place].append(value)
    # The largest one is there once.
    wins = [value == max(of_game[p]) and of_game[p].count(value) == 1 for p, value in zip(places, returns)]
    return np.array(wins, np.float64)


class _InfoFigures:
    """Mean and last value of an environment's info in the unfinished episode of each sub-environment."""

    def __init__(self, env):
        self._env, self._keys = env, get_info_keys(env)
        self.names = [f"{kind}/{key}" for kind in ("info", "info_last") for key in self._keys]
        self._totals = self._counts = np.zeros([len(self._keys), env.batch_size])
        self._last = self._totals

    def add(self, is_first):
        """Adds the info of the environment's last step; episodes begin where `is_first`, bool [B], holds."""
        if self._keys:
            info = self._env.get_info()
            self._last = np.array([info[key] for key in self._keys], np.float64)
            has_value = ~np.isnan(self._last)
            self._totals = np.where(is_first, 0.0, self._totals + np.where(has_value, self._last, 0.0))
            self._counts = np.where(is_first, 0, self._counts + has_value)

    def of(self, i):
        """The figures of sub-environment `i`, floats in the order of `names`."""
        means = [t / n if n else np.nan for t, n in zip(self._totals[:, i], self._counts[:, i])]
        return [*means, *self._last[:, i]]


def _check_specs(agent, env):
    specs = {"observation": (env.observation_spec(), agent.observation_spec)}
    specs["action"] = env.action_spec(), agent.action_spec
    for name, (ours, theirs) in specs.items():
        mismatch = find_mismatch(to_tensor_spec(ours), theirs)
        if mismatch:
            raise ConfigError(
                f"the environment is not one that the agent was trained for: {name}: {mismatch}"
            )


def summarize_episodes(episodes):
    """Describes `Episodes`: a dict of what `summarize` returns.

    The names are "return", "length", and those of components and info; in games of several agents
    "agents/NAME/return" and "agents/NAME/win", the share of games that it has won; with several policies
    "policies/NAME/return" and "policies/NAME/win".

    Episodes without a value of an info do not count; an info that no episode has is left out.
    """
    info = {name: values[~np.isnan(values)] for name, values in episodes.info.items()}
    figures = {"return": episodes.returns, "length": episodes.lengths, **episodes.components, **info}
    for label, is_of in episodes.labels.items():
        if is_of.any():
            figures[f"{label}/return"] = episodes.returns[is_of]
            if len(episodes.wins):
                figures[f"{label}/win"] = episodes.wins[is_of]
    return {name: summarize(values) for name, values in figures.items() if len(values) or name not in info}


def summarize(values):
    """Describes numbers, an array [N]: a dict of floats.

    `mean`, `median`, `std` (of the sample, 0 for one number), `min`, `max`, and `low` and `high`, the ends of
    the 95 % interval of the mean by bootstrap percentiles (Efron 1979). All are NaN without any number.
    """
    values = np.asarray(values, np.float64)
    if not len(values):
        return dict.fromkeys(("mean", "median", "std", "min", "max", "low", "high"), float("nan"))
    low, high = bootstrap_interval(values, _NUM_RESAMPLES)
    figures = dict(mean=values.mean(), median=np.median(values), min=values.min(), max=values.max())
    std = values.std(ddof=1) if len(values) > 1 else 0.0
    return {name: float(x) for name, x in {**figures, "std": std, "low": low, "high": high}.items()}
