# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Metrics against a loop over single steps."""

import json
import math

import numpy as np
import pytest

from alf.data_structures import FIRST, LAST, MID, LogRecord
from alf.drivers.metrics import AverageEpisodeLength, AverageReturn, EnvironmentSteps, NumberOfEpisodes

METRICS = (EnvironmentSteps, NumberOfEpisodes, AverageReturn, AverageEpisodeLength)


class StepByStep:
    """What the metrics should be, computed one step of one environment at a time."""

    def __init__(self, buffer_size=100):
        self._buffer_size = buffer_size
        self._under_way = {}  # env id -> (return, length)
        self.steps = 0
        self.episodes = []  # (return, length), in the order in which they ended

    def __call__(self, record):
        for t in range(record.step_type.shape[0]):
            for b, env_id in enumerate(record.env_id.tolist()):
                self._step(env_id, record.step_type[t, b], record.reward[t, b])

    def _step(self, env_id, step_type, reward):
        if step_type == FIRST:
            self._under_way[env_id] = (0.0, 0)
            return
        self.steps += 1
        episode_return, length = self._under_way[env_id]
        self._under_way[env_id] = (episode_return + float(np.sum(reward)), length + 1)
        if step_type == LAST:
            self.episodes.append(self._under_way.pop(env_id))

    def results(self):
        last = self.episodes[-self._buffer_size :] or [(math.nan, math.nan)]
        episode_return, length = np.mean(last, axis=0)
        return [self.steps, len(self.episodes), episode_return, length]


class Worlds:
    """Random steps of `num_envs` batched environments, in order for each."""

    def __init__(self, rng, num_envs, batch_size, p_end, reward_shape=()):
        self._rng = rng
        self._ids = np.arange(num_envs * batch_size, dtype=np.int32).reshape(num_envs, batch_size)
        self._step_type = np.full((num_envs, batch_size), LAST, np.int32)
        self._p_end = p_end
        self._reward_shape = reward_shape

    def record(self, env, length):
        step_types = []
        for _ in range(length):
            ends = self._rng.random(self._ids.shape[1]) < self._p_end
            broken_off = self._rng.random(self._ids.shape[1]) < 0.03
            after = np.where(ends, LAST, MID)
            begins = broken_off | (self._step_type[env] == LAST)
            self._step_type[env] = np.where(begins, FIRST, after)
            step_types.append(self._step_type[env].copy())
        step_type = np.stack(step_types).astype(np.int32)
        # Not even the reward of a reset, which ought to be 0, may count.
        reward = self._rng.normal(size=(*step_type.shape, *self._reward_shape)).astype(np.float32)
        return LogRecord(step_type, reward, np.ones(step_type.shape, np.float32), self._ids[env])


def make_metrics(buffer_size):
    averages = [AverageReturn(buffer_size), AverageEpisodeLength(buffer_size)]
    return [EnvironmentSteps(), NumberOfEpisodes(), *averages]


def record_of(step_types, rewards, env_id=(0,)):
    """A record of one column, or of several."""
    step_type = np.array(step_types, np.int32).reshape(len(step_types), -1)
    reward = np.array(rewards, np.float32).reshape(step_type.shape)
    return LogRecord(step_type, reward, np.ones_like(reward), np.array(env_id, np.int32))


@pytest.mark.parametrize("p_end", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("length", [1, 2, 13])
@pytest.mark.parametrize("reward_shape", [(), (3,), (1,)], ids=str)
def test_metrics_equal_the_loop_over_steps(p_end, length, reward_shape):
    """From episodes that never end to records that hold several, envs and rows in any order."""
    rng = np.random.default_rng(length)
    num_envs = 3
    worlds = Worlds(rng, num_envs, batch_size=4, p_end=p_end, reward_shape=reward_shape)
    # All episodes are kept: in which order those of one record count is free.
    size = 10**6
    expected = StepByStep(size)
    metrics = make_metrics(size)
    for _ in range(25):
        record = worlds.record(rng.integers(num_envs), length)
        expected(record)
        for metric in metrics:
            metric(record)
        np.testing.assert_allclose(
            [metric.result() for metric in metrics], expected.results(), rtol=1e-6, atol=1e-6
        )


def test_only_the_last_episodes_count_in_the_order_in_which_they_ended():
    """One environment of one row, so that there is one order only."""
    rng = np.random.default_rng(0)
    worlds = Worlds(rng, num_envs=1, batch_size=1, p_end=0.4)
    expected = StepByStep(buffer_size=5)
    metrics = make_metrics(buffer_size=5)
    for _ in range(20):
        record = worlds.record(0, 11)
        expected(record)
        for metric in metrics:
            metric(record)
        np.testing.assert_allclose([m.result() for m in metrics], expected.results(), rtol=1e-6)


def test_episodes_of_a_record_are_kept_in_the_order_of_time():
    metric = AverageReturn(buffer_size=1)
    metric(
        record_of(
            [[FIRST, FIRST], [MID, LAST], [LAST, FIRST], [FIRST, MID]],
            [[0, 0], [1, 5], [1, 0], [0, 1]],
            env_id=(0, 1),
        )
    )
    assert metric.result() == 2.0  # the first environment's, which ended later


@pytest.mark.parametrize(
    "records, returns, lengths",
    [
        ([([FIRST, LAST], [0, 3])], [3], [1]),
        ([([FIRST, MID, FIRST, LAST], [0, 5, 0, 2])], [2], [1]),  # broken off
        ([([FIRST, MID], [0, 5]), ([FIRST, LAST, FIRST], [9, 2, 9])], [2], [1]),
        ([([FIRST], [0]), ([LAST], [3])], [3], [1]),
        ([([FIRST, MID], [0, 1]), ([LAST, FIRST], [3, 9])], [4], [2]),  # ends at row 0
        ([([FIRST, MID, LAST], [9, 1, 3]), ([FIRST, LAST, FIRST], [0, 7, 0])], [4, 7], [2, 1]),
        ([([FIRST, LAST, FIRST, LAST, FIRST], [0, 1, 0, 2, 0]), ([LAST], [3])], [1, 2, 3], [1] * 3),
        ([([FIRST, MID, MID], [0, 1, 1])], [], []),
    ],
)
def test_episodes_by_hand(records, returns, lengths):
    metrics = [metric() for metric in METRICS]
    for step_types, rewards in records:
        for metric in metrics:
            metric(record_of(step_types, rewards))
    mean = lambda x: np.mean(x) if x else math.nan  # noqa: E731
    results = [metric.result() for metric in metrics]
    np.testing.assert_allclose(results[1:], [len(returns), mean(returns), mean(lengths)])
    assert results[0] == sum(t != FIRST for step_types, _ in records for t in step_types)


def test_integer_rewards_are_exact_over_long_episodes():
    """float32 would stop counting at 2**24."""
    metric = AverageReturn()
    metric(record_of([FIRST, MID], [0, 2**24]))
    for _ in range(10):
        metric(record_of([MID], [1]))
    metric(record_of([LAST], [1]))
    assert metric.result() == 2**24 + 11


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_spoils_its_own_episode_alone(bad):
    metric = AverageReturn(buffer_size=2)
    metric(record_of([FIRST, LAST, FIRST, LAST, FIRST, LAST], [0, bad, 0, 1, 0, 2]))
    assert metric.result() == 1.5
    metric(record_of([FIRST, MID], [0, bad]))
    metric(record_of([LAST, FIRST, MID], [1, 0, 1]))
    metric(record_of([LAST, FIRST, LAST], [1, 0, 4]))
    assert metric.result() == 3.0


def test_without_episodes():
    results = [metric().result() for metric in METRICS]
    assert results[:2] == [0, 0]
    assert all(math.isnan(x) for x in results[2:])
    assert [metric.name for metric in METRICS] == [metric.__name__ for metric in METRICS]


@pytest.mark.parametrize("metric_class", METRICS)
def test_state_makes_a_round_trip_through_json(metric_class):
    rng = np.random.default_rng(1)
    worlds = Worlds(rng, num_envs=1, batch_size=3, p_end=0.3)
    metric = metric_class()
    metric(worlds.record(0, 40))
    restored = metric_class()
    restored.set_state(json.loads(json.dumps(metric.get_state())))
    assert restored.result() == metric.result()
    assert restored.get_state() == metric.get_state()
    # It goes on counting. The environments start anew, so do their episodes.
    after = record_of([FIRST, MID, LAST], [0, 1, 5])
    metric(after._replace(env_id=np.array([9], np.int32)))
    restored(after)
    assert restored.result() == pytest.approx(metric.result())


def test_full():
    metric = AverageReturn(buffer_size=2)
    metric(record_of([FIRST, LAST], [0, 1]))
    assert not metric.full
    metric(record_of([FIRST, LAST], [0, 1]))
    assert metric.full
