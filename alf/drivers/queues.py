# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The queues of the pipeline. They live in the TensorFlow runtime, outside Python's GIL."""

from typing import Any, NamedTuple

import tensorflow as tf

# A FIFOQueue needs a component: an empty nest sends this, and so does who passes on a right.
_NOTHING = tf.TensorSpec((), tf.bool)


class NestFIFOQueues:
    """`num_queues` first-in-first-out queues of one spec, chosen by an index that may be a tensor.

    Items are nests of tensors, a single tensor and an empty nest included.

    Args:
        num_queues: how many queues.
        capacity: items per queue; `enqueue` blocks while a queue is full.
        spec: nest of tensor specs with static shapes.
        name: shown in errors.
    """

    def __init__(self, num_queues, capacity, spec, name):
        self._spec = spec
        self._name = name
        self._flat_spec = tf.nest.flatten(spec) or [_NOTHING]
        dtypes = [s.dtype for s in self._flat_spec]
        shapes = [s.shape for s in self._flat_spec]
        self._queues = [
            tf.queue.FIFOQueue(capacity, dtypes, shapes, shared_name=None, name=name)
            for _ in range(num_queues)
        ]
        self._handles = tf.stack([queue.queue_ref for queue in self._queues])

    def __len__(self):
        return len(self._queues)

    @property
    def spec(self):
        return self._spec

    def enqueue(self, index, item):
        """Appends `item` to queue `index`; blocks while it is full.

        Raises:
            ValueError: if structure, dtype or shape differ from the queue's spec.
            tf.errors.CancelledError: if the queue is closed.
        """
        return tf.raw_ops.QueueEnqueueV2(handle=self._handle(index), components=self._flatten(item))

    def dequeue(self, index):
        """Takes the oldest item of queue `index`; blocks while it is empty.

        Raises:
            tf.errors.OutOfRangeError: if the queue is closed.
        """
        components = tf.raw_ops.QueueDequeueV2(
            handle=self._handle(index), component_types=[s.dtype for s in self._flat_spec]
        )
        return self._pack(components, ())

    def dequeue_many(self, index, n):
        """Takes the `n` oldest items of queue `index`, stacked: nest of [n, ...]; blocks until there are n.

        Raises:
            tf.errors.OutOfRangeError: if the queue is closed.
        """
        components = tf.raw_ops.QueueDequeueManyV2(
            handle=self._handle(index),
            n=n,
            component_types=[s.dtype for s in self._flat_spec],
        )
        return self._pack(components, (n,))

    def sizes(self):
        """Items that wait now, a list with one int per queue."""
        return [int(queue.size()) for queue in self._queues]

    def close(self):
        """Wakes whoever waits, with an error; may be repeated, from any thread.

        Nothing can be appended any more. Items that are there can still be taken, then `dequeue` fails.
        """
        for queue in self._queues:
            queue.close(cancel_pending_enqueues=True)

    def _handle(self, index):
        if isinstance(index, int):
            return self._queues[index].queue_ref
        return tf.gather(self._handles, index)

    def _flatten(self, item):
        try:
            tf.nest.assert_same_structure(self._spec, item, expand_composites=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self._name}: an item does not have the queue's structure: {error}") from None
        if not tf.nest.flatten(item):
            return [tf.constant(False)]
        return [self._check(x, s) for x, s in zip(tf.nest.flatten(item), self._flat_spec, strict=True)]

    def _check(self, value, spec):
        value = tf.convert_to_tensor(value)
        if value.dtype != spec.dtype or not spec.shape.is_compatible_with(value.shape):
            raise ValueError(
                f"{self._name}: expected {spec.dtype.name} {spec.shape}, got {value.dtype.name} {value.shape}"
            )
        return value

    def _pack(self, components, leading):
        if not tf.nest.flatten(self._spec):
            return self._spec
        for component, spec in zip(components, self._flat_spec, strict=True):
            if not tf.executing_eagerly():
                component.set_shape((*leading, *spec.shape))
        return tf.nest.pack_sequence_as(self._spec, components)


class NestFIFOQueue:
    """One first-in-first-out queue of nests: `NestFIFOQueues` of length one, without the index."""

    def __init__(self, capacity, spec, name="queue"):
        self._queues = NestFIFOQueues(1, capacity, spec, name)

    @property
    def spec(self):
        return self._queues.spec

    def enqueue(self, item):
        return self._queues.enqueue(0, item)

    def dequeue(self):
        return self._queues.dequeue(0)

    def dequeue_many(self, n):
        return self._queues.dequeue_many(0, n)

    def holding(self, inputs, n, call):
        """Calls `call` while it holds `n` items of the queue, which it takes once `inputs` are there.

        Args:
            inputs: list of tensors.
            n: int.
            call: callable that returns a nest of tensors.

        Returns:
            what `call` returned, once the items are back.
        """
        with tf.control_dependencies(inputs):
            items = [self.dequeue() for _ in range(n)]
        with tf.control_dependencies(items):
            outputs = call()
        with tf.control_dependencies(tf.nest.flatten(outputs)):
            returned = [self.enqueue(item) for item in items]
        with tf.control_dependencies(returned):
            return tf.nest.map_structure(tf.identity, outputs)

    def size(self):
        return self._queues.sizes()[0]

    def close(self):
        self._queues.close()


class ActionRequest(NamedTuple):
    """What an environment sends to its actor.

    Fields:
        env_index: int32 scalar; which environment asks, so where the answer goes.
        signals: float32 [S, B]; step type, discount and reward, packed (see signals.py).
        observation, prev_action, state: nests of [B, ...].
    """

    env_index: Any
    signals: Any
    observation: Any
    prev_action: Any
    state: Any


class ActionReply(NamedTuple):
    """What an actor answers: a `PolicyStep` of [B, ...] and the version of the weights, int64 scalar."""

    policy_step: Any
    version: Any


class TFQueues:
    """Every queue of an asynchronous driver.

    Args:
        num_envs: number of batched environments.
        num_actor_queues: number of actors; environment i asks actor i % num_actor_queues.
        actor_queue_cap: requests that an actor answers at a time.
        learn_queue_capacity: unrolls that may wait for the learner.
        request_spec: `ActionRequest` of tensor specs.
        reply_spec: `ActionReply` of tensor specs.
        unroll_spec: `Experience` of one unroll.
        log_spec: `LogRecord`.
    """

    def __init__(
        self,
        num_envs,
        num_actor_queues,
        actor_queue_cap,
        learn_queue_capacity,
        request_spec,
        reply_spec,
        unroll_spec,
        log_spec,
    ):
        self.actor_queues = NestFIFOQueues(num_actor_queues, actor_queue_cap, request_spec, "actor_queue")
        # An environment waits for its answer before it asks again: there is never a second one.
        self.action_return_queues = NestFIFOQueues(num_envs, 1, reply_spec, "action_return_queue")
        self.learn_queue = NestFIFOQueue(learn_queue_capacity, unroll_spec, "learn_queue")
        # The log must not hold environments up, nor grow without bound when a metric is slow.
        self.log_queue = NestFIFOQueue(4 * num_envs, log_spec, "log_queue")
        # The right to step, one for all, if environments take turns.
        self.turn = NestFIFOQueue(1, _NOTHING, "turn")
        # The right to unroll, one for each environment, if collection stops while the learner trains.
        self.permits = NestFIFOQueues(num_envs, 1, _NOTHING, "permits")
        # The right to use the actors' weights, one for each actor; who has all of them may change these.
        self.weights = NestFIFOQueue(num_actor_queues, _NOTHING, "weights")
        self.turn.enqueue(True)
        for _ in range(num_actor_queues):
            self.weights.enqueue(True)

    def close(self):
        """Closes every queue; may be repeated, from any thread."""
        for queue in (
            self.actor_queues,
            self.action_return_queues,
            self.learn_queue,
            self.log_queue,
            self.turn,
            self.permits,
            self.weights,
        ):
            queue.close()

    def sizes(self):
        """Items that wait in each kind of queue now, a dict of ints."""
        return {
            "actor_queue": sum(self.actor_queues.sizes()),
            "learn_queue": self.learn_queue.size(),
            "log_queue": self.log_queue.size(),
        }
