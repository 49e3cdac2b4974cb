# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvThread: steps one batched environment and fills the learn queue."""

import tensorflow as tf

from alf.data_structures import LogRecord
from alf.drivers.driver_thread import DriverThread


def log_record(unroll):
    """The rows of an unroll that no other unroll has: all but the last, which the next one repeats."""
    return LogRecord(unroll.step_type[:-1], unroll.reward[:-1], unroll.discount[:-1], unroll.env_id[0])


class EnvThread(DriverThread):
    """Unrolls environment `env_index` for ever.

    Args:
        coord, tf_queues: as in `DriverThread`.
        env_index: which environment.
        unroller: the driver's `EnvUnroller`.
        first_frame: traced function (env_index) -> `Frame`.
        unroll_and_enqueue: traced function (env_index, frame) -> the next unroll's first frame.
    """

    def __init__(self, coord, tf_queues, env_index, unroller, first_frame, unroll_and_enqueue):
        super().__init__(coord, tf_queues, name=f"EnvThread-{env_index}")
        self._index = env_index
        self._env_index = tf.constant(env_index, tf.int32)
        self._unroller = unroller
        self._first_frame = first_frame
        self._unroll_and_enqueue = unroll_and_enqueue
        self._frame = None

    def prepare(self):
        self._frame = self._run(self._first_frame, self._env_index)

    def work(self):
        self._frame = self._run(self._unroll_and_enqueue, self._env_index, self._frame)

    def _run(self, function, *args):
        try:
            return function(*args)
        except tf.errors.OpError:
            if self._index in self._unroller.errors:
                raise self._unroller.errors[self._index] from None
            raise
