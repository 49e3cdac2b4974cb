# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""MultiAgentEnvironment: games of several agents as one batched environment, a row for each agent."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from alf.core.array_spec import ArraySpec, BoundedArraySpec
from alf.core.nest_utils import find_structure_mismatch
from alf.data_structures import FIRST, LAST, EnvStep
from alf.environments.batched_environment import BatchedEnvironment
from alf.environments.python_env import PythonEnvironment
from alf.errors import ConfigError
from alf.workers.masks import ACTION_MASK


class MultiAgentEnvironment(BatchedEnvironment):
    """G games of A agents as a batched environment of G * A rows: row = game * A + agent.

    The time steps of each row follow the convention of `alf.data_structures`. An agent that is not in the
    game, because it has ended or has not entered yet, has FIRST steps, from which nothing is learned: reward
    0, discount 1 and a blank observation, zeros or the nearest values in its space. Its action is ignored.

    If all agents have equal spaces, these are the specs of a row. Otherwise observation and action are dicts
    with an entry for each distinct pair of spaces. A row fills the entry of its agent. Its other entries are
    blank, with action masks that allow only one action. Only the agent's entry of its action counts.

    Args:
        env: `PythonEnvironment` of G `alf.workers.games.Game`s. `close()` closes it.
        info_keys: tuple of texts, the `info_keys` of the games.

    Attributes:
        agents: tuple of the A names, in the order of the rows of a game.
        space_names: tuple of A texts, the entry of each agent: the name of the first agent with its spaces.
            None if all agents have equal spaces.
        game_begins: bool [G], whether the last time step began a game, so that all its rows are FIRST.
        game_ends: bool [G], whether the last time step ended a game.
    """

    def __init__(self, env: PythonEnvironment, info_keys: Sequence[str] = ()) -> None:
        self._env = env
        self.computes_in_python = env.computes_in_python
        self._info: Any = None
        observations, actions = env.observation_spec()["agents"], env.action_spec()
        self.agents = tuple(observations)
        # One array for both is safe: `_to_rows` makes new ones and writes into none.
        self.game_begins = self.game_ends = np.zeros(env.batch_size, np.bool_)
        self._shape = env.batch_size, len(self.agents)
        # Names of specs contain the agent's, by which equal spaces would be different.
        pairs = [(_rename(observations[x], x), _rename(actions[x], x)) for x in self.agents]
        # For each agent the index of the first agent with equal spaces.
        firsts = [next(i for i, x in enumerate(pairs) if _are_equal(x, pair)) for pair in pairs]
        is_one = len(set(firsts)) == 1
        self.space_names = None if is_one else tuple(self.agents[i] for i in firsts)
        entries = {self.agents[i]: pairs[i] for i in sorted(set(firsts))}
        specs = pairs[0] if is_one else [{x: pair[k] for x, pair in entries.items()} for k in range(2)]
        super().__init__(int(np.prod(self._shape)), specs[0], specs[1], info_keys=info_keys)
        self._members = {
            name: [i for i, x in enumerate(firsts) if self.agents[x] == name] for name in entries
        }
        # Made once: a row is filled with its blank at each step, and then the agents' own observations
        # overwrite it.
        self._blanks = {name: _make_blank_entry(*pair) for name, pair in entries.items()}

    @property
    def num_restarts(self) -> int:
        """How often a worker process was restarted, or a game that raised was made again, an int."""
        return self._env.num_restarts

    @property
    def render_fps(self) -> float:
        return self._env.render_fps

    @property
    def hold(self) -> NoReturn:
        """Raises ConfigError if a `sticky` driver looks for `hold`: single agents of a game cannot wait."""
        raise ConfigError(
            "sticky is True: the agents of a game cannot wait one by one: set DriverSettings.sticky to False"
        )

    def seed(self, seed: int | None, first_index: int = 0) -> None:
        """Seeds the next reset of all games; `first_index` counts games."""
        self._env.seed(seed, first_index)

    def dump_stacks(self) -> None:
        """Makes the workers print the stacks of their threads to stderr; any thread may call this."""
        self._env.dump_stacks()

    def get_info(self) -> dict[str, np.ndarray]:
        """Returns a dict with float32 [B] for each of the `info_keys`; a row has the number of its agent."""
        return {key: self._info[:, :, k].ravel() for k, key in enumerate(self.info_keys)}

    def call(self, name: str, *args: Any) -> list[Any]:
        """Calls the method `name` of each game; returns a list of G results."""
        return self._env.call(name, *args)

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute of each game; in later workers, too."""
        self._env.set_attr(name, value)

    def would_compute_in_python(self, batch_size: int) -> bool:
        """Whether `computes_in_python` would hold of so many games."""
        return self._env.would_compute_in_python(batch_size)

    def close(self) -> None:
        """Closes the games and ends the workers; may be called again."""
        self._env.close()

    def _reset(self):
        return self._to_rows(self._env.reset())

    def _step(self, action):
        # A game takes a dict by agents; the rows of one agent are a column of [G, A].
        columns = {}
        for i, agent in enumerate(self.agents):
            own = action if self.space_names is None else action[self.space_names[i]]
            columns[agent] = tf.nest.map_structure(lambda x, i=i: self._to_games(x)[:, i], own)
        return self._to_rows(self._env.step(columns))

    def _render(self):
        return self._env.render()

    def _to_games(self, rows):
        """Returns a view [G, A, ...] of an array [B, ...]."""
        rows = np.asarray(rows)
        return rows.reshape(*self._shape, *rows.shape[1:])

    def _to_rows(self, time_step):
        """Makes the `EnvStep` of all rows from the step of the games."""
        found = time_step.observation
        self._info = found.get("info")
        # The games' own step types: an agent may begin or end an episode while its game goes on.
        self.game_begins = time_step.step_type == FIRST
        self.game_ends = time_step.step_type == LAST
        # A game that begins after random steps has agents in the middle of their episodes.
        begins = self.game_begins[:, np.newaxis]
        step_type = np.where(begins, FIRST, found["step_type"]).astype(np.int32)
        discount = np.where(begins, 1.0, found["discount"]).astype(np.float32)
        entries = {name: self._join(name, found["agents"]) for name in self._members}
        observation = entries if self.space_names else entries.popitem()[1]
        return EnvStep(step_type.ravel(), time_step.reward.ravel(), discount.ravel(), observation)

    def _join(self, name, observations):
        """Joins agents' observations, [G, ...], to an entry of the rows' observation, a nest of [B, ...]."""
        members = self._members[name]

        def join(blank, *columns):
            # A new array for each step: the caller may keep the old one.
            rows = np.empty((*self._shape, *blank.shape), blank.dtype)
            rows[...] = blank  # Also for the agents of other entries.
            for i, column in zip(members, columns, strict=True):
                rows[:, i] = column
            return rows.reshape(-1, *blank.shape)

        own = [observations[self.agents[i]] for i in members]
        return tf.nest.map_structure(join, self._blanks[name], *own)


def _rename(spec, agent):
    """Returns a nest of specs without the agent's name in the name of each."""

    def rename(x):
        name = "/".join(part for part in x.name.split("/") if part not in ("agents", agent))
        if isinstance(x, BoundedArraySpec):
            return BoundedArraySpec(x.shape, x.dtype, x.minimum, x.maximum, name)
        return ArraySpec(x.shape, x.dtype, name)

    return tf.nest.map_structure(rename, spec)


def _are_equal(one, other):
    """Whether two nests of specs have the same structure, kinds, shapes, dtypes and bounds."""
    if find_structure_mismatch(one, other) is not None:
        return False
    return tf.nest.flatten(one) == tf.nest.flatten(other)


def _make_blank_entry(observation, action):
    """Returns the blank of an entry with these specs.

    An action mask in it allows only the first action, so that the choice of a policy teaches it nothing.
    """
    blank = tf.nest.map_structure(_make_blank, observation)
    is_masked = isinstance(observation, Mapping) and ACTION_MASK in observation
    if not is_masked or tf.nest.is_nested(action) or not np.issubdtype(action.dtype, np.integer):
        return blank
    sizes = np.broadcast_to(action.maximum - action.minimum + 1, action.shape).ravel()
    if blank[ACTION_MASK].shape == (sizes.sum(),):
        # The first choice of each integer: a mask holds the choices of all of them, one after another.
        blank[ACTION_MASK][np.cumsum([0, *sizes[:-1]])] = 1
    return blank


def _make_blank(spec):
    """Returns zeros, or the values nearest to them within the bounds of a spec."""
    zeros = np.zeros(spec.shape, spec.dtype)
    if not isinstance(spec, BoundedArraySpec):
        return zeros
    return np.clip(zeros, spec.minimum, spec.maximum).astype(spec.dtype)
