# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TFQueues: all queues and semaphores of the asynchronous driver."""

from typing import Any

import tensorflow as tf

from alf.core.annotations import Array
from alf.core.tf_runtime import timestamp
from alf.data_structures import (
    ActionReply,
    ActionRequest,
    Experience,
    Frame,
    PolicyStep,
)
from alf.drivers.queues import NestFIFOQueue, NestFIFOQueues, Semaphore


class TFQueues:
    """All queues and semaphores of an asynchronous driver.

    Args:
        frame: `Frame` of specs of the rows of a loop, from `EnvSpecs.frame_spec`.
        reply: `ActionReply` of specs of the rows of a loop, from `EnvSpecs.reply_spec`.
        unroll: `Experience` of specs of [T+1, B, ...], an item of the learn queue.
        record: dict of specs by field, from `EnvSpecs.record_spec`.
        num_loops: int, loops of `EnvUnroller`, each in a thread.
        num_actor_queues, actor_queue_cap: ints, as in `DriverSettings`.
        learn_queue_capacity: int, unrolls that may wait for the learner.
        log_queue_capacity: int, records that may wait for the log thread.

    Attributes:
        actor_queues: `NestFIFOQueues` of `ActionRequest`s, one for each actor.
        action_return_queues: `NestFIFOQueues` of `ActionReply`s, one for each loop.
        learn_queue: `NestFIFOQueue` of unrolls, each an `Experience`.
        log_queue: `NestFIFOQueue` of `LogRecord`s, dicts of tensors by field.
        unroll_orders: `NestFIFOQueues` of bools, one for each loop. In lockstep and overlap it makes one
            unroll of each of its environments for each True of the learner, and answers calls after a False.
        collector_orders: `NestFIFOQueue` of bools: an item orders one answer of each collector in other
            processes.
        batch_ready, batch_taken: `NestFIFOQueue`s of bools between `PrefetchThread` and the learner: an item
            says that the next batch is there, or that the learner has it.
        weights: `Semaphore` with a permit for each actor, or for each environment thread if there are no
            actors. Who reads the weights holds one permit. A holder of all permits may write the weights.
    """

    def __init__(
        self,
        frame: Frame,
        reply: ActionReply,
        unroll: Experience,
        record: dict[str, Any],
        num_loops: int,
        num_actor_queues: int,
        actor_queue_cap: int,
        learn_queue_capacity: int,
        log_queue_capacity: int,
    ) -> None:
        index, order = tf.TensorSpec((), tf.int32), tf.TensorSpec((), tf.bool)
        request = ActionRequest(index, frame.time_step, frame.state, frame.count)
        self.actor_queues: Any = NestFIFOQueues(num_actor_queues, actor_queue_cap, request, "actor_queue")
        # A loop waits for its answer before it asks again, so one place is enough.
        self.action_return_queues = NestFIFOQueues(num_loops, 1, reply, "action_return_queue")
        self.learn_queue = NestFIFOQueue(learn_queue_capacity, unroll, "learn_queue")
        self.log_queue = NestFIFOQueue(log_queue_capacity, record, "log_queue")
        # One place is enough here, too: the learner orders again only when it has the whole batch.
        self.unroll_orders: Any = NestFIFOQueues(num_loops, 1, order, "unroll_orders")
        self.collector_orders = NestFIFOQueue(1, order, "collector_orders")
        self.batch_ready = NestFIFOQueue(1, order, "batch_ready")
        self.batch_taken = NestFIFOQueue(1, order, "batch_taken")
        self.weights = Semaphore(num_actor_queues or num_loops, "weights")

    def ask_actor(self, env_index: Array, frame: Frame) -> tuple[PolicyStep, Array]:
        """Sends a request of a loop to its actor and waits for the answer, in the graph.

        Loop i asks actor i % num_actor_queues.

        Args:
            env_index: int32 scalar.
            frame: `Frame` of [B, ...].

        Returns:
            `PolicyStep` of [B, ...], and the version of the weights.
        """
        actor_queue = self.actor_queues[env_index % len(self.actor_queues)]
        sent = actor_queue.enqueue(ActionRequest(env_index, frame.time_step, frame.state, frame.count))
        # Without this, the executor might wait for the answer before it sends the request, for ever.
        with tf.control_dependencies([sent]):
            reply = self.action_return_queues[env_index].dequeue()
        return reply.policy_step, reply.version

    def hand_over(self, record: dict[str, Any], unroll: Experience) -> Array:
        """Puts a record into the log queue, then an unroll into the learn queue, in the graph.

        Returns float64 [2], the seconds for which it waited because the log queue or the learn queue was
        full.
        """
        # Time stamps and queues alternate, each after the one before. The first stamp comes when the unroll
        # is complete, so only the waits for the queues are measured, each by itself.
        with tf.control_dependencies(tf.nest.flatten((record, unroll))):
            times = [timestamp()]
        for queue, item in ((self.log_queue, record), (self.learn_queue, unroll)):
            with tf.control_dependencies([times[-1]]):
                enqueued = queue.enqueue(item)
            with tf.control_dependencies([enqueued]):
                times.append(timestamp())
        return tf.stack([times[1] - times[0], times[2] - times[1]])

    def close(self) -> None:
        """Closes every queue and semaphore; may be repeated, from any thread."""
        # `init_scope`: also while a graph is traced, the queues close now, and not when the graph runs.
        with tf.init_scope():
            # In any order: whoever closes has told the coordinator to stop before, so a thread that wakes
            # ends, and asks no other queue for more.
            for one in vars(self).values():
                one.close()

    def sizes(self) -> dict[str, int]:
        """Returns the number of items that wait in each kind of queue, a dict of ints by name."""
        return {
            "actor_queue": sum(queue.size() for queue in self.actor_queues),
            "learn_queue": self.learn_queue.size(),
            "log_queue": self.log_queue.size(),
        }
