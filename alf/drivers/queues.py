# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Queues, and semaphores made of them. They live in the TensorFlow runtime, outside Python's GIL."""

import copy
import itertools
from typing import Any

import tensorflow as tf

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from tensorflow.python.ops.resource_variable_ops import EagerResourceDeleter

from alf.core.annotations import Nest, NestedSpec
from alf.core.nest_utils import find_mismatch

_numbers = itertools.count()  # No two queues of a process have the same name.


class NestFIFOQueue:
    """A first-in-first-out queue of nests of tensors, a single tensor and an empty nest included.

    Args:
        capacity: items that may wait; `enqueue` blocks while the queue is full.
        spec: nest of tensor specs; also an attribute. Where a dimension is None, items may differ in it, and
            `dequeue_many` does not work.
        name: shown in errors.
        handle: of a queue that `_make_handles` made for these arguments; by default a new one.

    Attributes:
        handle: resource tensor of TensorFlow's queue.
    """

    def __init__(self, capacity: int, spec: NestedSpec, name: str = "queue", handle: Any = None) -> None:
        self.spec = spec
        self._name = name
        self._flat_spec = _get_components(spec)
        self._dtypes = [s.dtype for s in self._flat_spec]
        self.handle = _make_handles(1, capacity, spec, name)[0] if handle is None else handle
        # The resource lives as long as this object does. All operations use its handle.
        self._deleter = EagerResourceDeleter(self.handle, "CPU:0")

    def enqueue(self, item: Nest) -> Any:
        """Appends `item`; blocks while the queue is full. Returns the operation; None in eager mode.

        ValueError if structure, dtype or shape differ from the queue's spec; CancelledError if it is closed.
        """
        item = tf.nest.map_structure(tf.convert_to_tensor, item)
        mismatch = find_mismatch(item, self.spec)
        if mismatch:
            raise ValueError(f"{self._name}: an item does not fit the queue's spec: {mismatch}")
        components = tf.nest.flatten(item) or [tf.constant(False)]
        return tf.raw_ops.QueueEnqueueV2(handle=self.handle, components=components)

    def dequeue(self) -> Nest:
        """Takes the oldest item; waits for one. OutOfRangeError if the queue is closed and empty."""
        components = tf.raw_ops.QueueDequeueV2(handle=self.handle, component_types=self._dtypes)
        return self._pack(components, ())

    def dequeue_many(self, n: int) -> Nest:
        """Takes the `n` oldest items, a nest of [n, ...]; waits for n. OutOfRangeError as in `dequeue`."""
        components = tf.raw_ops.QueueDequeueManyV2(handle=self.handle, n=n, component_types=self._dtypes)
        return self._pack(components, (n,))

    def size(self) -> int:
        """Items that wait now, an int."""
        return int(tf.raw_ops.QueueSizeV2(handle=self.handle))

    def close(self) -> None:
        """Wakes whoever waits, with an error. May be repeated, from any thread.

        Nothing can be appended any more. Items that wait can still be taken, then `dequeue` fails.
        """
        tf.raw_ops.QueueCloseV2(handle=self.handle, cancel_pending_enqueues=True)

    def _pack(self, components, leading):
        if not tf.nest.flatten(self.spec):
            return self.spec
        if not tf.executing_eagerly():
            for component, spec in zip(components, self._flat_spec, strict=True):
                component.set_shape((*leading, *spec.shape))
        return tf.nest.pack_sequence_as(self.spec, components)


class NestFIFOQueues:
    """`num_queues` `NestFIFOQueue`s of one spec. `queues[index]` takes an int, or an int32 scalar tensor."""

    def __init__(self, num_queues, capacity, spec, name):
        handles = _make_handles(num_queues, capacity, spec, name)
        self._queues = [NestFIFOQueue(capacity, spec, name, handle) for handle in handles]
        self._handles = tf.stack([queue.handle for queue in self._queues]) if num_queues else None

    def __len__(self):
        return len(self._queues)

    def __getitem__(self, index):
        if isinstance(index, int):
            return self._queues[index]
        queue = copy.copy(self._queues[0])
        queue.handle = tf.gather(self._handles, index)
        return queue

    def close(self):
        """Closes all queues, see `NestFIFOQueue.close`."""
        for queue in self._queues:
            queue.close()


class Semaphore:
    """A counting semaphore: a queue that holds one item for each free permit.

    Whoever waits for a permit waits for that queue, so closing it ends the wait. All `num_permits` are free
    at first; errors show `name`.
    """

    def __init__(self, num_permits, name):
        self._queue = NestFIFOQueue(num_permits, tf.TensorSpec((), tf.bool), name)
        for _ in range(num_permits):
            self._queue.enqueue(True)

    def hold(self, num_permits, inputs, call):
        """Calls a function while it holds permits; returns its outputs once they are given back.

        The executor runs operations in any order that their dependencies allow, so this states three: the
        permits are taken once `inputs` are there, `call` runs once they are taken, and they are given back
        once its outputs are there.

        Args:
            num_permits: int, how many to hold. Only one caller may hold more than one permit: two that each
                have a part of what they need would wait for each other for ever.
            inputs: nest of tensors.
            call: callable without arguments that returns a nest of tensors.
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


def _get_components(spec):
    """The flat specs of an item. TensorFlow's queue needs one at least: a bool stands for an empty nest."""
    return tf.nest.flatten(spec) or [tf.TensorSpec((), tf.bool)]


def _make_handles(num_queues, capacity, spec, name):
    """Makes queues; returns their handles. `EagerResourceDeleter` deletes a queue.

    A graph makes them: its kernels go with it. TensorFlow would keep the kernels of an eager operation, whose
    attributes hold the name of one queue, until the process ends: 36 KB for each queue.
    """
    components = _get_components(spec)
    is_static = all(s.shape.is_fully_defined() for s in components)
    kwargs = {
        "component_types": [s.dtype for s in components],
        "shapes": [s.shape for s in components] if is_static else [],
    }
    names = [f"{name}_{next(_numbers)}" for _ in range(num_queues)]

    def make():
        return [tf.raw_ops.FIFOQueueV2(capacity=capacity, shared_name=name, **kwargs) for name in names]

    return tf.function(make, autograph=False).get_concrete_function()()
