# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Metrics over `LogRecord`s, in NumPy, because the log thread must not hold the GIL for long."""

import abc
import collections

import numpy as np

from alf.data_structures import FIRST, LAST


class Metric(abc.ABC):
    """A number that is computed from all `LogRecord`s.

    One thread calls a metric with every record, for each environment in the order of time. Another thread may
    read `result`. A checkpoint holds `get_state` as JSON, without the unfinished episodes: in a new run the
    environments start new episodes.
    """

    name = None

    @abc.abstractmethod
    def __call__(self, record):
        """Takes a `LogRecord` of NumPy arrays."""

    @abc.abstractmethod
    def result(self):
        """Returns the current value, an int or a float; NaN while there is none."""

    @abc.abstractmethod
    def get_state(self):
        """Returns the state for `set_state`, as JSON types."""

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
    """Number of steps in all environments; the row of a reset is not a step."""

    name = "EnvironmentSteps"

    def __call__(self, record):
        self._count += int(np.count_nonzero(record.step_type != FIRST))


class NumberOfEpisodes(_Counter):
    """Number of episodes that ended."""

    name = "NumberOfEpisodes"

    def __call__(self, record):
        self._count += int(np.count_nonzero(record.step_type == LAST))


class _EpisodeAverage(Metric):
    """Average over the last `buffer_size` episodes of a sum over the steps of each."""

    def __init__(self, buffer_size=100):
        self._buffer = collections.deque(maxlen=buffer_size)
        self._sums = {}  # first env id of a batch -> sums [B] of the unfinished episodes

    def __call__(self, record):
        key = int(record.env_id[0])
        length, batch_size = record.step_type.shape
        # Number the episodes, environment by environment. An episode begins at a FIRST step; the one in row 0
        # may have begun in an earlier record.
        begins = record.step_type == FIRST
        is_new = begins[0].copy()
        begins[0] = True
        number = (np.cumsum(begins.T) - 1).reshape(batch_size, length).T
        # Sum up the values with the same number.
        sums = np.bincount(number.ravel(), self._values(record).ravel())
        sums[number[0]] += np.where(is_new, 0.0, self._sums.get(key, 0.0))
        self._buffer.extend(sums[number[record.step_type == LAST]].tolist())
        self._sums[key] = sums[number[-1]]

    @abc.abstractmethod
    def _values(self, record):
        """Returns what each step adds, [T, B]; 0 at FIRST steps."""

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
        self._buffer = collections.deque(state, self._buffer.maxlen)


class AverageReturn(_EpisodeAverage):
    """Average undiscounted return of the last episodes; the components of a vector reward are added."""

    name = "AverageReturn"

    def _values(self, record):
        reward = record.reward if record.reward.ndim == 2 else record.reward.sum(axis=-1)
        return np.where(record.step_type == FIRST, 0.0, reward)


class AverageEpisodeLength(_EpisodeAverage):
    """Average number of steps of the last episodes."""

    name = "AverageEpisodeLength"

    def _values(self, record):
        return record.step_type != FIRST
