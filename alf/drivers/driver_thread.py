# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""DriverThread: how every thread of a driver works and ends."""

import abc
import threading

import tensorflow as tf

from alf.core.tf_runtime import single_threaded

# What an operation on a closed queue raises.
QUEUE_CLOSED = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


class DriverThread(threading.Thread, abc.ABC):
    """Repeats `work` until the coordinator stops. When it ends, it wakes every thread that waits for it.

    Args:
        coord: the `tf.train.Coordinator` of all threads of a driver.
        queues: `TFQueues` or `Handover`. The thread that ends first, for whatever reason, closes them.
        name: the thread's name.
    """

    def __init__(self, coord, queues, name):
        # A daemon: an environment that never returns must not keep the process alive.
        super().__init__(name=name, daemon=True)
        self._coord = coord
        self._queues = queues

    @abc.abstractmethod
    def work(self):
        """Works for a while. Every wait in it must end when the queues close."""

    def run(self):
        try:
            with self._coord.stop_on_exception(), single_threaded():
                try:
                    while not self._coord.should_stop():
                        self.work()
                except QUEUE_CLOSED:
                    # After a stop, a closed queue tells the thread to end. Before, it is an error.
                    if not self._coord.should_stop():
                        raise
        finally:
            self._coord.request_stop()
            self._queues.close()
