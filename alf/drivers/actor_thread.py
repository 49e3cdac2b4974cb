# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorThread: answers the environments of one actor queue. Actor has its loop.

The loop is a graph: `serve` takes requests, calls the policy once for all of them and sends the answers.
"""

import tensorflow as tf

from alf.data_structures import ActionReply
from alf.drivers.driver_thread import DriverThread

# Batches of requests per call of the graph from Python. A call costs some hundred microseconds. A loop ends
# early only when the queues close.
_BATCHES_PER_CALL = 200


def act(policy, time_step, state):
    """Calls `policy.rollout`, and reads which version of the weights answers.

    The version is read before the weights: these may be newer than it says, never older. And it is read
    once the time step is there: an actor that had read it while it waited for a request would answer with
    old weights.

    Args:
        policy: `Policy`.
        time_step: `TimeStep` of [B, ...].
        state: `PolicyState` of [B, ...].

    Returns:
        `PolicyStep` of [B, ...], and the version, int64 scalar.
    """
    with tf.control_dependencies([time_step.step_type]):
        version = policy.progress.updates.read_value()
    with tf.control_dependencies([version]):
        return policy.rollout(time_step, state), version


class Actor:
    """Answers requests of environments. One traced graph serves all actor queues.

    Args:
        policy: `Policy`.
        specs: `EnvSpecs` of the environments.
        tf_queues: `TFQueues`.
        actor_queue_cap: K, requests that are answered at a time.
        guards_weights: whether it holds a permit of `TFQueues.weights` while it acts, so that the weights
            do not change in the middle of an answer.
    """

    def __init__(self, policy, specs, tf_queues, actor_queue_cap, guards_weights):
        self._policy = policy
        self._specs = specs
        self._tf_queues = tf_queues
        self._num_requests = actor_queue_cap
        self._guards_weights = guards_weights

    def serve(self, actor_index, num_batches):
        """Answers batches of K requests, in the graph.

        Args:
            actor_index: int32 scalar; of which actor queue.
            num_batches: int32 scalar.
        """

        def body(i):
            requests = self._tf_queues.actor_queues[actor_index].dequeue_many(self._num_requests)
            policy_steps, version = self._answer(requests)
            sent = [
                self._tf_queues.action_return_queues[index].enqueue(ActionReply(policy_step, version))
                for index, policy_step in zip(tf.unstack(requests.env_index), policy_steps, strict=True)
            ]
            with tf.control_dependencies(sent):
                return i + 1

        tf.while_loop(lambda i: i < num_batches, body, [tf.constant(0)], parallel_iterations=1)

    def _answer(self, requests):
        """Acts for K environments at once: returns a list of `PolicyStep`s of [B, ...], and the version."""
        time_step = requests.time_step._replace(env_id=self._specs.env_ids(requests.env_index))
        time_step, state = tf.nest.map_structure(
            lambda x: tf.reshape(x, (-1, *x.shape[2:])), (time_step, requests.state)
        )
        if self._guards_weights:
            policy_step, version = self._tf_queues.weights.hold(
                1, (time_step, state), lambda: act(self._policy, time_step, state)
            )
        else:
            policy_step, version = act(self._policy, time_step, state)
        if self._num_requests == 1:
            return [policy_step], version
        parts = [tf.split(x, self._num_requests) for x in tf.nest.flatten(policy_step)]
        return [tf.nest.pack_sequence_as(policy_step, part) for part in zip(*parts, strict=True)], version


class ActorThread(DriverThread):
    """Serves actor queue `actor_index` again and again.

    Args:
        coord, tf_queues: as in `DriverThread`.
        actor_index: int.
        serve: traced function (actor_index, num_batches), see `Actor.serve`.
    """

    def __init__(self, coord, tf_queues, actor_index, serve):
        super().__init__(coord, tf_queues, name=f"ActorThread-{actor_index}")
        self._actor_index = tf.constant(actor_index, tf.int32)
        self._num_batches = tf.constant(_BATCHES_PER_CALL, tf.int32)
        self._serve = serve

    def work(self):
        self._serve(self._actor_index, self._num_batches)
