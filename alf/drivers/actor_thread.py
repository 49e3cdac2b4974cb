# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorThread: answers the environments of one actor queue. `serve` has its loop."""

import time

import tensorflow as tf

from alf.data_structures import ActionReply
from alf.drivers.stage_clock import IDLE, INFERENCE
from alf.drivers.threads import DriverThread

# Batches of requests per call of the graph from Python, at most. A call costs some hundred microseconds. A
# loop ends early only when the queues close.
_BATCHES_PER_CALL = 200
_SECONDS_PER_CALL = 0.25  # about: after each call the thread counts where its time went


def act(policy, time_step, state):
    """Calls `policy.rollout` with a `TimeStep` and a `PolicyState` of [B, ...].

    Returns:
        `PolicyStep` of [B, ...], and the version of the weights that answer, see `Policy.read_version`. It is
        read before the weights: these may be newer than it says, never older. And it is read once the time
        step is there: an actor that had read it while it waited for a request would answer with old weights.
    """
    with tf.control_dependencies([time_step.step_type]):
        version = policy.read_version(time_step)
    with tf.control_dependencies([version]):
        return policy.rollout(time_step, state), version


def serve(policy, device, specs, tf_queues, num_requests, guards_weights, actor_index, num_batches):
    """Answers batches of requests in the graph, which one trace serves for all actor queues.

    It takes the requests that come first, calls the policy once for all of them and sends the answers.

    Args:
        policy: `Policy`.
        device: where it acts; None leaves the choice to TensorFlow.
        specs, tf_queues: `EnvSpecs` of the environments, `TFQueues`.
        num_requests: K, int; requests that are answered at a time.
        guards_weights: whether it holds a permit of `TFQueues.weights` while it acts, so that the weights
            do not change in the middle of an answer.
        actor_index: int32 scalar; of which actor queue.
        num_batches: int32 scalar; after how many batches it returns.

    Returns:
        float64 scalar, the seconds that it did not wait for requests.
    """

    def split(reply):
        if num_requests == 1:
            return [reply]
        # One version answers all requests, unless each row has its own.
        leaves = [
            tf.split(x, num_requests) if x.shape.rank else [x] * num_requests for x in tf.nest.flatten(reply)
        ]
        return [tf.nest.pack_sequence_as(reply, part) for part in zip(*leaves, strict=True)]

    def body(i, busy):
        requests = tf_queues.actor_queues[actor_index].dequeue_many(num_requests)
        with tf.control_dependencies([requests.env_index]):
            began = tf.timestamp()
        time_step = requests.time_step._replace(env_id=specs.env_ids(requests.env_index))
        time_step, state = tf.nest.map_structure(
            lambda x: tf.reshape(x, (-1, *x.shape[2:])), (time_step, requests.state)
        )

        def call():
            with tf.device(device):
                return act(policy, time_step, state)

        policy_step, version = (
            tf_queues.weights.hold(1, (time_step, state), call) if guards_weights else call()
        )
        sent = [
            tf_queues.action_return_queues[index].enqueue(part)
            for index, part in zip(
                tf.unstack(requests.env_index), split(ActionReply(policy_step, version)), strict=True
            )
        ]
        with tf.control_dependencies(sent):
            return i + 1, busy + tf.timestamp() - began

    start = tf.constant(0), tf.constant(0.0, tf.float64)
    return tf.while_loop(lambda i, _: i < num_batches, body, start, parallel_iterations=1)[1]


class ActorThread(DriverThread):
    """Serves actor queue `actor_index` again and again.

    Args:
        coord, queues: as in `DriverThread`.
        actor_index: int.
        serve: traced function (actor_index, num_batches), see `serve`.
        clock: `StageClock` of this thread.
    """

    def __init__(self, coord, queues, actor_index, serve, clock):
        super().__init__(coord, queues, f"ActorThread-{actor_index}")
        self._actor_index = tf.constant(actor_index)
        self._serve = serve
        self._clock = clock
        self._num_batches = 1

    def work(self):
        num_batches, start = self._num_batches, time.monotonic()
        busy = float(self._serve(self._actor_index, tf.constant(num_batches)))
        seconds = self._clock.lap(IDLE, [(INFERENCE, busy, num_batches)], num_batches) - start
        due = num_batches * _SECONDS_PER_CALL / max(seconds, 1e-9)
        self._num_batches = max(1, min(int(due), 2 * num_batches, _BATCHES_PER_CALL))
