# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluates an agent in exactly N episodes."""

import collections
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from alf.adapters import as_environment
from alf.config.kinds import PositiveInt
from alf.config.settings import checked
from alf.core.annotations import Environment
from alf.core.nest_utils import find_mismatch, to_tensor_spec
from alf.core.randomness import bootstrap_interval
from alf.data_structures import FIRST, LAST, OWNER
from alf.drivers.env_specs import get_info_keys
from alf.drivers.mask_check import MaskCheck
from alf.environments import GymnasiumEnvironment, PythonEnvironment, load
from alf.errors import ConfigError, rendered_shortly
from alf.evaluation.episode_steps import EpisodeSteps
from alf.evaluation.open_run import open_run
from alf.games.elo import bound_rounding
from alf.games.mapping import get_agents
from alf.runs.saved_run import load_agent

_NUM_ENVS = 8  # side by side, of a run or of a named environment


class Episodes(NamedTuple):
    """Complete episodes, ordered by sub-environment, then by time: arrays [N]."""

    returns: Any  # float64, undiscounted sums of rewards, over all components of a vector reward
    lengths: Any  # int64, steps
    # dict of float64 [N], "info/KEY" (mean), "info_last/KEY" and "info_sum/KEY" for each of the environment's
    # `info_keys`; NaN where an episode has no value.
    info: Any
    components: Any  # dict of float64 [N], "return_0", "return_1", ... for the components of a vector reward
    # dict of bool [N]: "agents/NAME" marks the episodes of an agent in games of several agents, and
    # "policies/NAME" the episodes in which one of several policies acted.
    labels: Any
    # float64 [N], 1 if the return is above the returns of all other agents in the game; () for one agent
    wins: Any
    # list of N `Experience`s of arrays [L+1, 1, ...], from the FIRST to the LAST step of its episode,
    # as `rollout_episodes` yields them; () without `keep_steps`. `action` is what the environment got, and
    # `env_info` has its `info_keys`; `info`, `policy_version` and `state` are ().
    steps: Any = ()


@checked
@rendered_shortly()
def evaluate(
    agent: Any,
    env: Environment | None = None,
    num_episodes: PositiveInt = 100,
    deterministic: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[], Any] = lambda: None,
    keep_steps: bool = False,
) -> Episodes:
    """Lets an agent act until each sub-environment has ended its share of N episodes.

    Sub-environment i of B contributes its first N // B episodes, and one more if i < N % B. (The first N
    episodes to end would be short ones more often.) An episode that is interrupted by the restart of a worker
    does not count. In games of several agents, N counts games, and each agent has one episode in each game.

    Args:
        agent: `Agent`; or the path of a run, or "alf:TASK", whose newest checkpoint acts.
        env: environment with the agent's specs: a batched one, a `gymnasium.Env` or a
            `gymnasium.vector.VectorEnv`, which is reset first and stays open. Or the `name` of
            `alf.environments.load`, such as "CartPole-v1" or a callable that returns one environment, of
            which up to 8 act side by side. None: those of the run. To get infos of an object, make a batch of
            it by `load(lambda: env, 1, info_keys=("x",))`.
        num_episodes: int, N.
        deterministic: bool, whether the agent acts as well as it can, or explores like in training.
        should_stop: callable () -> bool, called before every step.
        on_step: callable (), called after the reset and after every step.
        keep_steps: bool, whether `Episodes.steps` has the observations, actions, rewards and infos of each
            step. All of them are kept in memory.

    Returns:
        the `Episodes`; only the ones that have ended if `should_stop` returned True.

    Raises:
        ConfigError: if the environment has other specs than the agent, or there is no such run.
    """
    rest = num_episodes, deterministic, should_stop, on_step, keep_steps
    if isinstance(agent, (str, os.PathLike)):
        if env is None:
            with open_run(agent, min(_NUM_ENVS, num_episodes), {}) as (saved_agent, own_env, _):
                return _evaluate(saved_agent, own_env, *rest)
        agent = load_agent(agent)
    if env is None:
        raise ConfigError("evaluate.env is None: name an environment, or a run in place of the agent")
    with _open_env(env, num_episodes) as batched_env:
        return _evaluate(agent, batched_env, *rest)


@contextlib.contextmanager
def _open_env(env: Any, num_episodes: int) -> Iterator[Environment]:
    """Context that gives the batched environment of `evaluate.env`. It closes only what it has made."""
    if isinstance(env, gymnasium.Env):
        yield PythonEnvironment([lambda: env], num_workers=0)
    elif isinstance(env, gymnasium.vector.VectorEnv):
        yield GymnasiumEnvironment(env)
    elif isinstance(env, str) or callable(env):
        with contextlib.closing(load(env, min(_NUM_ENVS, num_episodes))) as made:
            yield made
    else:
        yield as_environment(env)


def _evaluate(agent, env, num_episodes, deterministic, should_stop, on_step, keep_steps):
    """Does the work of `evaluate` with an `Agent` and a batched environment."""
    _check_specs(agent, env)
    batch_size = env.batch_size
    games = _Games(env, num_episodes)
    # From (game, its number) to (row, owner, sums of each reward, length, info, steps) of each episode that
    # ended.
    ended = collections.defaultdict(list)
    reward_shape = tuple(env.reward_spec().shape)
    num_rewards = int(np.prod(reward_shape))
    # float64, because float32 sums of long episodes lose the small rewards. The last column is the error.
    sums, lengths = np.zeros([batch_size, num_rewards + 1]), np.zeros([batch_size], np.int64)
    info = _InfoFigures(env)
    check_masks = MaskCheck(type(env).__name__, env, getattr(agent, "policy", None))
    time_step, state = env.reset(), None
    steps = EpisodeSteps(env) if keep_steps else None
    if steps is not None:
        steps.begin(time_step)
    on_step()
    while games.are_missing() and not should_stop():
        # Sub-environments that have done their share act on until all have: their episodes are not counted.
        check_masks(time_step)
        action, state = agent.act(*time_step, state, deterministic)
        time_step = env.step(action)
        if steps is not None:
            steps.add(time_step, action)
        on_step()
        is_first = time_step.step_type == FIRST
        reward = np.asarray(time_step.reward, np.float64).reshape(batch_size, num_rewards)
        reward = np.column_stack([reward, bound_rounding(reward).sum(axis=1)])
        # The reward of a FIRST step belongs to no transition. A FIRST step after the restart of a worker also
        # drops here what the interrupted episode had collected.
        sums = np.where(is_first[:, np.newaxis], 0.0, sums + reward)
        lengths = np.where(is_first, 0, lengths + 1)
        info.add(is_first)
        owner = time_step.observation[OWNER] if games.policies else np.zeros(batch_size, int)
        for place in games.find_broken_off():
            ended.pop(place, None)
        for row, place in games.find_ended(time_step.step_type):
            kept = steps and steps.cut(row)
            ended[place].append((row, owner[row], sums[row], lengths[row], info.of(row), kept))
        # Last, because `find_ended` counts an episode to the game that this step ends, not to the next one.
        games.advance(time_step.step_type)
    episodes = [(place, *episode) for place in sorted(ended) for episode in ended[place]]
    columns: Any = map(list, zip(*episodes)) if episodes else ([],) * 7
    places, rows, owner, sums, lengths, figures, kept_steps = columns
    figures = np.array(figures, np.float64).reshape(len(rows), len(info.names))
    sums = np.array(sums).reshape(len(rows), num_rewards + 1)
    num_components = num_rewards if reward_shape else 0
    returns = sums[:, :-1].sum(axis=1)
    return Episodes(
        returns=returns,
        lengths=np.array(lengths, np.int64),
        info=dict(zip(info.names, figures.T, strict=True)),
        components={f"return_{i}": sums[:, i] for i in range(num_components)},
        labels=games.label(np.array(rows, int), np.array(owner, int)),
        wins=_find_wins(places, returns, sums[:, -1]) if len(games.agents) > 1 else (),
        steps=kept_steps if keep_steps else (),
    )


class _Games:
    """Counts the games that are over in each sub-environment. With one agent, a game is an episode.

    Args:
        env: batched environment.
        num_games: int, the number of games in all sub-environments together.

    Attributes:
        agents, policies: tuples of names; () if there is only one.
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
        """Lists the rows whose episodes end with this step and count, as (row, (game, number of game))."""
        rows = np.flatnonzero(step_type == LAST)
        places = [(row // self._num_agents, int(self._over[row // self._num_agents])) for row in rows]
        return [(row, place) for row, place in zip(rows, places) if place[1] < self._share[place[0]]]

    def find_broken_off(self):
        """Lists the games that begin, as (game, number).

        If there are already episodes with this number, they are of a game that was interrupted by the restart
        of a worker.
        """
        begins = self._env.game_begins if self._num_agents > 1 else ()
        return [(game, int(self._over[game])) for game in np.flatnonzero(begins)]

    def advance(self, step_type):
        """Counts the games that are over after a step."""
        # The episode of one agent may end before the game does.
        self._over += self._env.game_ends if self._num_agents > 1 else step_type == LAST

    def label(self, rows, owner):
        """Returns `Episodes.labels` of episodes in `rows`, int [N], with the policies `owner`, int [N]."""
        agents = self.agents if self._num_agents > 1 else ()
        labels = {f"agents/{name}": rows % self._num_agents == i for i, name in enumerate(agents)}
        return labels | {f"policies/{name}": owner == i for i, name in enumerate(self.policies)}


def join_episodes(parts):
    """Joins the `Episodes` of parts of a batch, in the order of their sub-environments."""
    return tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *parts)


def _find_wins(places, returns, errors):
    """Returns whether each return is above all others of its game by more than their errors, float64 [N]."""
    of_game = collections.defaultdict(list)
    for i, place in enumerate(places):
        of_game[place].append(i)
    wins = np.zeros(len(returns))
    for rows in of_game.values():
        *others, best = sorted(rows, key=returns.__getitem__)
        wins[best] = all(returns[best] - returns[i] > errors[best] + errors[i] for i in others)
    return wins


class _InfoFigures:
    """Mean, last value and sum of the info in the current episode of each sub-environment."""

    def __init__(self, env):
        self._env, self._keys = env, get_info_keys(env)
        # One array in three places is safe: `add` makes new arrays and never writes into one.
        self.names = [f"{kind}/{key}" for kind in ("info", "info_last", "info_sum") for key in self._keys]
        self._totals = self._counts = np.zeros([len(self._keys), env.batch_size])
        self._last = self._totals

    def add(self, is_first):
        """Adds the info of the environment's last step. `is_first`, bool [B]: an episode begins."""
        if self._keys:
            info = self._env.get_info()
            self._last = np.array([info[key] for key in self._keys], np.float64)
            has_value = ~np.isnan(self._last)
            self._totals = np.where(is_first, 0.0, self._totals + np.where(has_value, self._last, 0.0))
            self._counts = np.where(is_first, 0, self._counts + has_value)

    def of(self, i):
        """Returns the figures of sub-environment `i`, floats in the order of `names`."""
        sums = np.where(self._counts[:, i] > 0, self._totals[:, i], np.nan)
        return [*(sums / np.maximum(1, self._counts[:, i])), *self._last[:, i], *sums]


def _check_specs(agent, env):
    specs = {"observation": (env.observation_spec(), agent.observation_spec)}
    specs["action"] = env.action_spec(), agent.action_spec
    for name, (ours, theirs) in specs.items():
        mismatch = find_mismatch(to_tensor_spec(ours), theirs)
        if mismatch:
            raise ConfigError(
                f"the environment does not have the specs that the agent was trained for: {name}: {mismatch}"
            )


def summarize_episodes(episodes):
    """Summarizes `Episodes` in a dict from name to the result of `summarize`.

    The names are "return", "length" and the names of components and info; in games of several agents also
    "agents/NAME/return" and "agents/NAME/win", the share of games that the agent won; with several policies
    also "policies/NAME/return" and "policies/NAME/win".

    Episodes without a value of an info do not count for it; an info without any value is left out.
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
    """Summarizes an array [N] in a dict of floats.

    These are `mean`, `median`, `std` (of the sample; 0 for one number), `min`, `max`, and `low` and `high`,
    the 95 % interval of the mean by bootstrap percentiles (Efron 1979). All are NaN for an empty array.
    """
    values = np.asarray(values, np.float64)
    if not len(values):
        return dict.fromkeys(("mean", "median", "std", "min", "max", "low", "high"), float("nan"))
    low, high = bootstrap_interval([values])
    figures = dict(mean=values.mean(), median=np.median(values), min=values.min(), max=values.max())
    std = values.std(ddof=1) if len(values) > 1 else 0.0
    return {name: float(x) for name, x in {**figures, "std": std, "low": low, "high": high}.items()}
