# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Batched environments for tests, only in NumPy. Each is made to show one kind of bug."""

import numpy as np

from alf.config.kinds import PositiveInt
from alf.config.settings import check_value, checked
from alf.core.array_spec import ArraySpec, BoundedArraySpec
from alf.data_structures import FIRST, LAST, MID, EnvStep
from alf.environments import BatchedEnvironment


class _ToyEnvironment(BatchedEnvironment):
    """Counts the steps of B episodes. One episode of length n has n + 1 steps: FIRST, n - 1 MID, and LAST.

    A subclass implements `_observe(first)` and `_reward(action)`. `_observe` is called once for each time
    step and returns a new observation [B, ...]; `first` is bool [B]. `_reward` returns the reward [B] of an
    action, after `_step_in_episode` has counted its step. At FIRST steps the reward is ignored.

    Args:
        batch_size: int, B.
        length: int or int [B], transitions of an episode; ConfigError if any is less than 1.
        observation_spec, action_spec: nests of `ArraySpec`, without the batch dimension.
    """

    _terminates = False  # whether episodes end by termination, or else by a time limit; bool or bool [B]

    def __init__(self, batch_size, length, observation_spec, action_spec):
        super().__init__(batch_size, observation_spec, action_spec)
        check_value("the length of an episode", np.min(length), PositiveInt)
        self._length = np.broadcast_to(np.asarray(length, np.int64), [batch_size])

    def _reset(self):
        self._step_in_episode = np.zeros([self._batch_size], np.int64)
        return self._make_time_step(reward=0)

    def _step(self, action):
        action = np.asarray(action)
        shape = (self._batch_size, *self._action_spec.shape)
        if action.shape != shape:
            raise ValueError(f"The action has shape {action.shape} instead of {shape}.")
        # The step after LAST is the FIRST one of the next episode, and ignores its action.
        ended = self._step_in_episode == self._length
        self._step_in_episode = np.where(ended, 0, self._step_in_episode + 1)
        return self._make_time_step(self._reward(action))

    def _make_time_step(self, reward):
        first = self._step_in_episode == 0
        last = self._step_in_episode == self._length
        observation = self._observe(first)  # Before the discount: it may change `_terminates`.
        return EnvStep(
            step_type=np.where(first, FIRST, np.where(last, LAST, MID)).astype(np.int32),
            reward=np.where(first, 0, reward).astype(np.float32),
            discount=1 - (last & self._terminates).astype(np.float32),
            observation=observation,
        )


def _discrete_action(num_actions):
    return BoundedArraySpec((), np.int64, 0, num_actions - 1, "action")


class CountingEnvironment(_ToyEnvironment):
    """Counts its time steps: the observation shows a step that is lost, doubled or out of order.

    The observation is float32 [B, 3]:
        0: the env id, `env_index * batch_size + b`;
        1: the number of time steps of this sub-environment before this one, since construction, FIRST steps
            included (exact up to 2**24);
        2: the step within the episode, 0 at FIRST.
    The reward is the step within the episode. Episodes take `episode_length + b % 3` transitions, so that
    they end in the middle of unrolls and not all together. The first episode ends by termination, the second
    by a time limit, and so on in turn. The actions, int64 [B] in [0, 1], change nothing.

    Args:
        batch_size: int, B.
        episode_length: int, transitions of the shortest episodes.
        env_index: int, index of this batched environment in its driver.
        seed: ignored; other environments have this argument.
    """

    def __init__(
        self, batch_size: int, episode_length: int = 10, env_index: int = 0, seed: int | None = None
    ) -> None:
        del seed
        row = np.arange(batch_size)
        observation_spec = BoundedArraySpec((3,), np.float32, 0.0, name="observation")
        super().__init__(batch_size, episode_length + row % 3, observation_spec, _discrete_action(2))
        self._env_id = env_index * batch_size + row
        self._num_steps_before = np.full([batch_size], -1, np.int64)  # The first FIRST step makes it 0.
        self._num_episodes = np.zeros([batch_size], np.int64)

    def _reward(self, action):
        return self._step_in_episode

    def _observe(self, first):
        self._num_steps_before += 1
        self._num_episodes += first
        self._terminates = self._num_episodes % 2 == 1
        columns = [self._env_id, self._num_steps_before, self._step_in_episode]
        return np.stack(columns, axis=1).astype(np.float32)


class MatchObservationEnvironment(_ToyEnvironment):
    """Rewards the action that matches the observation, a target drawn for each time step. Learned in seconds.

    Discrete: the observation is the target as a one-hot, float32 [B, num_actions]. An action, int64 [B],
    earns 1 if it equals the target that was observed when it was chosen, else 0.
    Continuous: the observation is the target, float32 [B, 1] in [-1, 1]. An action, float32 [B, 1], is
    clipped to [-2, 2] and earns 1 - (action - target)**2.
    Episodes end by a time limit: the discount stays 1. The best return of an episode is `episode_length`.

    Args:
        batch_size: int, B.
        num_actions: int, how many discrete actions there are.
        episode_length: int, transitions of an episode.
        continuous: bool, whether observations and actions are continuous.
        seed: int or None, for the targets.
    """

    def __init__(
        self,
        batch_size: int,
        num_actions: int = 3,
        episode_length: int = 10,
        continuous: bool = False,
        seed: int | None = 0,
    ) -> None:
        size, low, action_spec = num_actions, 0.0, _discrete_action(num_actions)
        if continuous:
            size, low = 1, -1.0
            action_spec = BoundedArraySpec((1,), np.float32, -2.0, 2.0, "action")
        observation_spec = BoundedArraySpec((size,), np.float32, low, 1.0, "observation")
        super().__init__(batch_size, episode_length, observation_spec, action_spec)
        self._continuous = continuous
        self._num_actions = num_actions
        self._rng = np.random.default_rng(seed)

    def seed(self, seed: int | None, first_index: int = 0) -> None:
        del first_index
        self._rng = np.random.default_rng(seed)

    def _reward(self, action):
        if self._continuous:
            return 1 - np.square(np.clip(action[:, 0], -2, 2) - self._target)
        return action == self._target

    def _observe(self, first):
        if self._continuous:
            self._target = self._rng.uniform(-1, 1, [self._batch_size]).astype(np.float32)
            # A copy, so that a caller who writes into it does not change the target.
            return self._target[:, np.newaxis].copy()
        self._target = self._rng.integers(self._num_actions, size=[self._batch_size])
        return np.eye(self._num_actions, dtype=np.float32)[self._target]


class RememberEnvironment(_ToyEnvironment):
    """Shows a bit at FIRST and asks for it `delay` steps later, so that a policy needs a memory.

    The observation is float32 [B, 2]: the bit as a one-hot at FIRST, zeros later. The LAST step has reward 1
    if the action that led to it, int64 [B], equals the bit. All other rewards are 0. Episodes terminate: the
    discount is 0 at LAST. Without a memory the mean return is 0.5, if `delay` is at least 2.

    Args:
        batch_size: int, B.
        delay: int, transitions of an episode.
        seed: int or None, for the bits.
    """

    _terminates = True

    def __init__(self, batch_size: int, delay: int = 3, seed: int | None = 0) -> None:
        observation_spec = BoundedArraySpec((2,), np.float32, 0.0, 1.0, "observation")
        super().__init__(batch_size, delay, observation_spec, _discrete_action(2))
        self._rng = np.random.default_rng(seed)
        self._bit = np.zeros([batch_size], np.int64)

    def seed(self, seed: int | None, first_index: int = 0) -> None:
        del first_index
        self._rng = np.random.default_rng(seed)

    def _reward(self, action):
        return (self._step_in_episode == self._length) & (action == self._bit)

    def _observe(self, first):
        new_bit = self._rng.integers(2, size=[self._batch_size])
        # A new bit only where an episode begins; the draws for the other rows are thrown away.
        self._bit = np.where(first, new_bit, self._bit)
        return np.eye(2, dtype=np.float32)[self._bit] * first[:, np.newaxis].astype(np.float32)


class NullEnvironment(BatchedEnvironment):
    """Does nothing, at no cost: the cost of a run with it is the overhead of the driver.

    Every `EnvStep` is one of three that the constructor makes: observation float32 [B, observation_dim]
    of zeros, reward 0, discount 1. Their arrays are read-only. The action, int64 [B] in [0, 1], is ignored.

    Args:
        batch_size: int, B.
        observation_dim: int.
        episode_length: int, transitions until all episodes end together by a time limit; None for never.
    """

    @checked
    def __init__(
        self,
        batch_size: PositiveInt,
        observation_dim: PositiveInt = 4,
        episode_length: PositiveInt | None = None,
    ) -> None:
        observation_spec = ArraySpec((observation_dim,), np.float32, "observation")
        super().__init__(batch_size, observation_spec, _discrete_action(2))
        self._episode_length = episode_length
        self._step_in_episode = 0
        step_types = [np.full([batch_size], step_type, np.int32) for step_type in (FIRST, MID, LAST)]
        reward, discount = np.zeros([batch_size], np.float32), np.ones([batch_size], np.float32)
        observation = np.zeros([batch_size, observation_dim], np.float32)
        for array in (*step_types, reward, discount, observation):
            array.setflags(write=False)  # All steps share them.
        self._time_steps = [EnvStep(x, reward, discount, observation) for x in step_types]

    def _reset(self):
        self._step_in_episode = 0
        return self._time_steps[FIRST]

    def _step(self, action):
        if self._step_in_episode == self._episode_length:
            return self._reset()
        self._step_in_episode += 1
        return self._time_steps[LAST if self._step_in_episode == self._episode_length else MID]
