# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PolicyQueues: a learn queue for each of several policies, and how an unroll is split among them."""

import math

import tensorflow as tf

from alf.core.tf_runtime import GraphFunction
from alf.data_structures import FIRST, OWNER, count_transitions
from alf.drivers.queues import NestFIFOQueue
from alf.learner.learner_group import PolicyBatch

_NUM_ANNOUNCEMENTS = 64  # that may wait; whoever reads them never waits for those who write them


class PolicyQueues:
    """The learn queues of the policies that learn. An item is a part of an unroll: some of its sequences.

    A sequence is a row's steps of an unroll. It goes to each policy that acted in it, which is more than one
    where an episode ended and the next one has another policy. Steps of others become FIRST steps, which are
    no transitions, so each transition is in one queue. Their other fields are those of a step of the policy's
    own: data transformers and losses never see what another policy saw.

    Args:
        group: `PolicyGroup` that acts.
        specs: `EnvSpecs` of the environments.
        learner: `LearnerGroup` of the policies that learn.
        unroll_length: T.
        max_waiting_batches: batches of each policy that may wait, as far as parts are as large as unrolls.
            Then environments wait.
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
            parts_of_batch = math.ceil(self._shapes[name].num_sequences / specs.batch_size)
            capacity = parts_of_batch * max_waiting_batches
            self._queues[name] = NestFIFOQueue(capacity, _of_some_rows(spec), f"learn_queue_of_{name}")
        # Of each part that is enqueued next: the policy's place in `_names`.
        place = tf.TensorSpec((), tf.int32)
        self._announcements = NestFIFOQueue(_NUM_ANNOUNCEMENTS, place, "announcements")
        # Sequences that were taken from the queues and wait until a batch is complete, and their numbers.
        self._waiting = {name: _make_variables(queue.spec) for name, queue in self._queues.items()}
        self._counts = dict.fromkeys(self._names, 0)
        self._cut = GraphFunction(self._cut_batch)

    def enqueue(self, unroll):
        """Splits an `Experience` of [T+1, B, ...] in the graph; returns the last operation.

        A part is announced just before it is enqueued: `take` then waits for a part whose thread waits for
        nothing but it.
        """
        done = tf.no_op()
        for place, name in enumerate(self._names):
            # A part without sequences is enqueued, too: a `tf.cond` would cost more.
            part = self._select(name, unroll)
            with tf.control_dependencies([done, *tf.nest.flatten(part)]):
                announced = self._announcements.enqueue(tf.constant(place))
            with tf.control_dependencies([announced]):
                done = self._queues[name].enqueue(part)
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
        if name is not None:
            return self._take_batch(name, takes_part=False)
        batch = None
        while batch is None:
            batch = self._take_batch(self._names[int(self._announcements.dequeue())], takes_part=True)
        return batch

    def size(self):
        """Parts that wait in the queues now, an int."""
        return sum(queue.size() for queue in self._queues.values())

    def close(self):
        """Closes all queues, see `NestFIFOQueue.close`."""
        for queue in (self._announcements, *self._queues.values()):
            queue.close()

    def _take_batch(self, name, takes_part):
        """Takes the next part of a policy, if so; then a batch, as `take` does, or None if there are too few.

        Which part it takes is not known before: another thread may have enqueued one since it was announced.
        """
        experience, steps, num_rows = self._cut((), name, takes_part, self._counts[name] > 0)
        num_rows, size = int(num_rows), self._shapes[name].num_sequences
        is_complete = num_rows >= size
        self._counts[name] = num_rows - size if is_complete else num_rows
        return (PolicyBatch(name, experience), steps) if is_complete else None

    def _find_complete(self):
        """The name of a policy of which a whole batch waits, or None."""
        complete = (name for name, n in self._counts.items() if n >= self._shapes[name].num_sequences)
        return next(complete, None)

    def _select(self, name, unroll):
        """Selects the sequences of a policy: `Experience` of [T+1, N, ...], state [N, ...]."""
        group = self._group
        is_own = tf.equal(unroll.observation[OWNER], group.names.index(name))
        # Row T has the answer of row T-1. If that is another policy's, row T begins an episode: it is row 0
        # of the next unroll, and nothing leads to it here.
        is_own = tf.concat([is_own[:-1], is_own[-2:-1] & is_own[-1:]], axis=0)
        rows = tf.where(tf.reduce_any(is_own, axis=0))[:, 0]
        is_own = tf.gather(is_own, rows, axis=1)
        steps = tf.range(unroll.step_type.shape[0], dtype=tf.int64)[:, tf.newaxis]
        # Where a step is another policy's, the first own one is in its place.
        step = tf.where(is_own, steps, tf.argmax(tf.cast(is_own, tf.int32), axis=0))
        index = tf.stack([step, tf.ones_like(step) * rows], axis=-1)
        own = group.view(name, unroll)
        if not self._learners[name].uses_env_info:
            own = own._replace(env_info=())
        state = tf.nest.map_structure(lambda x: tf.gather(x, rows), own.state)
        own = tf.nest.map_structure(lambda x: tf.gather_nd(x, index), own._replace(state=()))
        return own._replace(step_type=tf.where(is_own, own.step_type, FIRST), state=state)

    def _cut_batch(self, _, name, takes_part, some_wait):
        """Cuts a batch from the sequences that wait, and from the next part in the queue of a policy.

        Args:
            name: of the policy.
            takes_part: whether it takes a part.
            some_wait: whether any sequences wait.

        Returns:
            the batch and its environment steps, and how many sequences there were. If these are too few, all
            of them go on waiting, and the batch is without sequences.
        """
        size, splits_rows = self._shapes[name]

        def cut(axis, variable, *rows):
            rows = tf.concat(rows, axis) if len(rows) > 1 else rows[0]
            num_rows = tf.shape(rows)[axis]
            size_of_batch = tf.where(num_rows >= size, size, 0)
            batch, rest = tf.split(rows, [size_of_batch, num_rows - size_of_batch], axis)
            variable.assign(rest, read_value=False)
            if not splits_rows:
                return batch[tf.newaxis]
            return tf.expand_dims(tf.experimental.numpy.moveaxis(batch, axis, 0), axis + 1)

        with tf.device("CPU:0"):
            sources = []
            if some_wait:
                sources.append(_map_rows(lambda axis, variable: variable.read_value(), self._waiting[name]))
            if takes_part:
                sources.append(self._queues[name].dequeue())
            batch = _map_rows(cut, self._waiting[name], *sources)
            num_rows = tf.add_n([tf.shape(source.step_type)[1] for source in sources])
            return batch, count_transitions(batch.step_type), num_rows


def _map_rows(function, *parts):
    """Calls a function (axis of the rows, *tensors) for each tensor of `Experience`s of [T+1, N, ...]."""
    rows = (part._replace(state=()) for part in parts)
    mapped = tf.nest.map_structure(lambda *x: function(1, *x), *rows)
    state = tf.nest.map_structure(lambda *x: function(0, *x), *(part.state for part in parts))
    return mapped._replace(state=state)


def _of_some_rows(spec):
    """The spec of an unroll, [T+1, B, ...], with any number of rows."""
    return _map_rows(
        lambda axis, s: tf.TensorSpec((*s.shape[:axis], None, *s.shape[axis + 1 :]), s.dtype), spec
    )


def _make_variables(spec):
    """Variables like a spec, without rows at first."""

    def make(s):
        return tf.Variable(tf.zeros([n or 0 for n in s.shape], s.dtype), trainable=False, shape=s.shape)

    with tf.device("CPU:0"):
        return tf.nest.map_structure(make, spec)
