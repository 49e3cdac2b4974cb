# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Splitting a batch of unrolls into segments and minibatches, with an update for each part, in the graph."""

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, PolicyState
from alf.ops import draws
from alf.ops.gather import gather, gather_columns


def merge_unrolls(experience):
    """Makes one time-major batch of Q unrolls: [Q, T+1, B, ...] -> [T+1, Q*B, ...], state [Q*B, ...]."""

    def merge_rows(x):
        x = tf.experimental.numpy.moveaxis(x, 0, 1) if x.shape[0] != 1 else x[0][:, tf.newaxis]
        return tf.reshape(x, (x.shape[0], -1, *x.shape[3:]))

    rows = tf.nest.map_structure(merge_rows, experience._replace(state=()))
    state = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])), experience.state)
    return rows._replace(state=state)


def find_segments(num_steps, recurrence):
    """Returns the number N of the segments of an unroll, and their steps, which are at most `recurrence`.

    They are as few as possible and equally long; so the last one may have steps too many, fewer than N.

    Args:
        num_steps: int, T, transitions of the unroll.
        recurrence: int; None for one segment.
    """
    number = -(-num_steps // (recurrence or num_steps))
    return number, -(-num_steps // number)


def split_in_segments(batch, length, final_state):
    """Splits unrolls of T steps into N segments of `length` steps: shorter unrolls, side by side.

    The last row of a segment is also the first row of the next one. In the last row it only bootstraps, with
    weight 0, so each transition counts in one segment. Rows of the last segment after row T repeat it as
    FIRST steps of weight 0.

    Args:
        batch: pair of an `Experience` of [T+1, B, ...] with a state of [B, ...], and a nest of [T+1, B, ...].
        length: int, the second result of `find_segments`.
        final_state: callable (`Experience` of [length, B, ...]) -> nest of [B, ...], the recurrent state
            after these rows. It is called only if the policy has a recurrent state.

    Returns:
        such a pair of [length + 1, N * B, ...], with the state that enters each segment.
    """
    experience, prepared = batch
    last = experience.step_type.shape[0] - 1
    starts = range(0, last, length)
    rows = experience._replace(state=())
    states = [experience.state.train]
    # One segment after another: the state that enters a segment is the final state of the one before.
    # This runs before the tape of the loss begins, so no gradient goes back into the segment before.
    for start in starts[:-1] if tf.nest.flatten(states) else ():
        part = tf.nest.map_structure(lambda x, start=start: x[start : start + length], rows)
        states.append(final_state(part._replace(state=PolicyState(train=states[-1]))))
    numbers = np.arange(length + 1, dtype=np.int32)[:, np.newaxis] + np.array(starts, np.int32)
    index, is_over = tf.constant(np.minimum(numbers, last)), numbers > last

    def cut(x):
        return tf.reshape(gather(x, index), (length + 1, -1, *x.shape[2:]))

    segments, prepared = tf.nest.map_structure(cut, (rows, prepared))
    if is_over.any():  # No step to a FIRST one is a transition: returns end at row T.
        is_over = is_over.repeat(experience.step_type.shape[1], axis=1)
        segments = segments._replace(step_type=tf.where(is_over, FIRST, segments.step_type))
    # The last row of a segment has the weight of its transition in the next segment, but not here.
    weight = tf.pad(segments.weight[:-1], [[0, 1], [0, 0]])
    state = tf.nest.map_structure(lambda *x: tf.concat(x, axis=0), *states)
    return segments._replace(weight=weight, state=PolicyState(train=state)), prepared


def shuffle_in_parts(num_columns, num_epochs, num_minibatches, stream, num_updates):
    """Shuffles the columns of a batch for every epoch and splits them into minibatches, in the graph.

    A column is an environment or a segment. Columns stay whole, because recurrent policies and returns need
    the steps in their order.

    Args:
        num_columns, num_epochs, num_minibatches: ints; the last must divide the first.
        stream: `alf.ops.draws.Stream` of the orders.
        num_updates: int64 scalar, the updates before the first of these.

    Returns:
        int32 [num_epochs * num_minibatches, num_columns / num_minibatches], the columns of each update; None
        if there is one update, with all columns.
    """
    if num_epochs * num_minibatches == 1:
        return None
    order, orders = tf.range(num_columns), []
    for epoch in range(num_epochs):
        with stream.at([(0, num_updates + epoch * num_minibatches)]):
            order = draws.shuffle(order)
        orders.append(order)
    return tf.reshape(tf.stack(orders), (num_epochs * num_minibatches, -1))


def select_columns(batch, columns):
    """Selects columns, int32 [N], of an `Experience` and a nest of [T+1, B, ...], the pair `batch`."""
    experience, prepared = batch
    prepared = tf.nest.map_structure(lambda x: gather(x, columns, axis=1), prepared)
    return gather_columns(experience, columns), prepared
