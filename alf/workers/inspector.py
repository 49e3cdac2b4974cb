# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Inspector: steps one environment at random and reports what is wrong with its results."""

import contextlib
import hashlib
import re
import time
from typing import NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from alf.errors import ConfigError
from alf.workers.arrays import (
    Layout,
    MisfitError,
    check_space,
    children,
    join_path,
    make_action_reader,
    make_arrays,
    make_leaf_writer,
    make_writer,
    name_part,
    without_bools,
)
from alf.workers.env_calls import ends_episode, is_ctrl_c, layout_of, make_env, reset_env, step_env
from alf.workers.info import make_info_reader
from alf.workers.masks import sample_action


class CallReport(NamedTuple):
    """The findings of an `Inspector` in one call of `reset` or `step`.

    Attributes:
        problems: list of texts, the problems of kinds that were not reported before.
        num_steps: int, steps since the beginning.
        next_call: text, the name of the next call, such as "step 3".
        is_broken: bool, whether the environment raised an exception.
        is_over: bool, whether all calls have been repeated.
    """

    problems: list
    num_steps: int
    next_call: str
    is_broken: bool
    is_over: bool


class LeafRange(NamedTuple):
    """The values of one leaf of the observations."""

    name: str
    space: spaces.Space
    low: float  # the smallest value
    high: float  # the largest value


class Inspected(NamedTuple):
    """The observations of an `Inspector` of an environment that works.

    Attributes:
        layout: `Layout`.
        actions: list of pairs (name, space), the leaves of the action space.
        ranges: list of `LeafRange`, one for each leaf of the observation that had a value.
        max_reward: float, the largest absolute reward.
        episode_lengths: list of ints, the steps of each episode that ended.
        has_dicts: bool, whether the info was always a dict.
        make_seconds: float, the time of the constructor.
        step_seconds, step_cpu_seconds, reset_seconds: lists of floats, the time of each call.
    """

    layout: Layout
    actions: list
    ranges: list
    max_reward: float
    episode_lengths: list
    has_dicts: bool
    make_seconds: float
    step_seconds: list
    step_cpu_seconds: list
    reset_seconds: list


class Inspector(gymnasium.Env):
    """Makes an environment, steps it at random and collects problems.

    It is a `gymnasium.Env` only so that an `EnvBatch` or a `WorkerPool` of one environment can hold it and
    `call` its methods. It checks results with the functions of `EnvBatch`, but goes on after a problem. It
    also checks that numbers are finite and within the bounds of their space, and that a seed decides all
    results.

    Args:
        make: callable without arguments -> `gymnasium.Env` or TF-Agents `PyEnvironment`.
        seed: int, the seed of the first reset and of the random actions.
        info_keys: tuple of the keys that are read from the info.
        keeps: bool, whether `close` leaves the environment open.
    """

    observation_space = action_space = spaces.Discrete(1)  # the batch needs some spaces

    def __init__(self, make, seed, info_keys=(), keeps=False):
        start = time.perf_counter()
        self._env = make_env(make, "the constructor", bool(info_keys))
        self._make_seconds = time.perf_counter() - start
        self._seed, self._info_keys, self._keeps = seed, tuple(info_keys), keeps
        self._problems, self._kinds = [], set()
        self._trace = []  # one dict for each call: from the name of a result to its digest
        self._ranges, self._max_reward, self._lengths = {}, 0.0, []
        self._step_seconds, self._cpu_seconds, self._reset_seconds = [], [], []
        self._has_dicts = True
        self._is_repeating, self._observation = False, None

    def check_spaces(self):
        """Returns the problems of the spaces, a list of texts."""
        problems = []
        for kind in ("observation", "action"):
            space = getattr(self._env, f"{kind}_space", None)
            try:
                check_space(without_bools(space) if kind == "observation" else space, f"the {kind} space")
            except ConfigError as error:
                problems.append(str(error))
        if problems:
            return problems
        try:
            self._layout = layout_of(self._env, self._info_keys)
        except ConfigError as error:
            return [str(error)]
        self._use_layout()
        return []

    def _use_layout(self):
        self._arrays = arrays = make_arrays(self._layout, 1)
        observation_space, self._action_space = self._layout.observation_space, self._layout.action_space
        self._write = make_writer(observation_space, iter(arrays.observation), "the observation")
        self._write_reward = make_leaf_writer(arrays.reward, "the reward")
        self._write_action = make_writer(self._action_space, iter(arrays.action), "the action")
        self._read_actions = make_action_reader(self._action_space)
        self._read_info = make_info_reader(self._info_keys)
        self._leaves = list(_name_leaves(observation_space, "the observation"))

    def begin(self, repeats):
        """Makes the next call a reset with the seed. If it `repeats`, results must be the same as before."""
        # `_index` numbers resets and steps together, so that a call finds its digests of the first pass.
        self._is_repeating, self._index = repeats, 0
        self._must_reset, self._num_resets, self._num_steps, self._length = True, 0, 0, 0

    def advance(self):
        """Resets the environment if an episode begins, else steps it. Returns a `CallReport`."""
        self._problems, self._digests, is_broken = [], {}, False
        self._name = self._name_next()
        try:
            if self._must_reset:
                self._reset()
            else:
                self._step()
        except MisfitError as error:
            self._note_misfit(error)
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            self._note("raised", f"{self._call}() raised {type(error).__name__}: {error}")
            is_broken = True
        self._compare()
        self._index += 1
        all_repeated = self._is_repeating and self._index == len(self._trace)
        return CallReport(self._problems, self._num_steps, self._name_next(), is_broken, all_repeated)

    def inspected(self):
        """Returns the observations so far, an `Inspected`."""
        actions = list(_name_leaves(self._action_space, "the action"))
        ranges = [
            LeafRange(*leaf, *self._ranges[leaf[0]]) for leaf in self._leaves if leaf[0] in self._ranges
        ]
        counts = self._max_reward, self._lengths, self._has_dicts
        times = self._make_seconds, self._step_seconds, self._cpu_seconds, self._reset_seconds
        return Inspected(self._layout, actions, ranges, *counts, *times)

    def end(self):
        """Closes the environment. Returns the problems, a list of texts."""
        try:
            self.close()
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            return [" ".join(f"close() raised {type(error).__name__}: {error}".split())]
        return []

    def close(self):
        if not self._keeps:
            self._keeps = True  # close only once
            self._env.close()

    def _name_next(self):
        return f"reset {self._num_resets + 1}" if self._must_reset else f"step {self._num_steps + 1}"

    def _reset(self):
        self._call, self._must_reset, self._length = "reset", False, 0
        self._num_resets += 1
        # Only the first reset has a seed. Later ones must follow from it, so that episodes differ.
        seed = self._seed if self._index == 0 else None
        if seed is not None:
            self._action_space.seed(seed)
        start = time.perf_counter()
        observation, info = reset_env(self._env, seed)
        self._reset_seconds.append(time.perf_counter() - start)
        self._look_at(observation, info)

    def _step(self):
        self._call = "step"
        self._num_steps += 1
        self._length += 1
        # The action goes through the arrays, like in training: the environment gets the same types as there.
        self._write_action(0, sample_action(self._action_space, self._observation))
        [action] = self._read_actions(iter(self._arrays.action))
        start, cpu = time.perf_counter(), time.process_time()
        observation, reward, terminated, truncated, info = step_env(self._env, action)
        self._step_seconds.append(time.perf_counter() - start)
        self._cpu_seconds.append(time.process_time() - cpu)
        self._look_at(observation, info)
        # Each part by itself, so that one misfit does not hide the others.
        with self._noting_misfits():
            self._write_reward(0, reward)
            reward = self._arrays.reward[0]
            self._digests["the reward"] = reward.tobytes()
            if np.all(np.isfinite(reward)):
                self._max_reward = max(self._max_reward, float(np.abs(reward).max()))
            else:
                self._note("reward", f"the reward is {reward}: it must be finite")
        with self._noting_misfits():
            self._must_reset = ends_episode(terminated, truncated)
            self._digests["the end of the episode"] = bool(terminated), bool(truncated)
        if self._must_reset and not self._is_repeating:
            self._lengths.append(self._length)

    def _look_at(self, observation, info):
        self._observation = observation
        self._has_dicts &= isinstance(info, dict)
        with self._noting_misfits():
            self._read_info(info)
        with self._noting_misfits():
            self._write(0, observation)
            digest = hashlib.sha256()
            for (name, space), array in zip(self._leaves, self._arrays.observation, strict=True):
                digest.update(array[0].tobytes())
                self._look_at_leaf(name, space, np.asarray(array[0]))
            # A digest in place of the observation: a thousand images would take much memory.
            self._digests["the observation"] = digest.digest()

    def _look_at_leaf(self, name, space, x):
        if not np.all(np.isfinite(x)):
            infinite = x.size - np.count_nonzero(np.isfinite(x))
            self._note(name, f"{name} has {infinite} numbers that are not finite")
            return
        low, high = float(x.min()), float(x.max())
        if not space.contains(x):
            self._note(
                name, f"{name} has values from {low:g} to {high:g}, beyond the bounds of its space {space}"
            )
        before = self._ranges.get(name, (low, high))
        self._ranges[name] = min(low, before[0]), max(high, before[1])

    def _compare(self):
        """Keeps the digests of the results, or compares them with the digests of the same call before."""
        if not self._is_repeating:
            self._trace.append(self._digests)
            return
        before = self._trace[self._index]
        # A result that was a misfit has no digest. It is a problem already.
        for name in before.keys() & self._digests.keys():
            if before[name] != self._digests[name]:
                self._note(
                    "seed",
                    f"{name} differs from before, though reset(seed={self._seed}) and the actions are the "
                    "same: the seed must decide everything random, and a reset must forget everything before",
                )

    @contextlib.contextmanager
    def _noting_misfits(self):
        try:
            yield
        except MisfitError as error:
            self._note_misfit(error)

    def _note_misfit(self, error):
        # The kind is the text before the value, so that "the reward is 1, ...", "the reward is 2, ..." count
        # as one problem.
        self._note(re.split(" is | has | returned ", str(error))[0], str(error))

    def _note(self, kind, text):
        """Adds a problem if it is the first of its kind."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._problems.append(f"{self._name}: {' '.join(text.split())}")


def _name_leaves(space, name, path=""):
    """Yields the name for errors and the space of each leaf of a space, in the order of `leaves`."""
    parts = children(space)
    if parts is None:
        yield name_part(name, path), space
    for key, part in parts or ():
        yield from _name_leaves(part, name, join_path(path, key))
