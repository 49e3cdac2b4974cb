# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TFAgentsMetric: a metric of TF-Agents for a driver of ALF."""

from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import trajectory

from alf.data_structures import FIRST, LAST, LogRecord


class TFAgentsMetric:
    """A `Metric` for ALF's drivers that calls a metric of TF-Agents with a `Trajectory` of [N] for each step.

    N counts the sub-environments of all batched environments, and these step at different times. So the rows
    of the other environments are boundaries in the trajectory, from a LAST step to a FIRST one, which
    TF-Agents does not count. A checkpoint holds the values of a `StreamingMetric`, or the single numbers in
    the `_np_state` of another metric.

    Args:
        metric: `PyStepMetric`. Its attribute `needs`, if it has one, names the fields that it needs, like the
            attribute of any observer of a `Driver`; without it the trajectories have neither observation nor
            action.
        num_rows: int, N.
    """

    def __init__(self, metric: Any, num_rows: int) -> None:
        self.name = f"tf_agents/{metric.name}"
        self.needs = getattr(metric, "needs", ())
        self._metric = metric
        self._num_rows = num_rows
        self._last_rows = {}  # first env id of a batch -> the last row of its record before this one

    def __call__(self, record: LogRecord) -> None:
        # A record has T rows, and the step from its last row leads to the first row of the next record of the
        # same batched environment: so the last row waits here for it.
        key = int(record.env_id[0])
        rows = record._replace(env_id=(), env_info=(), first_value=())
        if key in self._last_rows:
            rows = tf.nest.map_structure(lambda *x: np.concatenate(x), self._last_rows[key], rows)
        self._last_rows[key] = tf.nest.map_structure(lambda x: x[-1:], rows)
        # One call for each step: TF-Agents' metrics count one step of all N rows at a time.
        steps = self._make_trajectories(rows, record.env_id)
        for t in range(len(rows.step_type) - 1):
            self._metric(tf.nest.map_structure(lambda x, t=t: x[t], steps))

    def _make_trajectories(self, rows, env_id):
        """Makes a `Trajectory` of [T, N] of the T transitions between the rows of one batched environment."""
        now, later = (tf.nest.map_structure(lambda x, s=s: x[s], rows) for s in (np.s_[:-1], np.s_[1:]))
        begins = later.step_type == FIRST  # Also if the restart of a worker has broken off an episode.
        reward = later.reward * np.reshape(~begins, (*begins.shape, *[1] * (later.reward.ndim - 2)))

        def spread(x, other=0):
            result = np.full((len(x), self._num_rows, *x.shape[2:]), other, x.dtype)
            result[:, env_id] = x
            return result

        return trajectory.Trajectory(
            step_type=spread(np.where(begins, np.int32(LAST), now.step_type), LAST),
            observation=tf.nest.map_structure(spread, now.observation),
            action=tf.nest.map_structure(spread, now.action),
            policy_info=(),
            next_step_type=spread(later.step_type, FIRST),
            reward=spread(reward),
            discount=spread(later.discount, 1),
        )

    def result(self) -> float:
        data = getattr(self._metric, "data", None)
        if data is not None and not len(data):
            return float("nan")
        return np.asarray(self._metric.result()).item()

    def get_state(self) -> Any:
        data = getattr(self._metric, "data", None)
        if data is not None:
            # A ring buffer: the oldest value is at the start index. TF-Agents has no public way to read them
            # all.
            places = (data._start_index + np.arange(len(data))) % data._maxlen
            return data._buffer[places.astype(np.int64)].tolist()
        arrays = self._metric._np_state._trackable_children() if hasattr(self._metric, "_np_state") else {}
        return {name: x.array.item() for name, x in arrays.items() if np.ndim(x.array) == 0}

    def set_state(self, state: Any) -> None:
        if isinstance(state, list):
            self._metric.data.clear()
            self._metric.data.extend(state)
            return
        for name, value in state.items():
            setattr(self._metric._np_state, name, np.asarray(value)[()])
