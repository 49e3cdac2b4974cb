# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LogThread: calls metrics and observers with the records that `make_log_record` makes of unrolls."""

import tensorflow as tf

from alf.data_structures import OWNER, TimeStep
from alf.drivers.threads import DriverThread
from alf.errors import ConfigError

_OPTIONAL = ("observation", "action", "first_value")  # fields of a `LogRecord`


class LogThread(DriverThread):
    """Takes each `LogRecord` from the log queue and calls `log` with it.

    One thread logs for all environments, so metrics and observers need no locks.

    Args:
        coord, queues: as in `DriverThread`.
        log: callable (`LogRecord` as a dict of arrays by field).
    """

    def __init__(self, coord, queues, log):
        super().__init__(coord, queues, "LogThread")
        self._log = log

    def work(self):
        # Called eagerly, because observers are Python. If they are slow, the log queue fills, and the
        # environments wait for them (the stage LOG of their clocks): records are never dropped while the
        # driver runs.
        self._log(to_arrays(self._queues.log_queue.dequeue()))


def to_arrays(record):
    """Turns a dict of nests of tensors into arrays."""
    # `tf.nest` takes as long for a single tensor as a metric takes for the record.
    return {
        name: x.numpy() if hasattr(x, "numpy") else tf.nest.map_structure(lambda x: x.numpy(), x)
        for name, x in record.items()
    }


def find_log_fields(observers, policy):
    """Returns the optional fields of `LogRecord` that observers need, a tuple of names.

    Raises ConfigError if a field cannot be filled.
    """
    needed = set()
    for observer in observers:
        needs = getattr(observer, "needs", ())
        if not isinstance(needs, (tuple, list)) or not set(needs) <= set(_OPTIONAL):
            raise ConfigError(f"{observer}: its `needs` is {needs!r}: it must be a tuple of {_OPTIONAL}")
        needed |= set(needs)
    if "first_value" in needed and not hasattr(policy, "first_value"):
        raise ConfigError(
            "EpisodeStatistics.first_value is True, or an observer needs first_value: "
            f"{type(policy).__name__} has no first_value(), as ActorCriticPolicy has"
        )
    # Fields that nobody reads stay out of the log queue: observations are by far the largest part of an
    # unroll.
    return tuple(name for name in _OPTIONAL if name in needed)


def make_log_record(unroll, policy, spec):
    """Makes the `LogRecord` of an unroll, in the graph: a dict of tensors of [T, B, ...] by field.

    It has all rows but the last, which is row 0 of the next unroll.

    Args:
        unroll: `Experience` of [T+1, B, ...].
        policy: `Policy` that has acted.
        spec: dict of specs by field, from `EnvSpecs.record_spec`.
    """
    rows = unroll._asdict()
    if "first_value" in spec:
        rows["first_value"] = _compute_first_value(policy, TimeStep(*unroll[: len(TimeStep._fields)]))
    if OWNER in spec:
        rows[OWNER] = unroll.observation[OWNER]
    record = tf.nest.map_structure(lambda x: x[:-1], {name: rows[name] for name in spec})
    return {**record, "env_id": unroll.env_id[0]}


def _compute_first_value(policy, rows):
    """Returns the policy's values at FIRST rows of a `TimeStep` of [T, B, ...], float32 [T, B]; else NaN."""
    is_first = rows.is_first()
    no_value = tf.fill(is_first.shape, float("nan"))
    # All rows, because a policy may need to know their number while it is traced.
    flat = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])), rows)

    def compute():
        return tf.where(is_first, tf.reshape(policy.first_value(flat), is_first.shape), no_value)

    # Few unrolls have a FIRST row; only they pay for the network.
    return tf.cond(tf.reduce_any(is_first), compute, lambda: no_value)
