# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LogThread: feeds metrics and observers."""

import tensorflow as tf

from alf.drivers.driver_thread import DriverThread


class LogThread(DriverThread):
    """Hands every `LogRecord` of the log queue to the observers, as NumPy arrays, in order per environment.

    Args:
        coord, tf_queues: as in `DriverThread`.
        observers: callables of one `LogRecord`.
    """

    def __init__(self, coord, tf_queues, observers):
        super().__init__(coord, tf_queues, name="LogThread")
        self._observers = observers

    def work(self):
        record = self._tf_queues.log_queue.dequeue()
        record = tf.nest.map_structure(lambda x: x.numpy(), record)
        for observer in self._observers:
            observer(record)
