# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A policy, a learner, an observer and environments for tests of drivers, which check their arguments."""

import collections
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from alf.core.annotations import Array, Environment, Nest, NestedSpec
from alf.core.devices import HOST
from alf.core.nest_utils import add_leading_dims, find_mismatch, to_tensor_spec
from alf.data_structures import FIRST, LAST, EnvStep, Experience, LogRecord, PolicyState, PolicyStep, TimeStep
from alf.environments import BatchedEnvironment
from alf.policies import Policy
from alf.policies.data_transformers import Pipeline
from alf.replay import OneTimeReplayer, UnrollReplayer
from alf.testing.toy_environments import CountingEnvironment


def make_counting_envs(
    num_groups: int,
    batch_size: int = 2,
    episode_length: int = 4,
    cls: type[CountingEnvironment] = CountingEnvironment,
    **kwargs: Any,
) -> list[Any]:
    """Makes counting environments with the ids that a driver gives them."""
    return [cls(batch_size, episode_length, env_index=i, **kwargs) for i in range(num_groups)]


def check_nest(what: str, nest: Nest, spec: NestedSpec, *leading_dims: int | None) -> None:
    """Raises AssertionError unless the tensors of `nest` fit `spec`, with shapes that are fully static."""
    mismatch = find_mismatch(nest, add_leading_dims(spec, *leading_dims))
    assert not mismatch, f"{what}: {mismatch}"
    for x in tf.nest.flatten(nest):
        assert x.shape.is_fully_defined(), f"{what}: {x.shape} is not static"


def in_a_row(unrolls: Sequence[Experience]) -> Experience:
    """Joins consecutive unrolls of an environment. Of a row that two share, the answered one stays."""
    rows = [u._replace(state=()) for u in unrolls]
    return tf.nest.map_structure(lambda *x: np.concatenate([*(y[:-1] for y in x), x[-1][-1:]]), *rows)


def assert_equal_nests(a: Nest, b: Nest) -> None:
    """Raises AssertionError unless two nests of arrays are the same, bit for bit."""
    tf.nest.map_structure(functools.partial(np.testing.assert_array_equal, strict=True), a, b)


class FrozenPolicy(Policy):
    """Acts by a fixed function of the observation, and records all its inputs in `info`.

    `info` is a dict: "seen", the `TimeStep` that the action answers, and "version", `progress.updates` at
    that moment.

    Args:
        env: environment whose specs to take.
        counts_steps: bool, whether a recurrent state, int64, counts the steps. `info["state"]` is then the
            state that entered: the step within the episode, if the state is zero wherever one begins.
        change: function of the `PolicyStep`; `rollout_step` returns its result. None changes nothing.
        info_spec: dict of the specs that a subclass adds to `info`.
        data_transformer: `Pipeline` of the policy; None: one without transformers.

    Attributes:
        rows: how many rows each trace of `rollout_step` had, a deque.
    """

    def __init__(
        self,
        env: Environment,
        counts_steps: bool = False,
        change: Callable[[PolicyStep], PolicyStep] | None = None,
        info_spec: dict[str, Any] | None = None,
        data_transformer: Pipeline | None = None,
    ) -> None:
        observation_spec = to_tensor_spec(env.observation_spec())
        action_spec = to_tensor_spec(env.action_spec())
        reward_spec = tf.TensorSpec(env.reward_spec().shape, tf.float32)
        int32, int64, float32 = (tf.TensorSpec((), dtype) for dtype in (tf.int32, tf.int64, tf.float32))
        seen = TimeStep(int32, reward_spec, float32, observation_spec, action_spec, int32)
        info_spec = {"seen": seen, "version": int64, **(info_spec or {})}
        if counts_steps:
            info_spec["state"] = int64
        state_spec = PolicyState(train=int64 if counts_steps else ())
        transformer = data_transformer or Pipeline(observation_spec, reward_spec)
        name = type(self).__name__
        super().__init__(observation_spec, action_spec, state_spec, info_spec, transformer, name)
        self._counts_steps = counts_steps
        self._change = change
        self.rows = collections.deque()

    def rollout_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        assert isinstance(time_step, TimeStep)
        rows = time_step.step_type.shape[0]
        assert rows is not None, "the number of rows must be static"
        check_nest("time_step", time_step, self.info_spec["seen"], rows)
        check_nest("state", state, self.state_spec._replace(transformer=()), rows)
        self.rows.append(rows)  # Python runs this only while a trace is made.
        info = {"seen": time_step, "version": tf.fill((rows,), self.progress.updates.read_value())}
        if self._counts_steps:
            info["state"] = state.train
            state = state._replace(train=state.train + 1)
        policy_step = PolicyStep(self._choose_action(time_step.observation), state, info)
        return self._change(policy_step) if self._change else policy_step

    def _choose_action(self, observation):
        parts = [tf.reshape(tf.cast(x, tf.float32), (x.shape[0], -1)) for x in tf.nest.flatten(observation)]
        hashed = tf.cast(tf.reduce_sum(tf.abs(tf.concat(parts, axis=1)) * 37.0, axis=1), tf.int64)

        def choose(spec):
            number = tf.reshape(hashed % (int(np.max(spec.maximum)) + 1), (-1, *[1] * spec.shape.rank))
            return tf.cast(tf.broadcast_to(number, (hashed.shape[0], *spec.shape)), spec.dtype)

        return tf.nest.map_structure(choose, self.action_spec)


class RecordingLearner:
    """Stands in for a `Learner`: keeps the observed experience, and learns nothing.

    A test may move `progress.updates`, the version of the weights.

    Args:
        policy: `FrozenPolicy`.
        replayer: its name appears in errors, and its kind decides whether fresh experience is needed.

    Attributes:
        policy, progress, replayer, device, uses_env_info, needs_own_actions: attributes of a `Learner`.
        observed: deque of the `Experience`s given to `observe`, as NumPy arrays.
    """

    uses_env_info = needs_own_actions = False
    device: str = HOST

    def __init__(self, policy: Policy, replayer: Any = None) -> None:
        self.policy = policy
        self.progress = policy.progress
        self.replayer = replayer or OneTimeReplayer()
        self.observed = collections.deque()

    @property
    def needs_fresh_experience(self) -> bool:
        return isinstance(self.replayer, UnrollReplayer)

    def check_batch(self, num_unrolls: int, unroll_length: int, batch_size: int) -> None:
        pass

    def observe(self, experience: Experience) -> None:
        assert isinstance(experience, Experience)
        policy = self.policy
        num_unrolls, length, batch_size = experience.step_type.shape
        # Checked here, where the name of the wrong part is known, and not where a loss would fail.
        version = tf.TensorSpec((), tf.int64)
        rows = Experience(*policy.time_step_spec, policy.action_spec, policy.info_spec, version)
        plain = experience._replace(state=PolicyState(), env_info=())
        check_nest("rows", plain, rows, num_unrolls, length, batch_size)
        check_nest("state", experience.state, policy.policy_step_spec.state, num_unrolls, batch_size)
        self.observed.append(tf.nest.map_structure(lambda x: x.numpy(), experience))

    def train(self) -> dict[str, Array]:
        return {}

    def unrolls(self, num_groups: int) -> list[list[Experience]]:
        """Returns the observed unrolls: a list per environment of `Experience`s of [T+1, B, ...]."""
        unrolls = [[] for _ in range(num_groups)]
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

    def __init__(self) -> None:
        self.records = []
        self.threads = set()
        self._changed = threading.Condition()

    def __call__(self, record: LogRecord) -> None:
        assert isinstance(record, LogRecord)
        assert all(isinstance(x, np.ndarray) for x in tf.nest.flatten(record))
        assert [x.dtype for x in record[:4]] == [np.int32, np.float32, np.float32, np.int32]
        length, batch_size = record.step_type.shape
        assert record.reward.shape[:2] == record.discount.shape == (length, batch_size)
        assert record.env_id.shape == (batch_size,)
        # The log thread calls this while the test waits.
        with self._changed:
            self.threads.add(threading.current_thread().name)
            self.records.append(record)
            self._changed.notify_all()

    def of_env(self, env_index: int) -> list[LogRecord]:
        """Returns the records of one batched environment."""
        return [r for r in self.records if r.env_id[0] // len(r.env_id) == env_index]

    def wait_for(self, condition: Callable[[], bool], timeout: float = 20.0) -> bool:
        """Waits up to `timeout` seconds until `condition()` holds; returns whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)


class FakeEnvironment(CountingEnvironment):
    """A counting environment that remembers how it was used, and that a subclass can make fail.

    Attributes:
        num_steps, num_resets, num_closes: calls so far.
    """

    def __init__(self, batch_size: int, episode_length: int = 4, env_index: int = 0) -> None:
        super().__init__(batch_size, episode_length, env_index)
        self.num_steps = self.num_resets = self.num_closes = 0

    def answer(self, number: int, time_step: Any) -> Any:
        """Returns the result of step `number` (from 1); 0 is the reset. A subclass fails or waits here."""
        return time_step

    def _reset(self):
        self.num_resets += 1
        return self.answer(0, super()._reset())

    def _step(self, action):
        assert isinstance(action, np.ndarray), type(action)
        assert action.dtype == self.action_spec().dtype, action.dtype
        # A driver must join its threads before it closes their environments.
        assert self.num_closes == 0, "an environment was stepped after it was closed"
        self.num_steps += 1
        return self.answer(self.num_steps, super()._step(action))

    def close(self) -> None:
        self.num_closes += 1


class SpecEnvironment(BatchedEnvironment):
    """Random, seeded time steps of any specs. An episode ends at each step with probability 0.2."""

    def __init__(
        self,
        batch_size: int,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        reward_spec: NestedSpec,
        seed: int | None = 0,
    ) -> None:
        super().__init__(batch_size, observation_spec, action_spec, reward_spec)
        self._rng = np.random.default_rng(seed)

    def _time_step(self):
        def draw(spec):
            return self._rng.uniform(0, 100, (self._batch_size, *spec.shape)).astype(spec.dtype)

        reward = draw(self._reward_spec)
        reward[self._step_type == FIRST] = 0
        terminates = (self._step_type == LAST) & (self._rng.random(self._batch_size) < 0.5)
        observation = tf.nest.map_structure(draw, self._observation_spec)
        return EnvStep(self._step_type.copy(), reward, 1 - terminates.astype(np.float32), observation)

    def _reset(self):
        self._step_type = np.zeros(self._batch_size, np.int32)
        return self._time_step()

    def _step(self, action):
        tf.nest.assert_same_structure(self._action_spec, action)
        ends = self._rng.random(self._batch_size) < 0.2
        self._step_type = np.where(self._step_type == LAST, 0, 1 + ends).astype(np.int32)
        return self._time_step()
