# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TrajectoryObserver and TFAgentsMetric: observers and metrics of TF-Agents for a driver of ALF."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.metrics import tf_metric, tf_metrics  # noqa: F401  (gin files name those of `tf_metrics`)
from tf_agents.trajectories import trajectory

from alf.data_structures import FIRST, LAST, LogRecord
from alf.errors import ConfigError


class TrajectoryObserver:
    """An observer for ALF's drivers that calls one of TF-Agents with a `Trajectory` of [N] for each step.

    N counts the sub-environments of all batched environments, which step at different times. A trajectory has
    a step of each: the steps of the faster ones wait in memory for the slowest one. `policy_info` is ().

    Args:
        observer: callable (`Trajectory` of arrays), such as `replay_buffer.add_batch`.
        num_rows: int, N.
        needs: tuple of the fields that it needs, like the attribute of any observer of a `Driver`; without
            one of them the trajectories have () there.
        waits: False: no step waits. In the trajectory the rows of the other batched environments are
            boundaries, from a LAST step to a FIRST one, which metrics do not count.
    """

    def __init__(
        self,
        observer: Callable[[Any], Any],
        num_rows: int,
        needs: tuple[str, ...] = ("observation", "action"),
        waits: bool = True,
    ) -> None:
        self.needs = needs
        self._observer = observer
        self._num_rows = num_rows
        self._waits = waits
        # Each by the first env id of a batch: the last row of its record before this one, and the steps that
        # wait for other environments.
        self._last_rows, self._waiting = {}, {}

    def __call__(self, record: LogRecord) -> None:
        # A record has T rows, and the step from its last row leads to the first row of the next record of the
        # same batched environment: so the last row waits here for it.
        key = int(record.env_id[0])
        rows = record._replace(env_id=(), env_info=())
        if key in self._last_rows:
            rows = tf.nest.map_structure(lambda *x: np.concatenate(x), self._last_rows[key], rows)
        self._last_rows[key] = tf.nest.map_structure(lambda x: x[-1:], rows)
        # One call for each step: TF-Agents' metrics count one step of all N rows at a time.
        steps = self._make_trajectories(rows, record.env_id)
        if self._waits:
            steps = self._wait(key, steps)
        for t in range(len(steps.step_type)):
            self._observer(tf.nest.map_structure(lambda x, t=t: x[t], steps))

    def _wait(self, key, steps):
        """Adds steps [T, B] to those that wait; returns the steps [., N] that all environments have made."""
        waiting = self._waiting
        before = [waiting[key]] if key in waiting else []
        waiting[key] = tf.nest.map_structure(lambda *x: np.concatenate(x), *before, steps)
        is_complete = len(waiting) * steps.step_type.shape[1] == self._num_rows
        count = min(len(x.step_type) for x in waiting.values()) if is_complete else 0
        parts = [tf.nest.map_structure(lambda x: x[:count], waiting[k]) for k in sorted(waiting)]
        for k, x in waiting.items():
            waiting[k] = tf.nest.map_structure(lambda x: x[count:], x)
        return tf.nest.map_structure(lambda *x: np.concatenate(x, axis=1), *parts)

    def _make_trajectories(self, rows, env_id):
        """Makes a `Trajectory` of the T transitions between the rows of one batched environment.

        It has [T, B] if environments wait for each other, else [T, N].
        """
        now, later = (tf.nest.map_structure(lambda x, s=s: x[s], rows) for s in (np.s_[:-1], np.s_[1:]))
        begins = later.step_type == FIRST  # Also if the restart of a worker has broken off an episode.
        reward = later.reward * np.reshape(~begins, (*begins.shape, *[1] * (later.reward.ndim - 2)))

        def spread(x, other=0):
            if self._waits:
                return x
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


class TFAgentsMetric(TrajectoryObserver):
    """A `Metric` for ALF's drivers that calls a metric of TF-Agents with a `Trajectory` of [N] for each step.

    A checkpoint holds the variables of a `TFStepMetric`, the values of a `StreamingMetric`, or the single
    numbers in the `_np_state` of another metric, but nothing of unfinished episodes.

    Args:
        metric: `PyStepMetric`, or `TFStepMetric` whose `batch_size`, if it has one, is N. Its attribute
            `needs`, if it has one, names the fields that it needs, like the attribute of any observer of a
            `Driver`; without it the trajectories have neither observation nor action.
        num_rows: int, N.
    """

    def __init__(self, metric: Any, num_rows: int) -> None:
        super().__init__(metric, num_rows, getattr(metric, "needs", ()), waits=False)
        self.name = f"tf_agents/{metric.name}"
        self._metric = metric
        self._is_tf = isinstance(metric, tf_metric.TFStepMetric)
        for x in metric.variables if self._is_tf else ():
            if _is_of_unfinished_episodes(x) and x.shape.rank == 1 and x.shape[0] != num_rows:
                raise ConfigError(
                    f"metrics: batch_size of {metric.name} is {x.shape[0]}: it must be {num_rows}, the "
                    "sub-environments of all environments"
                )

    def _list_variables(self):
        """Lists the variables of a `TFStepMetric` for checkpoints, those of its queue of values last."""
        values = getattr(self._metric, "_buffer", None)  # no `tf.Module`
        # A run that goes on begins new episodes: a part of an old one would be added to each of them.
        return [
            *(x for x in self._metric.variables if not _is_of_unfinished_episodes(x)),
            *([] if values is None else [*values._buffer.variables(), values._head]),
        ]

    def result(self) -> float:
        values = getattr(self._metric, "_buffer", None)
        if self._is_tf and values is not None and not int(values._head):
            return float("nan")
        data = getattr(self._metric, "data", None)
        if data is not None and not len(data):
            return float("nan")
        return np.asarray(self._metric.result()).item()

    def get_state(self) -> Any:
        if self._is_tf:
            return [x.numpy().tolist() for x in self._list_variables()]
        data = getattr(self._metric, "data", None)
        if data is not None:
            # A ring buffer: the oldest value is at the start index. TF-Agents has no public way to read them
            # all.
            places = (data._start_index + np.arange(len(data))) % data._maxlen
            return data._buffer[places.astype(np.int64)].tolist()
        arrays = self._metric._np_state._trackable_children() if hasattr(self._metric, "_np_state") else {}
        return {name: x.array.item() for name, x in arrays.items() if np.ndim(x.array) == 0}

    def set_state(self, state: Any) -> None:
        if self._is_tf:
            for variable, value in zip(self._list_variables(), state, strict=True):
                variable.assign(value)
            return
        if isinstance(state, list):
            self._metric.data.clear()
            self._metric.data.extend(state)
            return
        for name, value in state.items():
            setattr(self._metric._np_state, name, np.asarray(value)[()])


def _is_of_unfinished_episodes(variable):
    """Returns whether a variable of a metric has a number for each row, the sum of its episode so far."""
    return "Accumulator" in variable.name  # the name in all metrics of TF-Agents
