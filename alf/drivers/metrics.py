# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Metrics of `LogRecord`s. They compute with NumPy, because the log thread must not hold the GIL for long.

docs/metrics.md has their names and formulas.
"""

import abc
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from alf.core.annotations import Array
from alf.core.user_calls import user_call
from alf.data_structures import FIRST, LAST, LogRecord
from alf.errors import ConfigError


class Metric(abc.ABC):
    """A number that is computed from all `LogRecord`s.

    One thread calls a metric with every record, for each environment in the order of time. Another thread may
    call `result`. A checkpoint holds the state from `get_state` as JSON, without unfinished episodes, because
    environments start new episodes when a run is continued.

    Attributes:
        name: text; the metrics of a driver have different names.
        needs: tuple of optional fields of `LogRecord`, as in `Monitoring.observers`.
    """

    name: Any = None
    needs = ()

    def __repr__(self) -> str:
        value = self.result()
        return f"<Metric {self.name}: {f'{value:g}' if isinstance(value, (int, float)) else value}>"

    @abc.abstractmethod
    def __call__(self, record: LogRecord) -> None:
        """Updates the metric with a `LogRecord` of NumPy arrays."""

    @abc.abstractmethod
    def result(self) -> float:
        """Returns the current value, an int or a float; NaN before the first value."""

    @abc.abstractmethod
    def get_state(self) -> Any:
        """Returns the state for `set_state`, as JSON types."""

    @abc.abstractmethod
    def set_state(self, state: Any) -> None:
        """Restores the state that `get_state` returned."""


class _Counter(Metric):
    def __init__(self):
        # Without a lock: only the thread that logs adds, and other threads read an int, the old one or the
        # new one.
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

    def __call__(self, record: LogRecord) -> None:
        self._count += int(np.count_nonzero(record.step_type != FIRST))


class PolicySteps(_Counter):
    """Number of steps that one of several policies has made. `EpisodeStatistics` counts them.

    Args:
        policy: text, the name of the policy.
    """

    def __init__(self, policy: str) -> None:
        super().__init__()
        self.name = f"policies/{policy}/EnvironmentSteps"

    def __call__(self, record: LogRecord) -> None:
        """Does nothing: `EpisodeStatistics` reads the records and calls `add`."""

    def add(self, steps: int) -> None:
        self._count += steps


class NumberOfEpisodes(_Counter):
    """Number of episodes that ended."""

    name = "NumberOfEpisodes"

    def __call__(self, record: LogRecord) -> None:
        self._count += int(np.count_nonzero(record.step_type == LAST))


class EpisodeMetric(Metric):
    """Average, minimum or maximum of a figure of the last episodes. `EpisodeStatistics` fills it.

    Args:
        name: text, as in `Metric`.
        values: deque with a `maxlen`: the figure for each of the last episodes. Metrics may share it.
        reduce: function from a tuple of floats to a float.
    """

    def __init__(self, name: str, values: deque[float], reduce: Callable[..., float] = np.mean) -> None:
        self.name = name
        self._values = values
        self._reduce = reduce

    def __call__(self, record: LogRecord) -> None:
        """Does nothing: `EpisodeStatistics` reads the records and appends to `values`."""

    def result(self) -> float:
        values = tuple(self._values)  # a copy at once: the log thread may append meanwhile
        return float(self._reduce(values)) if values else float("nan")

    def get_state(self) -> Any:
        return list(self._values)

    def set_state(self, state: Any) -> None:
        # In place: several metrics share this deque, and `EpisodeStatistics` appends to it.
        self._values.clear()
        self._values.extend(state)


class BalancedReturn(Metric):
    """Mean of the returns of the last k episodes of each row, so that short episodes do not count more.

    A row is a sub-environment, or an agent of it. Among the last episodes of all rows together the short ones
    prevail: they end first in the beginning of a run, and a row of short episodes ends more of them. Here k
    is n, or as many episodes as the row with the fewest has ended until each has ended n. The result is NaN
    until each has ended one. Whether an episode is among the last k of its row depends on the episodes after
    it, not on its own length.

    A row that never acts does not count if another row of its batched environment acts: agents that take no
    part in a game have such rows. `EpisodeStatistics` fills the metric.

    Args:
        num_groups: int, batched environments.
        batch_size: int, rows of each.
        window: int; n is `window` divided by the number of rows, rounded up.
        name: text, as in `Metric`.
    """

    def __init__(self, num_groups: int, batch_size: int, window: int, name: str = "BalancedReturn") -> None:
        self.name = name
        num_rows = num_groups * batch_size
        num_episodes = -(-window // max(1, num_rows))
        # The last returns of each row, the newest one at the end; NaN in place of those that lack.
        self._returns = np.full((num_rows, num_episodes), np.nan)
        self._acts = np.zeros(num_rows, bool)
        self._batch_size = batch_size

    def __call__(self, record: LogRecord) -> None:
        """Does nothing: `EpisodeStatistics` reads the records and calls `note_steps` and `add`."""

    def note_steps(self, rows: Array) -> None:
        """Notes that rows have made steps, an int array of their numbers."""
        self._acts[rows] = True

    def add(self, rows: Array, returns: Array) -> None:
        """Adds episodes in the order in which they ended: their rows, int [E], and returns, float [E]."""
        self.note_steps(rows)
        for row, value in zip(rows.tolist(), returns.tolist(), strict=True):
            last = self._returns[row]
            last[:-1] = last[1:]
            last[-1] = value

    def result(self) -> float:
        returns = self._select()
        return float(returns.mean()) if returns.size else float("nan")

    @property
    def is_full(self) -> bool:
        """Whether each row has ended n episodes."""
        return self._select().shape[1] == self._returns.shape[1]

    def _select(self):
        """Returns the last k returns of each row that acts, an array [., k]."""
        acts = self._acts.copy()  # at once: the log thread may change it meanwhile
        returns = self._returns[acts]
        # Each batched environment must have begun: before its first step none of its rows acts.
        if not acts.any() or not acts.reshape(-1, self._batch_size).any(axis=1).all():
            return returns[:, :0]
        count = np.count_nonzero(~np.isnan(returns), axis=1).min()
        return returns[:, returns.shape[1] - count :]

    def get_state(self) -> Any:
        """Returns a list with the returns of each row; None for a row that has not acted."""
        pairs = zip(self._returns, self._acts, strict=True)
        return [row[~np.isnan(row)].tolist() if acts else None for row, acts in pairs]

    def set_state(self, state: Any) -> None:
        """Restores the state; rows that act already share what the rows of the state have."""
        length = self._returns.shape[1]
        # The number of rows may have changed: rows that are new begin without episodes. And a policy that
        # copies another one acts in other rows.
        found = {i: values for i, values in enumerate(state[: len(self._returns)]) if values is not None}
        rows = np.flatnonzero(self._acts).tolist() or list(found)
        self._returns[:] = np.nan
        for row, values in zip(rows, itertools.cycle(found.values())):
            self._acts[row] = True
            kept = values[-length:]
            self._returns[row, length - len(kept) :] = kept


def read_number(metric: Metric) -> float:
    """Returns the result of a metric; raises ConfigError if it is no number."""
    with user_call(f"result of the metric {metric.name!r}"):
        value = metric.result()
    if np.ndim(value):
        what = f"a result of shape {np.shape(value)}"
    elif hasattr(value, "__float__"):
        return value
    else:
        what = f"the result {value!r}"
    raise ConfigError(f"the metric {metric.name!r} has {what}: it must be one number")


def check_names(metrics):
    """Raises ConfigError if two metrics have the same name: both would be shown and saved under it."""
    names = [metric.name for metric in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"metrics: two of them have the name {name!r}")
