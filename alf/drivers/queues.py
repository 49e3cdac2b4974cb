# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The queues of the pipeline. They live in the TensorFlow runtime, outside Python's GIL."""

import copy

import tensorflow as tf

from alf.nest_utils import find_mismatch

# A FIFOQueue needs a component: this one stands for an empty nest.
_EMPTY = tf.TensorSpec((), tf.bool)


class NestFIFOQueue:
    """A first-in-first-out queue of nests of tensors, a single tensor and an empty nest included.

    Args:
        capacity: items that may wait; `enqueue` blocks while the queue is full.
        spec: nest of tensor specs with static shapes.
        name: shown in errors.

    Attributes:
        spec: as above.
        handle: resource tensor of TensorFlow's queue.
    """

    def __init__(self, capacity, spec, name="queue"):
        self.spec = spec
        self._name = name
        self._flat_spec = tf.nest.flatten(spec) or [_EMPTY]
        self._dtypes = [s.dtype for s in self._flat_spec]
        shapes = [s.shape for s in self._flat_spec]
        self._queue = tf.queue.FIFOQueue(capacity, self._dtypes, shapes, shared_name=None, name=name)
        self.handle = self._queue.queue_ref

    def with_handle(self, handle):
        """The same operations on another queue of the same spec, whose handle may depend on a tensor."""
        other = copy.copy(self)
        other._queue, other.handle = None, handle
        return other

    def enqueue(self, item):
        """Appends `item`; blocks while the queue is full.

        Returns:
            the operation; None in eager mode.

        Raises:
            ValueError: if structure, dtype or shape differ from the queue's spec.
            tf.errors.CancelledError: if the queue is closed.
        """
        item = tf.nest.map_structure(tf.convert_to_tensor, item)
        mismatch = find_mismatch(item, self.spec)
        if mismatch:
            raise ValueError(f"{self._name}: an item does not fit the queue's spec: {mismatch}")
        components = tf.nest.flatten(item) or [tf.constant(False)]
        return tf.raw_ops.QueueEnqueueV2(handle=self.handle, components=components)

    def dequeue(self):
        """Takes the oldest item; blocks while the queue is empty.

        Raises:
            tf.errors.OutOfRangeError: if the queue is closed and empty.
        """
        components = tf.raw_ops.QueueDequeueV2(handle=self.handle, component_types=self._dtypes)
        return self._pack(components, ())

    def dequeue_many(self, n):
        """Takes the `n` oldest items, stacked: nest of [n, ...]; blocks until there are n.

        Raises:
            tf.errors.OutOfRangeError: if the queue is closed and holds fewer.
        """
        components = tf.raw_ops.QueueDequeueManyV2(handle=self.handle, n=n, component_types=self._dtypes)
        return self._pack(components, (n,))

    def size(self):
        """Items that wait now, an int."""
        return int(self._queue.size())

    def close(self):
        """Wakes whoever waits, with an error. May be repeated, from any thread.

        Nothing can be appended any more. Items that wait can still be taken, then `dequeue` fails.
        """
        self._queue.close(cancel_pending_enqueues=True)

    def _pack(self, components, leading):
        if not tf.nest.flatten(self.spec):
            return self.spec
        if not tf.executing_eagerly():
            for component, spec in zip(components, self._flat_spec, strict=True):
                component.set_shape((*leading, *spec.shape))
        return tf.nest.pack_sequence_as(self.spec, components)


class NestFIFOQueues:
    """Several `NestFIFOQueue`s of one spec. `queues[index]` takes an int, or an int32 scalar tensor.

    Args:
        num_queues: how many.
        capacity, spec, name: of each, as in `NestFIFOQueue`.
    """

    def __init__(self, num_queues, capacity, spec, name):
        self._queues = [NestFIFOQueue(capacity, spec, name) for _ in range(num_queues)]
        self._handles = tf.stack([queue.handle for queue in self._queues])

    def __len__(self):
        return len(self._queues)

    def __getitem__(self, index):
        if isinstance(index, int):
            return self._queues[index]
        return self._queues[0].with_handle(tf.gather(self._handles, index))

    def close(self):
        """Closes all queues, see `NestFIFOQueue.close`."""
        for queue in self._queues:
            queue.close()
