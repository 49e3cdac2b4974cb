# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyQueues: a learn queue for each of several policies, and how an unroll is split among them."""

import tensorflow as tf

from alf.data_structures import FIRST, OWNER, count_transitions
from alf.drivers.queues import NestFIFOQueue
from alf.learner.learner_group import PolicyBatch
from alf.tf_runtime import trace

_NUM_ANNOUNCEMENTS = 64  # that may wait; whoever reads them never waits for those who write them


class PolicyQueues:
    """The learn queues of the policies that learn. An item is a sequence: a row's steps of an unroll.

    An unroll of a batched environment is split by rows. A row's sequence goes to each policy that acted in
    it, which is more than one where an episode ended and the next one has another policy. Steps of others
    become FIRST steps, which are no transitions, so each transition is in one queue. Their other fields are
    those of a step of the policy's own: data transformers and losses never see what another policy saw.

    Args:
        group: `PolicyGroup` that acts.
        specs: `EnvSpecs` of the environments.
        learner: `LearnerGroup` of the policies that learn.
        unroll_length: T.
        max_waiting_batches: batches of each policy that may wait. Then environments wait.
    """

    def __init__(self, group, specs, learner, unroll_length, max_waiting_batches):
        self._group = group
        self._learners, self._shapes = learner.learners, learner.shapes
        self._names = tuple(self._learners)
        self._queues = {}
        for name, one in self._learners.items():
            spec = specs.view(group, name).unroll_spec(
                group.policies[name], unroll_length, keep_bounds=False, with_env_info=one.uses_env_info
            )
            capacity = self._shapes[name].num_sequences * max_waiting_batches
            self._queues[name] = NestFIFOQueue(capacity, _drop_rows(spec), f"learn_queue_of_{name}")
        # Pairs of a policy's place in `_names` and how many sequences are enqueued next.
        pair = tf.TensorSpec((2,), tf.int32)
        self._announcements = NestFIFOQueue(_NUM_ANNOUNCEMENTS, pair, "announcements")
        self._waiting = dict.fromkeys(self._names, 0)  # sequences that were announced and not taken
        self._dequeue = {}

    def enqueue(self, unroll):
        """Splits an `Experience` of [T+1, B, ...] in the graph; returns the last operation.

        A policy's sequences are announced just before they are enqueued: `take` then waits for sequences
        whose thread waits for nothing but it.
        """
        done = tf.no_op()
        for place, name in enumerate(self._names):
            sequences = self._select(name, unroll)
            count = tf.shape(sequences.step_type)[0]
            with tf.control_dependencies([done, *tf.nest.flatten(sequences)]):
                announced = self._announcements.enqueue(tf.stack([place, count]))
            with tf.control_dependencies([announced]):
                done = self._queues[name].enqueue_many(sequences)
        return done

    def take(self):
        """Waits for a batch of any policy, that which is complete first.

        Returns:
            `PolicyBatch` and its environment steps, see `count_transitions`. Its `Experience` has
            [1, T+1, num_sequences, ...], or, if `BatchShape.splits_rows`, [num_sequences, T+1, 1, ...].

        Raises:
            tf.errors.OutOfRangeError: if the driver has stopped.
        """
        name = self._find_complete()
        while name is None:
            place, count = self._announcements.dequeue().numpy().tolist()
            name = self._names[place]
            self._waiting[name] += count
            name = name if self._waiting[name] >= self._shapes[name].num_sequences else None
        self._waiting[name] -= self._shapes[name].num_sequences
        if name not in self._dequeue:
            self._dequeue[name] = trace(lambda: self._take_batch(name))
        experience, steps = self._dequeue[name]()
        return PolicyBatch(name, experience), steps

    def size(self):
        """Sequences that wait now, an int."""
        return sum(queue.size() for queue in self._queues.values())

    def close(self):
        """Closes all queues, see `NestFIFOQueue.close`."""
        for queue in (self._announcements, *self._queues.values()):
            queue.close()

    def _find_complete(self):
        """The name of a policy of which a whole batch was announced, or None."""
        complete = (name for name, n in self._waiting.items() if n >= self._shapes[name].num_sequences)
        return next(complete, None)

    def _select(self, name, unroll):
        """Selects the sequences of a policy: `Experience` of [N, T+1, ...], state [N, ...]."""
        group = self._group
        is_own = tf.equal(unroll.observation[OWNER], group.names.index(name))
        # Row T has the answer of row T-1. If that is another policy's, row T begins an episode: it is row 0
        # of the next unroll, and nothing leads to it here.
        is_own = tf.concat([is_own[:-1], is_own[-2:-1] & is_own[-1:]], axis=0)
        rows = tf.where(tf.reduce_any(is_own, axis=0))[:, 0]
        is_own = tf.gather(tf.transpose(is_own), rows)
        num_steps = unroll.step_type.shape[0]
        # Where a step is another policy's, the first own one is in its place.
        step = tf.where(is_own, tf.range(num_steps, dtype=tf.int64), _find_first(is_own))
        index = tf.stack([step, tf.ones_like(step) * rows[:, tf.newaxis]], axis=-1)
        own = group.view(name, unroll)
        if not self._learners[name].uses_env_info:
            own = own._replace(env_info=())
        state = tf.nest.map_structure(lambda x: tf.gather(x, rows), own.state)
        own = tf.nest.map_structure(lambda x: tf.gather_nd(x, index), own._replace(state=()))
        return own._replace(step_type=tf.where(is_own, own.step_type, FIRST), state=state)

    def _take_batch(self, name):
        shape = self._shapes[name]
        batch = self._queues[name].dequeue_many(shape.num_sequences)
        rows, state = batch._replace(state=()), batch.state
        if shape.splits_rows:
            rows = tf.nest.map_structure(lambda x: x[:, :, tf.newaxis], rows)
            state = tf.nest.map_structure(lambda x: x[:, tf.newaxis], state)
        else:
            rows = tf.nest.map_structure(lambda x: tf.experimental.numpy.moveaxis(x, 0, 1)[tf.newaxis], rows)
            state = tf.nest.map_structure(lambda x: x[tf.newaxis], state)
        return rows._replace(state=state), count_transitions(rows.step_type)


def _find_first(is_own):
    """The first step where bool [N, T+1] holds, int64 [N, 1]."""
    return tf.argmax(tf.cast(is_own, tf.int32), axis=1)[:, tf.newaxis]


def _drop_rows(spec):
    """Specs of a sequence, [T+1, ...], from those of an unroll, [T+1, B, ...]; the state's have no T+1."""
    drop = lambda s: tf.TensorSpec((s.shape[0], *s.shape[2:]), s.dtype)  # noqa: E731
    rows = tf.nest.map_structure(drop, spec._replace(state=()))
    state = tf.nest.map_structure(lambda s: tf.TensorSpec(s.shape[1:], s.dtype), spec.state)
    return rows._replace(state=state)
