# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorThread: answers the requests of one actor queue. `serve` is its loop, in the graph."""

import time

import tensorflow as tf

from alf.core.devices import HOST, check_device, choose_for_answers, device_of
from alf.core.nest_utils import split
from alf.core.tf_runtime import timestamp
from alf.data_structures import ActionReply
from alf.drivers.stage_clock import IDLE, INFERENCE
from alf.drivers.threads import DriverThread
from alf.policies.policy import count_row_flops

# The most batches of requests for one call of the graph. A call costs some hundred microseconds of Python, so
# there should be few. But once called, the loop in the graph ends early only when the queues close.
_BATCHES_PER_CALL = 200
# The duration that a call should have, roughly. The thread counts where its time went after each call, so
# with a longer one the figures would lag behind.
_SECONDS_PER_CALL = 0.25


def act(policy, stream, time_step, state, counters):
    """Calls `policy.rollout` with a `TimeStep` and a `PolicyState` of [B, ...].

    Args:
        stream: `draws.Stream` of the environments.
        counters: list of pairs (env_index, count) of the environments that have equal parts of the rows, see
            `draws.Stream.at`.

    Returns:
        `PolicyStep` of [B, ...], and the version of the weights, as `Policy.read_version` gives it. The
        weights can be newer than this version, never older.
    """
    # The executor runs an operation as soon as its inputs are there. Without the first dependency it would
    # read the version while the actor still waits for a request; without the second it could read it after
    # the weights, and call old weights new.
    with tf.control_dependencies([time_step.step_type]):
        version = policy.read_version(time_step)
    with tf.control_dependencies([version]), stream.at(counters):
        return policy.rollout(time_step, state), version


def answer(policy, stream, device, weights, time_step, state, counters):
    """Calls `act` on a device; the arguments and the result are those of `act`, and these:

    Args:
        device: text, the TensorFlow device where the policy acts.
        weights: `Semaphore` with a permit for each caller. A permit is held while the policy acts, so that
            the weights do not change within an answer. None: the policy acts without.
    """

    def call():
        with tf.device(device):
            return act(policy, stream, time_step, state, counters)

    return call() if weights is None else weights.hold(1, (time_step, state), call)


def answer_frame(policy, stream, device, weights, specs, env_index, frame):
    """Answers an environment in its own loop, without an actor; returns what `TFQueues.ask_actor` does."""
    time_step = frame.time_step._replace(env_id=specs.env_ids(env_index))
    counters = specs.counters(env_index, frame.count)
    return answer(policy, stream, device, weights, time_step, frame.state, counters)


def serve(policy, stream, device, weights, specs, tf_queues, num_requests, actor_index, num_batches):
    """Answers batches of requests, in the graph. One trace serves all actor queues.

    For each batch it takes the K oldest requests, calls the policy once for all of them and sends the
    answers.

    Args:
        policy, stream, device, weights: as in `answer`.
        specs: `EnvSpecs` of the loops that ask, see `EnvSpecs.share`.
        tf_queues: `TFQueues`.
        num_requests: int, K, requests that are answered at a time.
        actor_index: int32 scalar, the number of the actor queue.
        num_batches: int32 scalar, the number of batches to answer.

    Returns:
        float64 scalar, the seconds spent on answers, without the wait for requests.
    """

    def body(i, busy):
        requests = tf_queues.actor_queues[actor_index].dequeue_many(num_requests)
        # The clock must start when the requests are there, not when the wait for them begins.
        with tf.control_dependencies([requests.env_index]):
            began = timestamp()
        # Requests travel without the ids, which follow from the index: the loop of an unroll would carry them
        # through every step.
        time_step = requests.time_step._replace(env_id=specs.env_ids(requests.env_index))
        # [K, B, ...] -> [K * B, ...]: the policy sees one batch.
        time_step, state = tf.nest.map_structure(
            lambda x: tf.reshape(x, (-1, *x.shape[2:])), (time_step, requests.state)
        )

        indices = tf.unstack(requests.env_index)
        counts = zip(indices, tf.unstack(requests.count), strict=True)
        counters = [counter for index, count in counts for counter in specs.counters(index, count)]
        policy_step, version = answer(policy, stream, device, weights, time_step, state, counters)
        # With one policy the version is a scalar, which goes to all requests. With several, each row has one.
        replies = split(ActionReply(policy_step, version), num_requests)
        # A return queue has one place, and its environment asks again only after it has taken the answer: no
        # answer waits for a place, so a slow environment does not hold up the others of its batch.
        sent = [
            tf_queues.action_return_queues[index].enqueue(part)
            for index, part in zip(indices, replies, strict=True)
        ]
        # The loop variable waits for the answers: an iteration ends when all of them are sent.
        with tf.control_dependencies(sent):
            return i + 1, busy + timestamp() - began

    # One iteration at a time: else the actor would take requests while it still answers others.
    start = tf.constant(0), tf.constant(0.0, tf.float64)
    return tf.while_loop(lambda i, _: i < num_batches, body, start, parallel_iterations=1)[1]


def choose_actor_device(setting, policy, rows):
    """Returns the device for answers of so many rows: `DriverSettings.actor_device`, or what "auto" means."""
    if setting != "auto":
        check_device("DriverSettings.actor_device", setting)
        return setting
    device = device_of(policy)  # the learner's
    return HOST if device == HOST else choose_for_answers(rows * count_row_flops(policy), device)


class ActorThread(DriverThread):
    """Answers the requests of actor queue `actor_index` until the driver stops.

    Args:
        coord, queues: as in `DriverThread`.
        actor_index: int.
        serve: traced function (actor_index, num_batches) -> busy seconds: the function `serve` above.
        clock: `StageClock` of this thread.
    """

    def __init__(self, coord, queues, actor_index, serve, clock):
        super().__init__(coord, queues, f"ActorThread-{actor_index}")
        self._actor_index = tf.constant(actor_index)
        self._serve = serve
        self._clock = clock
        # One batch first: nothing is known yet of how fast the environments ask, and a call returns only when
        # its last batch is answered.
        self._num_batches = 1

    def work(self):
        num_batches, start = self._num_batches, time.monotonic()
        busy = float(self._serve(self._actor_index, tf.constant(num_batches)))
        seconds = self._clock.lap(IDLE, [(INFERENCE, busy, num_batches)], num_batches) - start
        # At most twice as many batches as before: one quick call says little about the next ones.
        due = num_batches * _SECONDS_PER_CALL / max(seconds, 1e-9)
        self._num_batches = max(1, min(int(due), 2 * num_batches, _BATCHES_PER_CALL))
