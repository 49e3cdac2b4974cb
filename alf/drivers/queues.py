# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Queues, and semaphores made of queues, in TensorFlow's runtime: waiting does not hold Python's GIL."""

import contextlib
import copy
import itertools
from typing import Any

import tensorflow as tf

from alf.core.annotations import Nest, NestedSpec
from alf.core.devices import HOST
from alf.core.nest_utils import find_mismatch
from alf.core.tf_private import use_eager_mode

# Part of the names of queues: TensorFlow gives the same queue to all that use one name.
_numbers = itertools.count()


class NestFIFOQueue:
    """A first-in-first-out queue of nests of tensors. A nest may be a single tensor, or empty.

    Args:
        capacity: int, items that may wait; `enqueue` blocks while the queue is full.
        spec: nest of tensor specs of an item; also an attribute. Items may differ in a dimension that is
            None; `dequeue_many` does not work then.
        name: text, shown in errors.
        handle: resource tensor that `_make_handles` made for these arguments; None makes a new queue.

    Attributes:
        handle: resource tensor of TensorFlow's queue.
    """

    def __init__(self, capacity: int, spec: NestedSpec, name: str = "queue", handle: Any = None) -> None:
        self.spec = spec
        self._name = name
        self._flat_spec = _get_components(spec)
        self._dtypes = [s.dtype for s in self._flat_spec]
        self.handle = _make_handles(1, capacity, spec, name)[0] if handle is None else handle
        self._deleter = _Deleter(self.handle)

    def enqueue(self, item: Nest) -> Any:
        """Appends `item`; blocks while the queue is full. Returns the operation; None in eager mode.

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

    def dequeue(self) -> Nest:
        """Takes the oldest item; waits for one. Raises OutOfRangeError if the queue is closed and empty."""
        components = tf.raw_ops.QueueDequeueV2(handle=self.handle, component_types=self._dtypes)
        return self._pack(components, ())

    def dequeue_many(self, n: int) -> Nest:
        """Takes the `n` oldest items, a nest of [n, ...]; waits for n items.

        Raises OutOfRangeError if the queue is closed and holds fewer.
        """
        components = tf.raw_ops.QueueDequeueManyV2(handle=self.handle, n=n, component_types=self._dtypes)
        return self._pack(components, (n,))

    def size(self) -> int:
        """Returns the number of items that wait now, an int."""
        return int(tf.raw_ops.QueueSizeV2(handle=self.handle))

    def close(self) -> None:
        """Closes the queue: threads that wait for it wake with an error. May be repeated, from any thread.

        Nothing can be appended any more. Items that wait can still be taken; then `dequeue` fails.
        """
        # Without the cancellation a thread that waits at a full queue would go on waiting for a place, which
        # nobody makes any more.
        tf.raw_ops.QueueCloseV2(handle=self.handle, cancel_pending_enqueues=True)

    def _pack(self, components, leading):
        if not tf.nest.flatten(self.spec):
            return self.spec
        # In a graph the operation loses the static shapes, which policies need while they are traced.
        if not tf.executing_eagerly():
            for component, spec in zip(components, self._flat_spec, strict=True):
                component.set_shape((*leading, *spec.shape))
        return tf.nest.pack_sequence_as(self.spec, components)


class _Deleter:
    """Deletes TensorFlow's queue when the last object that has this one is freed."""

    def __init__(self, handle):
        self._handle = handle

    def __del__(self):
        # Wherever Python frees it: the thread may be building a graph, or the process may be ending.
        with contextlib.suppress(AttributeError, TypeError), use_eager_mode(), tf.device(HOST):
            tf.raw_ops.DestroyResourceOp(resource=self._handle, ignore_lookup_error=True)


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
        # The copy operates on the queue whose handle the graph selects. It shares the deleter of queue 0, so
        # it deletes nothing when it is freed.
        queue = copy.copy(self._queues[0])
        queue.handle = tf.gather(self._handles, index)
        return queue

    def close(self):
        """Closes all queues; may be repeated, from any thread."""
        for queue in self._queues:
            queue.close()


class Semaphore:
    """A counting semaphore: a queue that holds one item for each free permit.

    A thread that waits for a permit waits for the queue, so closing the queue ends the wait.

    Args:
        num_permits: int, permits, all of which are free at first.
        name: text, shown in errors.

    Attributes:
        num_permits: as above.
    """

    def __init__(self, num_permits, name):
        self.num_permits = num_permits
        self._queue = NestFIFOQueue(num_permits, tf.TensorSpec((), tf.bool), name)
        for _ in range(num_permits):
            self._queue.enqueue(True)

    def hold(self, num_permits, inputs, call):
        """Calls a function while it holds permits; returns its outputs once they are given back.

        Args:
            num_permits: int, permits to hold. Only one caller may hold more than one permit: two callers that
                each have a part of their permits would wait for each other for ever.
            inputs: nest of tensors that `call` uses. No permit is taken before they are there.
            call: callable () -> nest of tensors. It is called while the graph is traced.
        """
        # The executor runs operations in any order that their dependencies allow, so each step depends on the
        # one before: inputs, permits, call, permits given back, outputs. Without the first dependency,
        # permits would be held while the inputs are still computed.
        with tf.control_dependencies(tf.nest.flatten(inputs)):
            permits = [self._queue.dequeue() for _ in range(num_permits)]
        with tf.control_dependencies(permits):
            outputs = call()
        with tf.control_dependencies(tf.nest.flatten(outputs)):
            returned = [self._queue.enqueue(permit) for permit in permits]
        # The outputs come last: when they are there, the permits are free again.
        with tf.control_dependencies(returned):
            return tf.nest.map_structure(tf.identity, outputs)

    def close(self):
        """Wakes all threads that wait, with an error; may be repeated, from any thread."""
        # A permit that is free can still be taken, but none can be given back any more: whoever holds one
        # ends there, with CancelledError.
        self._queue.close()


def _get_components(spec):
    """Returns the specs of an item's leaves. A bool stands for an empty nest: a queue needs a component."""
    return tf.nest.flatten(spec) or [tf.TensorSpec((), tf.bool)]


def _make_handles(num_queues, capacity, spec, name):
    """Makes queues of TensorFlow; returns their handles, which the caller must delete."""
    # A graph makes the queues, and its kernels are freed with it. TensorFlow keeps the kernel of an eager
    # operation for each set of attributes until the process ends. The name of the queue is one, so that is 36
    # KB for each queue.
    components = _get_components(spec)
    # A queue that knows no shapes takes items of any shape: `NestFIFOQueue.enqueue` compares them with the
    # spec.
    is_static = all(s.shape.is_fully_defined() for s in components)
    kwargs = {
        "component_types": [s.dtype for s in components],
        "shapes": [s.shape for s in components] if is_static else [],
    }
    names = [f"{name}_{next(_numbers)}" for _ in range(num_queues)]

    def make():
        with tf.device(HOST):  # no GPU can take several items at a time
            return [tf.raw_ops.FIFOQueueV2(capacity=capacity, shared_name=name, **kwargs) for name in names]

    return tf.function(make, autograph=False).get_concrete_function()()
