# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""DriverThread: the base class of EnvThread, ActorThread and LogThread."""

import abc
import threading

import tensorflow as tf

from alf.tf_runtime import single_threaded

# What an operation on a closed queue raises.
QUEUE_CLOSED = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


class DriverThread(threading.Thread, metaclass=abc.ABCMeta):
    """Repeats `work` until the coordinator stops. When it ends, it wakes every thread that waits for it.

    Args:
        coord: the `tf.train.Coordinator` of all threads of a driver.
        tf_queues: `TFQueues`. The thread that ends first, for whatever reason, closes them.
        name: the thread's name.
    """

    def __init__(self, coord, tf_queues, name):
        # A daemon: an environment that never returns must not keep the process alive.
        super().__init__(name=name, daemon=True)
        self._coord = coord
        self._tf_queues = tf_queues

    def run(self):
        try:
            with self._coord.stop_on_exception(), single_threaded():
                self._repeat()
        finally:
            self._coord.request_stop()
            self._tf_queues.close()

    def _repeat(self):
        try:
            self.prepare()
            while not self._coord.should_stop():
                self.work()
        except QUEUE_CLOSED:
            # After a stop was requested, a closed queue tells the thread to end. Before, it is an error.
            if not self._coord.should_stop():
                raise

    def prepare(self):
        """Runs once, in the thread."""

    @abc.abstractmethod
    def work(self):
        """Runs again and again; every wait in it must end when the queues close."""
