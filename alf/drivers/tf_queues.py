# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TFQueues: through which environments, actors, learner and log of an asynchronous driver meet."""

import tensorflow as tf

from alf.drivers.queues import NestFIFOQueue, NestFIFOQueues
from alf.drivers.semaphore import Semaphore

ORDER = tf.TensorSpec((), tf.bool)


class TFQueues:
    """Every queue and semaphore of an asynchronous driver.

    Args:
        num_envs: number of batched environments.
        num_actor_queues: number of actors; environment i asks actor i % num_actor_queues.
        actor_queue_cap: requests that an actor answers at a time.
        learn_queue_capacity: unrolls that may wait for the learner.
        request_spec: `ActionRequest` of tensor specs.
        reply_spec: `ActionReply` of tensor specs.
        unroll_spec: `Experience` of tensor specs of one unroll.
        log_spec: `LogRecord` of tensor specs.

    Attributes:
        actor_queues: `NestFIFOQueues` of requests, one for each actor.
        action_return_queues: `NestFIFOQueues` of replies, one for each environment.
        learn_queue: `NestFIFOQueue` of unrolls.
        log_queue: `NestFIFOQueue` of `LogRecord`s.
        unroll_orders: `NestFIFOQueues` of bools, one for each environment. In lockstep an environment makes
            one unroll for each order of the learner.
        env_turn: `Semaphore` with one permit: to step, where environments take turns.
        weights: `Semaphore` with a permit for each actor: to read the actors' weights. Who has all permits
            may write them.
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
        # An environment waits for its answer before it asks again, so one place is enough.
        self.action_return_queues = NestFIFOQueues(num_envs, 1, reply_spec, "action_return_queue")
        self.learn_queue = NestFIFOQueue(learn_queue_capacity, unroll_spec, "learn_queue")
        # Room for a slow metric, so that it does not stop the environments; bounded, so that memory is, too.
        self.log_queue = NestFIFOQueue(4 * num_envs, log_spec, "log_queue")
        self.unroll_orders = NestFIFOQueues(num_envs, 1, ORDER, "unroll_orders")
        self.env_turn = Semaphore(1, "env_turn")
        self.weights = Semaphore(num_actor_queues, "weights")

    def close(self):
        """Closes every queue and semaphore; may be repeated, from any thread."""
        for one in vars(self).values():
            one.close()

    def sizes(self):
        """Items that wait in each kind of queue now, a dict of ints."""
        return {
            "actor_queue": sum(queue.size() for queue in self.actor_queues),
            "learn_queue": self.learn_queue.size(),
            "log_queue": self.log_queue.size(),
        }
