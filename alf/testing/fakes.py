# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policies, a learner, environments and observers that check what they are given, for tests of drivers.

They are made from specs and refuse what does not fit them, so that a test fails where the mistake
is made.
"""

import collections
import threading

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from alf.data_structures import LAST, Experience, LogRecord, PolicyState, PolicyStep, TimeStep
from alf.environments import BatchedEnvironment
from alf.nest_utils import add_leading_dims, to_tensor_spec
from alf.policies import Policy
from alf.replay import OneTimeReplayer, UnrollReplayer
from alf.testing.toy_environments import CountingEnvironment

INDEX = tf.TensorSpec((), tf.int32)
VERSION = tf.TensorSpec((), tf.int64)
SIGNAL = tf.TensorSpec((), tf.float32)


def make_counting_envs(num_envs, batch_size=2, episode_length=4, cls=CountingEnvironment, **kwargs):
    """Makes counting environments whose ids are those that a driver gives them."""
    return [cls(batch_size, episode_length, env_index=i, **kwargs) for i in range(num_envs)]


def check_nest(what, nest, spec, leading=()):
    """Raises AssertionError unless the tensors of `nest` are statically what `spec` says."""
    spec = add_leading_dims(spec, *leading)
    tf.nest.assert_same_structure(spec, nest)
    for x, s in zip(tf.nest.flatten(nest), tf.nest.flatten(spec), strict=True):
        assert x.dtype == s.dtype, f"{what}: {x.dtype} instead of {s}"
        assert x.shape.is_fully_defined(), f"{what}: {x.shape} is not static, instead of {s}"
        assert x.shape == s.shape, f"{what}: {x.shape} instead of {s}"


def in_a_row(unrolls):
    """Joins consecutive unrolls of an environment, without the rows that are there twice."""
    rows = [u._replace(state=()) for u in unrolls]

    def join(*x):
        return np.concatenate([*(y[:-1] for y in x), x[-1][-1:]])

    return tf.nest.map_structure(join, *rows)


def assert_equal_nests(a, b):
    """Raises AssertionError unless two nests of arrays are the same, bit for bit."""
    tf.nest.assert_same_structure(a, b)
    for i, (x, y) in enumerate(zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True)):
        assert x.dtype == y.dtype and x.shape == y.shape, f"part {i} of {a}"
        np.testing.assert_array_equal(x, y, err_msg=f"part {i} of {type(a).__name__}")


class FrozenPolicy(Policy):
    """Acts by a fixed function of the observation, and notes in `info` all that it was shown.

    `info` is a dict: "seen", the `TimeStep` that the action answers, and "version", `progress.updates` during
    the rollout step.

    Args:
        env: environment whose specs to take.
        state_spec, data_transformer: as in `Policy`.
        info_spec: dict of specs that adds to the one above.

    Attributes:
        num_traces: how often `rollout_step` was traced.
        rows: how many rows each trace of `rollout_step` had, a deque.
    """

    def __init__(self, env, state_spec=(), info_spec=None, data_transformer=None):
        observation_spec = to_tensor_spec(env.observation_spec())
        action_spec = to_tensor_spec(env.action_spec())
        reward_spec = tf.TensorSpec(env.reward_spec().shape, tf.float32)
        self.time_step_spec = TimeStep(INDEX, reward_spec, SIGNAL, observation_spec, action_spec, INDEX)
        info_spec = {"seen": self.time_step_spec, "version": VERSION, **(info_spec or {})}
        name = type(self).__name__
        super().__init__(observation_spec, action_spec, state_spec, info_spec, data_transformer, name)
        self.rows = collections.deque()
        self.num_traces = 0

    def act(self, observation):
        """The action for each row, a function of the observation alone."""
        parts = [tf.reshape(tf.cast(x, tf.float32), (x.shape[0], -1)) for x in tf.nest.flatten(observation)]
        total = tf.reduce_sum(tf.abs(tf.concat(parts, axis=1)) * 37.0, axis=1)
        hashed = tf.cast(total, tf.int64)

        def choose(spec):
            number = hashed % (int(np.max(spec.maximum)) + 1)
            number = tf.reshape(number, (-1, *[1] * spec.shape.rank))
            return tf.cast(tf.broadcast_to(number, (hashed.shape[0], *spec.shape)), spec.dtype)

        return tf.nest.map_structure(choose, self.action_spec)

    def rollout_step(self, time_step, state):
        assert isinstance(time_step, TimeStep)
        rows = time_step.step_type.shape[0]
        assert rows is not None, "the number of rows must be static"
        check_nest("time_step", time_step, self.time_step_spec, (rows,))
        check_nest("state", state, self.state_spec, (rows,))
        self.num_traces += 1
        self.rows.append(rows)
        version = tf.fill((rows,), self.progress.updates.read_value())
        return PolicyStep(
            action=self.act(time_step.observation),
            state=self.next_state(state),
            info={"seen": time_step, "version": version, **self.more_info(state)},
        )

    def next_state(self, state):
        return state

    def more_info(self, state):
        return {}


class CountingStatePolicy(FrozenPolicy):
    """Has a recurrent state that counts its steps; `info["state"]` is the state that entered.

    So it is the step within the episode, if the state is zero wherever an episode begins.
    """

    def __init__(self, env):
        count = tf.TensorSpec((), tf.int64)
        super().__init__(env, state_spec=count, info_spec={"state": count})

    def next_state(self, state):
        return state + 1

    def more_info(self, state):
        return {"state": state}


class FailingPolicy(FrozenPolicy):
    """Its rollout step fails, as it runs, at call `fail_at`.

    With an assertion, or, if `out_of_range` holds, with the error that a closed queue raises too.
    """

    def __init__(self, env, fail_at, out_of_range=False):
        super().__init__(env)
        self._fail_at = fail_at
        self._empty = tf.queue.FIFOQueue(1, [tf.int32], [()]) if out_of_range else None
        if out_of_range:
            self._empty.close()
        self._calls = tf.Variable(0, trainable=False)

    def rollout_step(self, time_step, state):
        calls = self._calls.assign_add(1)
        if self._empty is None:
            fine = tf.debugging.Assert(calls < self._fail_at, ["the policy failed", calls])
        else:
            fine = tf.cond(calls < self._fail_at, lambda: 0, self._empty.dequeue)
        with tf.control_dependencies([fine]):
            return super().rollout_step(time_step, state)


class WrongPolicy(FrozenPolicy):
    """Answers `change(policy_step)`."""

    def __init__(self, env, change):
        super().__init__(env)
        self._change = change

    def rollout_step(self, time_step, state):
        return self._change(super().rollout_step(time_step, state))


class RecordingLearner:
    """Stands in for a `Learner`: keeps what it observes, and learns nothing.

    A test may move `progress.updates`, the version of the weights.

    Args:
        policy: `FrozenPolicy`.
        replayer: whose name errors show; its kind says whether fresh experience is needed.

    Attributes:
        policy, progress: as in `Learner`.
        observed: deque of the `Experience`s given to `observe`, as NumPy arrays.
    """

    def __init__(self, policy, replayer=None):
        self.policy = policy
        self.progress = policy.progress
        self.replayer = replayer or OneTimeReplayer()
        self.observed = collections.deque()

    @property
    def needs_fresh_experience(self):
        return isinstance(self.replayer, UnrollReplayer)

    def check_batch_size(self, batch_size):
        assert isinstance(batch_size, int) and batch_size > 0

    def observe(self, experience):
        assert isinstance(experience, Experience)
        num_unrolls, length, batch_size = experience.step_type.shape
        policy = self.policy
        rows = Experience(*policy.time_step_spec, policy.action_spec, policy.info_spec, VERSION)
        dims = (num_unrolls, length, batch_size)
        check_nest("experience", experience._replace(state=PolicyState()), rows, dims)
        check_nest("state", experience.state, policy.policy_step_spec.state, (num_unrolls, batch_size))
        self.observed.append(tf.nest.map_structure(lambda x: x.numpy(), experience))

    def train(self):
        return {}

    def unrolls(self, num_envs):
        """What was observed, a list per environment of `Experience`s of [T+1, B, ...]."""
        unrolls = [[] for _ in range(num_envs)]
        for experience in self.observed:
            for q, env_id in enumerate(experience.env_id[:, 0, 0]):
                unroll = tf.nest.map_structure(lambda x, q=q: x[q], experience)
                unrolls[env_id // experience.env_id.shape[-1]].append(unroll)
        return unrolls


class RecordingObserver:
    """Keeps every `LogRecord`, after a look at its types.

    Attributes:
        records: list of `LogRecord`s, in the order of arrival.
        threads: set of the names of the threads that called.
    """

    def __init__(self):
        self.records = []
        self.threads = set()
        self._changed = threading.Condition()

    def __call__(self, record):
        assert isinstance(record, LogRecord)
        assert all(isinstance(x, np.ndarray) for x in record)
        length, batch_size = record.step_type.shape
        assert record.step_type.dtype == np.int32 and record.env_id.dtype == np.int32
        assert record.reward.dtype == np.float32 and record.discount.dtype == np.float32
        assert record.reward.shape[:2] == record.discount.shape == (length, batch_size)
        assert record.env_id.shape == (batch_size,)
        with self._changed:
            self.threads.add(threading.current_thread().name)
            self.records.append(record)
            self._changed.notify_all()

    def of_env(self, env_index):
        """The records of one batched environment."""
        return [r for r in self.records if r.env_id[0] // len(r.env_id) == env_index]

    def wait_for(self, condition, timeout=20.0):
        """Waits up to `timeout` seconds until `condition()` holds; returns whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)


class FakeEnvironment(CountingEnvironment):
    """A counting environment that remembers how it was used.

    Attributes:
        num_steps, num_resets, num_closes: calls so far.
    """

    def __init__(self, batch_size, episode_length=4, env_index=0):
        super().__init__(batch_size, episode_length, env_index)
        self.num_steps = 0
        self.num_resets = 0
        self.num_closes = 0

    def _reset(self):
        self.num_resets += 1
        return super()._reset()

    def _step(self, action):
        assert isinstance(action, np.ndarray), type(action)
        assert action.dtype == self.action_spec().dtype, action.dtype
        assert self.num_closes == 0, "an environment was stepped after it was closed"
        self.num_steps += 1
        return super()._step(action)

    def close(self):
        self.num_closes += 1


class RaisingEnvironment(FakeEnvironment):
    """Raises `error` in step number `raise_at`, from `fail_on_purpose`.

    `raise_at` counts from 1; 0 is the reset, None is never.
    """

    def __init__(self, batch_size, episode_length=4, env_index=0, raise_at=None, error=None):
        super().__init__(batch_size, episode_length, env_index)
        self._raise_at = raise_at
        self._error = error if error is not None else OSError("the environment's own error")

    def fail_on_purpose(self):
        raise self._error

    def _reset(self):
        if self._raise_at == 0:
            self.fail_on_purpose()
        return super()._reset()

    def _step(self, action):
        time_step = super()._step(action)
        if self.num_steps == self._raise_at:
            self.fail_on_purpose()
        return time_step


class BlockingEnvironment(FakeEnvironment):
    """Does not return from step number `block_at` until `release` is set.

    Attributes:
        blocked: event, set while step() waits.
        release: event that ends the wait.
    """

    def __init__(self, batch_size, episode_length=4, env_index=0, block_at=1):
        super().__init__(batch_size, episode_length, env_index)
        self._block_at = block_at
        self.blocked = threading.Event()
        self.release = threading.Event()

    def _step(self, action):
        time_step = super()._step(action)
        if self.num_steps == self._block_at:
            self.blocked.set()
            assert self.release.wait(60), "the test did not release the environment"
        return time_step


class WrongEnvironment(FakeEnvironment):
    """Returns `change(time_step)`, which need not fit the specs, from step number `wrong_at` on.

    `wrong_at` counts from 1; 0 is the reset.
    """

    def __init__(self, batch_size, episode_length=4, env_index=0, change=None, wrong_at=1):
        super().__init__(batch_size, episode_length, env_index)
        self._change = change
        self._wrong_at = wrong_at

    def _reset(self):
        time_step = super()._reset()
        return self._change(time_step) if self._wrong_at == 0 else time_step

    def _step(self, action):
        time_step = super()._step(action)
        return self._change(time_step) if self.num_steps >= self._wrong_at > 0 else time_step


class SpecEnvironment(BatchedEnvironment):
    """Random, seeded time steps of any specs; every step type and any nest of observations.

    Rows end by chance, with the probability `p_end`.
    """

    def __init__(self, batch_size, observation_spec, action_spec, reward_spec, seed=0, p_end=0.2):
        super().__init__(batch_size, observation_spec, action_spec, reward_spec)
        self._rng = np.random.default_rng(seed)
        self._p_end = p_end
        self._step_type = None

    def _draw(self, spec):
        values = self._rng.uniform(0, 100, (self._batch_size, *spec.shape))
        return values.astype(spec.dtype)

    def _time_step(self):
        terminates = self._rng.integers(2, size=self._batch_size)
        first = (self._step_type == 0).astype(np.float32)
        reward = self._draw(self._reward_spec)
        reward = reward * (1 - first).reshape(-1, *[1] * (reward.ndim - 1))
        return ts.TimeStep(
            self._step_type.copy(),
            reward.astype(self._reward_spec.dtype),
            np.where(self._step_type == LAST, terminates, 1).astype(np.float32),
            tf.nest.map_structure(self._draw, self._observation_spec),
        )

    def _reset(self):
        self._step_type = np.zeros(self._batch_size, np.int32)
        return self._time_step()

    def _step(self, action):
        tf.nest.assert_same_structure(self._action_spec, action)
        ends = self._rng.random(self._batch_size) < self._p_end
        self._step_type = np.where(self._step_type == LAST, 0, 1 + ends).astype(np.int32)
        return self._time_step()
