# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TFQueues: all queues and semaphores of the asynchronous driver."""

from typing import Any

import tensorflow as tf

from alf.core.annotations import Array
from alf.data_structures import (
    ActionReply,
    ActionRequest,
    Experience,
    Frame,
    PolicyState,
    PolicyStep,
    TimeStep,
)
from alf.drivers.queues import NestFIFOQueue, NestFIFOQueues, Semaphore


class TFQueues:
    """All queues and semaphores of an asynchronous driver.

    Args:
        frame, reply: what `EnvSpecs.frame_spec` and `EnvSpecs.reply_spec` return.
        unroll: spec of an unroll in the learn queue, an `Experience`.
        record: what `EnvSpecs.record_spec` returns.
        num_envs: batched environments.
        num_actor_queues, actor_queue_cap: as in `DriverSettings`.
        learn_queue_capacity: unrolls that may wait for the learner.
        log_queue_capacity: records that may wait for the log.

    Attributes:
        actor_queues: `NestFIFOQueues` of `ActionRequest`s, one for each actor.
        action_return_queues: `NestFIFOQueues` of `ActionReply`s, one for each environment.
        learn_queue: `NestFIFOQueue` of unrolls, each an `Experience`.
        log_queue: `NestFIFOQueue` of `LogRecord`s, dicts of tensors by field.
        unroll_orders: `NestFIFOQueues` of bools, one for each environment. In lockstep an environment makes
            one unroll for each order of the learner.
        collector_orders: `NestFIFOQueue` of bools: the same for all collectors in other processes together.
        env_turn: `Semaphore` with one permit: to step, where environments take turns.
        weights: `Semaphore` with a permit for each actor: to read the actors' weights. Who has all permits
            may write them.
    """

    def __init__(
        self,
        frame: Frame,
        reply: ActionReply,
        unroll: Experience,
        record: dict[str, Any],
        num_envs: int,
        num_actor_queues: int,
        actor_queue_cap: int,
        learn_queue_capacity: int,
        log_queue_capacity: int,
    ) -> None:
        index, order = tf.TensorSpec((), tf.int32), tf.TensorSpec((), tf.bool)
        request = ActionRequest(index, frame.time_step, frame.state)
        self.actor_queues: Any = NestFIFOQueues(num_actor_queues, actor_queue_cap, request, "actor_queue")
        # An environment waits for its answer before it asks again, so one place is enough.
        self.action_return_queues = NestFIFOQueues(num_envs, 1, reply, "action_return_queue")
        self.learn_queue = NestFIFOQueue(learn_queue_capacity, unroll, "learn_queue")
        self.log_queue = NestFIFOQueue(log_queue_capacity, record, "log_queue")
        self.unroll_orders: Any = NestFIFOQueues(num_envs, 1, order, "unroll_orders")
        self.collector_orders = NestFIFOQueue(1, order, "collector_orders")
        self.env_turn = Semaphore(1, "env_turn")
        self.weights = Semaphore(num_actor_queues, "weights")

    def ask_actor(
        self, env_index: Array, time_step: TimeStep, state: PolicyState
    ) -> tuple[PolicyStep, Array]:
        """Sends the request of an environment and waits for the answer, in the graph.

        Environment i asks actor i % num_actor_queues. Arguments and result: see `ask` of `EnvUnroller`.
        """
        actor_queue = self.actor_queues[env_index % len(self.actor_queues)]
        sent = actor_queue.enqueue(ActionRequest(env_index, time_step, state))
        # Nothing but this says that the answer comes after the request.
        with tf.control_dependencies([sent]):
            reply = self.action_return_queues[env_index].dequeue()
        return reply.policy_step, reply.version

    def close(self) -> None:
        """Closes every queue and semaphore; may be repeated, from any thread."""
        with tf.init_scope():  # Also in the middle of a trace, a queue is closed now.
            for one in vars(self).values():
                one.close()

    def sizes(self) -> dict[str, int]:
        """Items that wait in each kind of queue now, a dict of ints."""
        return {
            "actor_queue": sum(queue.size() for queue in self.actor_queues),
            "learn_queue": self.learn_queue.size(),
            "log_queue": self.log_queue.size(),
        }
