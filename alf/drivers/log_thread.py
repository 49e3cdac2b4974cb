# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LogThread: calls metrics and observers with the records that `make_log_record` makes of unrolls."""

import tensorflow as tf

from alf.config.kinds import show
from alf.data_structures import OWNER
from alf.drivers.threads import DriverThread
from alf.errors import ConfigError

_OPTIONAL = ("observation", "action")  # fields of a `LogRecord`


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


def find_log_fields(observers):
    """Returns the optional fields of `LogRecord` that observers need, a tuple of names.

    Raises ConfigError if an observer needs something else.
    """
    needed = set()
    for observer in observers:
        needs = getattr(observer, "needs", ())
        if not isinstance(needs, (tuple, list)) or not set(needs) <= set(_OPTIONAL):
            raise ConfigError(f"{observer}: its `needs` is {needs!r}: it must be a tuple of {_OPTIONAL}")
        needed |= set(needs)
    # Fields that nobody reads stay out of the log queue: observations are by far the largest part of an
    # unroll.
    return tuple(name for name in _OPTIONAL if name in needed)


def call_observers(observers, record):
    """Calls metrics and observers with a `LogRecord`.

    Raises:
        ConfigError: if one reads the record as a Trajectory of TF-Agents. Other errors pass through.
    """
    for observer in observers:
        try:
            observer(record)
        except AttributeError as error:
            if error.obj is not record:
                raise
            raise ConfigError(
                f"the observer {show(observer)} reads {error.name!r} of a LogRecord, which has "
                f"{', '.join(record._fields)}: it is no Trajectory of TF-Agents, which only methods of its "
                "replay buffers get"
            ) from error


def make_log_record(unroll, spec):
    """Makes the `LogRecord` of an unroll, in the graph: a dict of tensors of [T, B, ...] by field.

    It has all rows but the last, which is row 0 of the next unroll.

    Args:
        unroll: `Experience` of [T+1, B, ...].
        spec: dict of specs by field, from `EnvSpecs.record_spec`.
    """
    rows = unroll._asdict()
    if OWNER in spec:
        rows[OWNER] = unroll.observation[OWNER]
    record = tf.nest.map_structure(lambda x: x[:-1], {name: rows[name] for name in spec})
    return {**record, "env_id": unroll.env_id[0]}
