# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Mapping of rows to policies: it is chosen when an episode begins, and stays until the episode ends."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from alf.core.annotations import Environment, NestedSpec
from alf.core.array_spec import BoundedArraySpec
from alf.data_structures import FIRST, OBSERVATION, OWNER
from alf.drivers.env_specs import get_agents
from alf.environments.batched_environment import EnvironmentWrapper
from alf.errors import ConfigError, EnvError

_ONE_AGENT = ("agent",)  # of environments that do not name their agents


class Episode(NamedTuple):
    """A description of an episode that begins, for a mapping."""

    agents: tuple  # A texts, the agents of a game
    game: int  # which game of the batched environment; its rows are game * A to game * A + A - 1
    number: int  # how many episodes of this game came before
    rng: Any  # `np.random.Generator` of the batched environment, which follows from its seed


# The types that `check_mapping` accepts.
PolicyMapping = str | Mapping[str, str] | Sequence[str] | Callable[[Episode], Sequence[str]]


class MappedEnvironment(EnvironmentWrapper):
    """A batched environment whose observation names the policy that acts in each row.

    The observation is a dict: "observation" is the environment's observation; "owner", int32 [B], is the
    index of the policy in `names`. If the mapping is a callable, the rows of a game get their policies when
    the game begins, and keep them until the next game begins. Any other mapping gives each row one policy for
    ever.

    Args:
        env: batched environment. An environment of several agents, such as `MultiAgentEnvironment`, has the
            attributes `agents`, A texts, and `game_begins`, bool [G], whether the last step began a game; row
            game * A + i is agent i. Without them each row is a game of one agent, "agent".
        mapping: text, dict, list or callable, as in `check_mapping`.
        names: tuple of texts, the names of all policies.
        spaces: dict from a policy's name to the entry of the environment's `space_names` for which the policy
            was made, or to None if it was made for all; None if all agents have the same spaces.
        seed: int or None, the seed of `Episode.rng`.

    Attributes:
        agents: tuple of A texts.
        policies: `names`.
        num_games: int, G.

    Raises:
        ConfigError: if `check_mapping` refuses `mapping`.
        EnvError: if the mapping gives an agent a name that is not a policy for its spaces, or raises an
            error. A callable is called in `reset` and `step`, and these raise then. `reset` also raises if an
            environment of several agents has no `game_begins`.
    """

    def __init__(
        self,
        env: Environment,
        mapping: PolicyMapping,
        names: Sequence[str],
        spaces: dict[str, str] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(env)
        self.agents = find_agents(env)
        self.policies, self._spaces = tuple(names), spaces
        self._choose = check_mapping(mapping, self.agents, names)
        # One generator for each batched environment: each is stepped by a thread of its own, and with a
        # common generator the draws would depend on which thread comes first.
        self._rng, self._first_game = np.random.default_rng(seed), 0
        self.num_games = env.batch_size // len(self.agents)
        self._numbers = np.zeros(self.num_games, np.int64)
        self._owner = np.zeros(env.batch_size, np.int32)
        self._was_first = np.zeros(self.num_games, bool)
        # A fixed mapping is asked once, here, and costs nothing in each step.
        self._is_fixed = not callable(mapping)
        if self._is_fixed:
            self._map_games(np.ones(self.num_games, bool))

    def observation_spec(self) -> NestedSpec:
        owner = BoundedArraySpec((), np.int32, 0, len(self.policies) - 1, OWNER)
        return {OBSERVATION: self._env.observation_spec(), OWNER: owner}

    def seed(self, seed: int | None, first_index: int = 0) -> None:
        """Seeds the environment and the mapping's `Episode.rng`; games count from `first_index` on."""
        # A generator of its own for each part of a batch: with a common one all would draw the same policies.
        self._rng = np.random.default_rng([seed, first_index] if first_index and seed is not None else seed)
        self._first_game = first_index
        if self._is_fixed:
            self._map_games(np.ones(self.num_games, bool))
        return super().seed(seed, first_index)

    def find_idle(self) -> tuple[str, ...]:
        """Returns the names of the policies that never act, a tuple; always () for a callable `mapping`."""
        if not self._is_fixed:
            return ()
        return tuple(name for i, name in enumerate(self.policies) if i not in self._owner)

    def _reset(self):
        # After a reset every game begins, also a game whose last step was a FIRST one.
        self._was_first[:] = False
        time_step = self._env.reset()
        if len(self.agents) > 1:
            self._check_games()
        return self._add_owner(time_step)

    def _step(self, action):
        return self._add_owner(self._env.step(action))

    def _add_owner(self, time_step):
        if not self._is_fixed:
            self._map_games(self._find_begins(time_step))
        return time_step._replace(observation={OBSERVATION: time_step.observation, OWNER: self._owner})

    def _check_games(self):
        """Raises EnvError if an environment of several agents does not say which games begin."""
        begins = getattr(self._env, "game_begins", None)
        if begins is None or np.shape(begins) != (self.num_games,):
            found = "no game_begins" if begins is None else f"game_begins of shape {np.shape(begins)}"
            raise EnvError(
                f"the batched environment has the agents {self.agents}, but {found}: it must have bool "
                f"[{self.num_games}], whether the last step began a game; row game * {len(self.agents)} + i "
                "is agent i"
            )

    def _find_begins(self, time_step):
        """Returns whether each game begins, bool [G]. A repeated FIRST step does not begin one."""
        # With several agents only the environment knows: an agent that is not in the game has FIRST steps
        # meanwhile.
        if hasattr(self._env, "game_begins"):
            return np.asarray(self._env.game_begins)
        is_first = np.asarray(time_step.step_type) == FIRST
        begins, self._was_first = is_first & ~self._was_first, is_first
        return begins

    def _map_games(self, begins):
        """Chooses the owners of the rows of games that begin; `begins` is bool [G]."""
        if begins.any():
            self._owner = self._owner.copy()  # the last time step still holds the old array
            for game in begins.nonzero()[0].tolist():
                self._map(game)

    def _map(self, game):
        """Chooses the policies of a game that begins."""
        number = self._first_game + game
        episode = Episode(self.agents, number, int(self._numbers[game]), self._rng)
        self._numbers[game] += 1
        try:
            names = self._choose(episode)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            raise EnvError(
                f"Policies.mapping raised {error!r} for game {number}, episode {episode.number} "
                f"({place.filename}, line {place.lineno})"
            ) from error
        if not isinstance(names, (list, tuple)) or len(names) != len(self.agents):
            raise EnvError(
                f"Policies.mapping returned {names!r}: it must return the names of {len(self.agents)} "
                f"policies, one for each of {self.agents}"
            )
        for i, (agent, name) in enumerate(zip(self.agents, names, strict=True)):
            if name not in self.policies:
                raise EnvError(f"Policies.mapping returned {name!r}: the policies are {self.policies}")
            if self._spaces is not None and self._spaces[name] not in (None, self._env.space_names[i]):
                raise EnvError(
                    f"Policies.mapping gave the policy {name!r} to {agent!r}, whose spaces are not those it "
                    "was made for"
                )
            self._owner[game * len(self.agents) + i] = self.policies.index(name)


def find_agents(env):
    """Returns the names of the agents of an environment, a tuple of texts; ("agent",) if it names none."""
    return get_agents(env) or _ONE_AGENT


def check_mapping(mapping, agents, names):
    """Returns a mapping as a callable (`Episode`) -> names of policies, one for each agent.

    Args:
        mapping: text, the name of the policy that acts in all rows. Or dict from each agent to the name of
            its policy. Or list of names, which the rows of a batched environment take in turn. Or callable
            (`Episode`) -> list of names, one for each agent, called when an episode begins.
        agents, names: tuples of texts: the agents of a game, and the names of the policies.

    Raises:
        ConfigError: if the mapping has another type, or names an unknown agent or policy.
    """
    setting = f"Policies.mapping is {mapping!r}"
    if callable(mapping):
        return mapping
    if isinstance(mapping, str):
        chosen = [mapping]
    elif isinstance(mapping, Mapping):
        if set(mapping) != set(agents):
            raise ConfigError(f"{setting}: it must have an entry for each of the agents {tuple(agents)}")
        chosen = [mapping[agent] for agent in agents]
    elif isinstance(mapping, (list, tuple)) and mapping:
        chosen = list(mapping)
    else:
        raise ConfigError(
            f"{setting}: it must be a policy's name, a dict from agents to these, a list of these, or a "
            "callable"
        )
    for name in chosen:
        if name not in names:
            raise ConfigError(f"{setting}: there is no policy {name!r}; Policies.names has {tuple(names)}")
    num_agents = len(agents)

    def choose(episode):
        first = episode.game * num_agents
        return [chosen[(first + i) % len(chosen)] for i in range(num_agents)]

    if isinstance(mapping, Mapping):
        return lambda episode: chosen
    return choose
