# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Semaphore: permits that graph loops take and give back, inside the TensorFlow runtime."""

import tensorflow as tf

from alf.drivers.queues import NestFIFOQueue


class Semaphore:
    """A counting semaphore: a queue that holds one item for each free permit.

    Whoever waits for a permit waits for that queue, so closing it ends the wait.

    Args:
        num_permits: int; all are free at first.
        name: shown in errors.
    """

    def __init__(self, num_permits, name):
        self._queue = NestFIFOQueue(num_permits, tf.TensorSpec((), tf.bool), name)
        for _ in range(num_permits):
            self._queue.enqueue(True)

    def hold(self, num_permits, inputs, call):
        """Calls a function while it holds permits.

        The executor runs operations in any order that their dependencies allow, so this states three: the
        permits are taken once `inputs` are there, `call` runs once they are taken, and they are given back
        once its outputs are there.

        Args:
            num_permits: int, how many to hold. Only one caller may hold more than one permit: two that each
                have a part of what they need would wait for each other for ever.
            inputs: nest of tensors.
            call: callable without arguments that returns a nest of tensors.

        Returns:
            what `call` returned, once the permits are given back.
        """
        with tf.control_dependencies(tf.nest.flatten(inputs)):
            permits = [self._queue.dequeue() for _ in range(num_permits)]
        with tf.control_dependencies(permits):
            outputs = call()
        with tf.control_dependencies(tf.nest.flatten(outputs)):
            returned = [self._queue.enqueue(permit) for permit in permits]
        with tf.control_dependencies(returned):
            return tf.nest.map_structure(tf.identity, outputs)

    def close(self):
        """Wakes whoever waits, with an error; may be repeated, from any thread."""
        self._queue.close()
