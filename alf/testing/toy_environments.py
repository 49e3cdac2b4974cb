# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Batched environments for tests: pure NumPy, each made to show one kind of bug.

All of them follow one convention, per sub-environment: the step after a LAST is a
FIRST with reward 0 and discount 1 whose action is ignored; discount is 0 only where an
episode terminated, and 1 where a time limit cut it.
"""

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts


class _ToyEnvironment(py_environment.PyEnvironment):
    """Keeps the time of B sub-environments; the subclasses fill in what happens.

    An episode of length n has n + 1 rows: FIRST, n - 1 times MID, and LAST.
    """

    def __init__(self, batch_size, length, observation_spec, action_spec):
        """Creates B sub-environments.

        Args:
          batch_size: int, B.
          length: int or int [B], transitions per episode, at least 1.
          observation_spec: an unbatched spec.
          action_spec: an unbatched spec.

        Raises:
          ValueError: `batch_size` or a length is smaller than 1.
        """
        if batch_size < 1 or np.min(length) < 1:
            raise ValueError(f"batch_size {batch_size} and episode length {length} must be at least 1.")
        super().__init__()
        self._batch_size = batch_size
        self._observation_spec = observation_spec
        self._action_spec = action_spec
        self._length = np.broadcast_to(np.asarray(length, np.int64), [batch_size])
        self._step_in_episode = np.zeros([batch_size], np.int64)

    @property
    def batched(self):
        return True

    @property
    def batch_size(self):
        return self._batch_size

    def observation_spec(self):
        return self._observation_spec

    def action_spec(self):
        return self._action_spec

    def _reset(self):
        self._step_in_episode = np.zeros([self._batch_size], np.int64)
        return self._time_step(np.zeros([self._batch_size], np.float32))

    def _step(self, action):
        action = np.asarray(action)
        shape = (self._batch_size,) + tuple(self._action_spec.shape)
        if action.shape != shape:
            raise ValueError(f"The action has shape {action.shape} instead of {shape}.")
        last = self._step_in_episode == self._length
        self._step_in_episode = np.where(last, 0, self._step_in_episode + 1)
        return self._time_step(np.where(last, 0, self._reward(action)).astype(np.float32))

    def _time_step(self, reward):
        """Returns the `TimeStep` at `_step_in_episode`, with `reward` float32 [B]."""
        first = self._step_in_episode == 0
        last = self._step_in_episode == self._length
        observation = self._observe(first)  # May change what _terminates answers.
        return ts.TimeStep(
            step_type=(1 + last - first.astype(np.int32)).astype(np.int32),
            reward=reward,
            discount=1 - (last & self._terminates()).astype(np.float32),
            observation=observation,
        )

    def _reward(self, action):
        """Returns what `action` earns, [B]; called after the clock went on.

        Rows that are FIRST now are masked by the caller.
        """
        raise NotImplementedError

    def _observe(self, first):
        """Returns a new observation [B, ...]; called once per row, `first` is bool [B]."""
        raise NotImplementedError

    def _terminates(self):
        """Returns bool [B]: do these episodes end by termination, not by a time limit?"""
        return np.zeros([self._batch_size], np.bool_)


def _discrete_action(num_actions):
    return array_spec.BoundedArraySpec((), np.int64, 0, num_actions - 1, "action")


class CountingEnvironment(_ToyEnvironment):
    """Counts: a row that is lost, doubled, or out of order shows in the observation.

    The observation is float32 [B, 3]:
      0: the env id, `env_index * batch_size + b`;
      1: the rows of this sub-environment before this one, since construction, FIRST rows
         included (exact up to 2**24);
      2: the step within the episode, 0 at FIRST.
    The reward is the step within the episode. Episodes take `episode_length + b % 3`
    transitions, so that they end in the middle of unrolls and not all together, and end
    in turn by termination (the first of them) and by a time limit. Actions change nothing.
    """

    def __init__(self, batch_size, episode_length=10, env_index=0, seed=None):
        """Creates B counters; `seed` is taken for the sake of a common signature."""
        del seed
        row = np.arange(batch_size)
        super().__init__(
            batch_size,
            episode_length + row % 3,
            array_spec.BoundedArraySpec((3,), np.float32, 0.0, name="observation"),
            _discrete_action(2),
        )
        self._env_id = env_index * batch_size + row
        self._rows = np.full([batch_size], -1, np.int64)
        self._episodes = np.zeros([batch_size], np.int64)

    def _reward(self, action):
        return self._step_in_episode

    def _observe(self, first):
        self._rows += 1
        self._episodes += first
        return np.stack([self._env_id, self._rows, self._step_in_episode], axis=1).astype(np.float32)

    def _terminates(self):
        return self._episodes % 2 == 1


class MatchObservationEnvironment(_ToyEnvironment):
    """Pays for the action that matches what was seen; learnt within seconds.

    A target is drawn for every row. With `continuous=False` the observation is the target
    as a one-hot, float32 [B, num_actions], and an action int64 [B] earns 1 if it equals
    the target that was seen when it was chosen, else 0. With `continuous=True` the
    observation is the target itself, float32 [B, 1] in [-1, 1], and an action float32
    [B, 1] within [-2, 2] earns 1 - (action - target)**2; outside it is clipped first.

    An episode of `episode_length` transitions ends by a time limit: discount stays 1. The
    best return of an episode is `episode_length`, in both variants.
    """

    def __init__(self, batch_size, num_actions=3, episode_length=10, continuous=False, seed=0):
        if continuous:
            observation_spec = array_spec.BoundedArraySpec((1,), np.float32, -1.0, 1.0, "observation")
            action_spec = array_spec.BoundedArraySpec((1,), np.float32, -2.0, 2.0, "action")
        else:
            observation_spec = array_spec.BoundedArraySpec(
                (num_actions,), np.float32, 0.0, 1.0, "observation"
            )
            action_spec = _discrete_action(num_actions)
        super().__init__(batch_size, episode_length, observation_spec, action_spec)
        self._continuous = continuous
        self._num_actions = num_actions
        self._rng = np.random.default_rng(seed)
        self._target = None

    def _reward(self, action):
        if self._continuous:
            return 1 - np.square(np.clip(action[:, 0], -2, 2) - self._target)
        return action == self._target

    def _observe(self, first):
        if self._continuous:
            self._target = self._rng.uniform(-1, 1, [self._batch_size]).astype(np.float32)
            # A copy, so that nobody who writes into it moves the target.
            return self._target[:, np.newaxis].copy()
        self._target = self._rng.integers(self._num_actions, size=[self._batch_size])
        return np.eye(self._num_actions, dtype=np.float32)[self._target]


class RememberEnvironment(_ToyEnvironment):
    """Shows a bit at FIRST and asks for it `delay` steps later: needs a memory.

    The observation is float32 [B, 2]: the bit as a one-hot at FIRST, zeros (blank) later.
    The LAST row, `delay` transitions after FIRST, has reward 1 if the action that led to
    it, int64 [B], equals the bit, else 0; every other reward is 0. Episodes terminate:
    discount 0 at LAST. Without memory the mean return is 0.5 (if `delay` is at least 2).
    """

    def __init__(self, batch_size, delay=3, seed=0):
        super().__init__(
            batch_size,
            delay,
            array_spec.BoundedArraySpec((2,), np.float32, 0.0, 1.0, "observation"),
            _discrete_action(2),
        )
        self._rng = np.random.default_rng(seed)
        self._bit = np.zeros([batch_size], np.int64)

    def _reward(self, action):
        return (self._step_in_episode == self._length) & (action == self._bit)

    def _observe(self, first):
        new = self._rng.integers(2, size=[self._batch_size])
        self._bit = np.where(first, new, self._bit)
        return np.eye(2, dtype=np.float32)[self._bit] * first[:, np.newaxis].astype(np.float32)

    def _terminates(self):
        return np.ones([self._batch_size], np.bool_)


class NullEnvironment(py_environment.PyEnvironment):
    """Costs nothing: what remains of a run with it is the overhead of the driver.

    Every `TimeStep` is one of three that are made in advance: observation float32
    [B, observation_dim] of zeros, reward 0, discount 1. Their arrays are read-only. All
    rows end together, by a time limit, after `episode_length` transitions; never if it is
    None. The action, int64 [B] in [0, 1], is not looked at.
    """

    def __init__(self, batch_size, observation_dim=4, episode_length=None):
        if batch_size < 1 or (episode_length is not None and episode_length < 1):
            raise ValueError(
                f"batch_size {batch_size} and episode_length {episode_length} must be at least 1."
            )
        super().__init__()
        self._batch_size = batch_size
        self._observation_spec = array_spec.ArraySpec((observation_dim,), np.float32, "observation")
        self._last_step = float("inf") if episode_length is None else episode_length
        self._step_in_episode = 0
        observation = np.zeros([batch_size, observation_dim], np.float32)
        self._first, self._mid, self._last = (
            ts.TimeStep(
                step_type=np.full([batch_size], step_type, np.int32),
                reward=np.zeros([batch_size], np.float32),
                discount=np.ones([batch_size], np.float32),
                observation=observation,
            )
            for step_type in (0, 1, 2)
        )
        for time_step in (self._first, self._mid, self._last):
            for array in time_step:
                array.setflags(write=False)

    @property
    def batched(self):
        return True

    @property
    def batch_size(self):
        return self._batch_size

    def observation_spec(self):
        return self._observation_spec

    def action_spec(self):
        return _discrete_action(2)

    def _reset(self):
        self._step_in_episode = 0
        return self._first

    def _step(self, action):
        if self._step_in_episode == self._last_step:
            return self._reset()
        self._step_in_episode += 1
        return self._last if self._step_in_episode == self._last_step else self._mid
