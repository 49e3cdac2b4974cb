# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Metrics over `LogRecord`s, in NumPy: the log thread must not hold the GIL for long."""

import abc
import collections

import numpy as np

from alf.data_structures import FIRST, LAST


class Metric(abc.ABC):
    """An observer with a result.

    A metric is called with every `LogRecord` in order per environment, from one thread; `result` may be
    read from another one. `get_state` and `set_state` carry it through a checkpoint as JSON; episodes that
    were under way are not part of it, since environments start anew.
    """

    name = None

    @abc.abstractmethod
    def __call__(self, record):
        """Takes a `LogRecord` of NumPy arrays."""

    @abc.abstractmethod
    def result(self):
        """The metric's value now, an int or a float; NaN while there is none."""

    @abc.abstractmethod
    def get_state(self):
        """What `set_state` needs, as JSON types."""

    @abc.abstractmethod
    def set_state(self, state):
        """Restores what `get_state` returned."""


class _Counter(Metric):
    def __init__(self):
        self._count = 0

    def result(self):
        return self._count

    def get_state(self):
        return self._count

    def set_state(self, state):
        self._count = int(state)


class EnvironmentSteps(_Counter):
    """Steps taken in all environments; the row of a reset is not a step."""

    name = "EnvironmentSteps"

    def __call__(self, record):
        self._count += int(np.count_nonzero(record.step_type != FIRST))


class NumberOfEpisodes(_Counter):
    """Episodes that ended."""

    name = "NumberOfEpisodes"

    def __call__(self, record):
        self._count += int(np.count_nonzero(record.step_type == LAST))


class _EpisodeAverage(Metric):
    """Average over the last `buffer_size` episodes of a sum over each episode's steps."""

    def __init__(self, buffer_size=100):
        self._buffer = collections.deque(maxlen=buffer_size)
        self._sums = {}  # first env id of a batch -> sum so far [B] of the episodes under way

    def __call__(self, record):
        key = int(record.env_id[0])
        length, batch_size = record.step_type.shape
        # A row for each environment: the sum so far, the steps, and a zero so that no part is empty.
        width = length + 2
        values = np.zeros((batch_size, width))
        values[:, 0] = self._sums.get(key, 0.0)
        values[:, 1:-1] = self._values(record).T
        # Its parts begin with the row, with a FIRST step and after a LAST one.
        begun_env, begun_t = np.nonzero((record.step_type == FIRST).T)
        ended_env, ended_t = np.nonzero((record.step_type == LAST).T)
        after_last = ended_env * width + ended_t + 2
        rows = np.arange(batch_size) * width
        starts = np.unique(np.concatenate([rows, begun_env * width + begun_t + 1, after_last]))
        stops = np.append(starts[1:], batch_size * width)
        sums = np.add.reduceat(values.ravel(), starts)
        self._sums[key] = sums[stops % width == 0]  # of the episodes under way
        # Parts that a LAST step ends are episodes; a part that another ends was broken off.
        episodes = sums[np.searchsorted(stops, after_last)]
        self._buffer.extend(episodes[np.argsort(ended_t, kind="stable")].tolist())

    @abc.abstractmethod
    def _values(self, record):
        """What each step adds, [T, B]."""

    @property
    def full(self):
        """Whether `buffer_size` episodes have ended."""
        return len(self._buffer) == self._buffer.maxlen

    def result(self):
        values = tuple(self._buffer)
        return float(np.mean(values)) if values else float("nan")

    def get_state(self):
        return list(self._buffer)

    def set_state(self, state):
        self._buffer.clear()
        self._buffer.extend(state)


class AverageReturn(_EpisodeAverage):
    """Average undiscounted return of the last episodes; vector rewards are summed."""

    name = "AverageReturn"

    def _values(self, record):
        reward = record.reward if record.reward.ndim == 2 else record.reward.sum(axis=-1)
        return np.where(record.step_type == FIRST, 0.0, reward)


class AverageEpisodeLength(_EpisodeAverage):
    """Average number of steps of the last episodes."""

    name = "AverageEpisodeLength"

    def _values(self, record):
        return record.step_type != FIRST
